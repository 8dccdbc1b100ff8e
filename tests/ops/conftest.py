"""Prometheus's own tools, as the stack finds them on any machine."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from stack.binaries import Binaries, BinariesError, obtain


@pytest.fixture(scope="session")
def binaries(missing: Callable[[str], NoReturn]) -> Binaries:
    try:
        return obtain(say=lambda line: None)
    except BinariesError as error:
        missing(str(error))


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
