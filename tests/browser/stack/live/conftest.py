"""A page in a real browser, whose every complaint is kept."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stack.binaries import Binaries, BinariesError, obtain


@pytest.fixture(scope="session")
def binaries(missing: Callable[[str], None]) -> Binaries:
    """The real programs: from PATH or .tailboard, else fetched."""
    try:
        return obtain(say=lambda line: None)
    except BinariesError as error:
        missing(str(error))
        raise


@pytest.fixture
def complaints() -> list[str]:
    """What the browser's console had to say; a test ends with it empty."""
    return []


@pytest.fixture
def open_page(chromium: Any, complaints: list[str]) -> Iterator[Callable[..., Any]]:
    """A function that opens an address in a context of its own."""
    contexts: list[Any] = []

    def opened(url: str, **options: Any) -> Any:
        context = chromium.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
