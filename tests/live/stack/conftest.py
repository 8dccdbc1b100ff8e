"""Settings on free ports and in a directory of the test's own, and whether a process is really gone."""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil
import pytest

from stack.binaries import Binaries, BinariesError, obtain
from stack.settings import StackSettings


@pytest.fixture(scope="session")
def binaries(missing: Callable[[str], None]) -> Binaries:
    """The real programs: from PATH or .tailboard, else fetched."""
    try:
        return obtain(say=lambda line: None)
    except BinariesError as error:
        missing(str(error))
        raise


@pytest.fixture
def environment(tmp_path: Path, free_port: Callable[[], int]) -> dict[str, str]:
    """Of a stack that gets in nobody's way."""
    names = (
        *("SERVICE_PORT", "SERVICE_ADMIN_PORT", "LOCUST_PORT", "LOCUST_METRICS_PORT", "PROMETHEUS_PORT"),
        *("ALERTMANAGER_PORT", "GRAFANA_PORT", "LIVE_PORT", "INBOX_PORT"),
    )
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("SERVICE_", "TAILBOARD_"))}
    return {**ours, **{name: str(free_port()) for name in names}, "TAILBOARD_STATE_DIR": str(tmp_path / "state")}


@pytest.fixture
def settings(environment: dict[str, str]) -> StackSettings:
    return StackSettings.from_environment(environment)


def alive(pids: Iterable[int]) -> list[int]:
    """Those that still run; a zombie that nobody has reaped does not."""
    running = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                running.append(pid)
        except psutil.NoSuchProcess:
            pass
    return running


@pytest.fixture
def all_gone() -> Callable[[Iterable[int]], bool]:
    """Whether none of these processes runs any more, or soon."""

    def wait(pids: Iterable[int], within_seconds: float = 5.0) -> bool:
        pids = list(pids)
        end = time.monotonic() + within_seconds
        while alive(pids) and time.monotonic() < end:
            time.sleep(0.05)
        return not alive(pids)

    return wait


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    process = psutil.Process(pid)
    return [pid, *(child.pid for child in process.children(recursive=True))]


@pytest.fixture
def whole_family() -> Callable[[int], list[int]]:
    return family
