"""Fixtures that every kind of test may use: free ports, and tools that must be there in CI."""

import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root, from which every program runs."""
    return ROOT


@pytest.fixture(scope="session")
def missing() -> Callable[[str], NoReturn]:
    """Says that something a test needs is not here: a named skip on a person's machine, a failure in CI."""

    def say(what: str) -> NoReturn:
        if os.environ.get("CI"):
            pytest.fail(f"CI must have it: {what}")
        pytest.skip(what)

    return say


@pytest.fixture(scope="session")
def tool(missing: Callable[[str], NoReturn]) -> Callable[[str], Path]:
    """Path of a program on PATH, or the named skip."""

    def find(name: str) -> Path:
        found = shutil.which(name)
        if found is None:
            missing(f"the program '{name}' is not on PATH")
        return Path(found)

    return find


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """A function that gives a loopback port nobody listens on, a different one at each call.

    Below the range from which the kernel takes the ports of outgoing connections: one of those could take it first.
    """
    given: set[int] = set()

    def take() -> int:
        while True:
            port = random.randrange(20_000, 32_000)
            if port in given:
                continue
            given.add(port)
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            return port

    return take


@pytest.fixture(scope="module")
def chromium(tool: Callable[[str], Path]) -> Iterator[Any]:
    """A headless browser for one module; open a context of your own per test.

    Not for the session: while Playwright runs, its event loop counts as running in this thread, and `asyncio.run`
    would be refused to every test that comes after.
    """
    from playwright.sync_api import sync_playwright

    path = tool("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(path), args=list(CHROMIUM_ARGUMENTS))
        yield browser
        browser.close()
