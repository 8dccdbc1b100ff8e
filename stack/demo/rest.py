"""Waiting until a stack that is ready has also come to rest: the service still warms up a spare worker."""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

import psutil

IDLE_CPUS: Final = 0.35  # what six idle programs and their scrapes need, with room
LONGEST_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 1.0


class Clock(Protocol):
    def now(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


def until_idle(cpu_seconds: Callable[[], float], clock: Clock) -> bool:
    """True once a second has passed with little work done; False when that did not happen in LONGEST_SECONDS."""
    began = clock.now()
    while clock.now() - began < LONGEST_SECONDS:
        start, worked = clock.now(), cpu_seconds()
        clock.sleep(_LOOK_SECONDS)
        if cpu_seconds() - worked <= IDLE_CPUS * (clock.now() - start):
            return True
    return False


def cpu_seconds_of(pids: Iterable[int]) -> float:
    """CPU time so far of these processes and all their descendants that live."""
    total = 0.0
    for pid in pids:
        try:
            process = psutil.Process(pid)
            family = [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
        for member in family:
            try:
                times = member.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
    return total
