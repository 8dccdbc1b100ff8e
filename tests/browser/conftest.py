"""A file opened as a person would open it that somebody sent: without a network."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SIZES = {"wide": (1280, 900), "phone": (390, 844)}


@pytest.fixture
def open_offline(chromium: Any) -> Iterator[Callable[[Path, str, str], Any]]:
    """Opens a page in a size and a colour scheme; its complaints and requests are collected in `page.troubles`."""
    contexts = []

    def open_page(path: Path, size: str, scheme: str) -> Any:
        width, height = SIZES[size]
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.troubles = []
        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        page.on("console", lambda said: page.troubles.append(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda asked: page.troubles.append(asked.url) if asked.url.startswith("http") else None)
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
