"""Prometheus's own tools: as the stack finds them on any machine, and as new as Debian has them."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from stack.binaries import Binaries, BinariesError, obtain
from tests.newer_binaries import obtain_newer


@pytest.fixture(scope="session")
def binaries(missing: Callable[[str], NoReturn]) -> Binaries:
    try:
        return obtain(say=lambda line: None)
    except BinariesError as error:
        missing(str(error))


@pytest.fixture(scope="session")
def newer_binaries(missing: Callable[[str], NoReturn]) -> Binaries:
    try:
        return obtain_newer()
    except BinariesError as error:
        missing(str(error))


@pytest.fixture(scope="session", params=["binaries", "newer_binaries"], ids=["release", "newest"])
def each_binaries(request: pytest.FixtureRequest) -> Binaries:
    """Both in turn: a test that asks for it runs twice."""
    found: Binaries = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session")
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a tool to its end; output and errors together, as a person would see them."""

    def tool(program: Path, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=280,
            cwd=cwd,
            check=False,
        )

    return tool
