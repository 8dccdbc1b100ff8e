"""Rest is a second in which next to nothing was done."""

import os

import pytest

from stack.demo.rest import LONGEST_SECONDS, cpu_seconds_of, until_idle


class Machine:
    """Works at the given share of a CPU in each second, the last one for ever."""

    def __init__(self, *shares: float) -> None:
        self.shares = shares
        self.time = self.worked = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.worked += seconds * self.shares[min(int(self.time), len(self.shares) - 1)]
        self.time += seconds

    def cpu_seconds(self) -> float:
        return self.worked


@pytest.mark.parametrize(
    ("shares", "rests", "after"),
    [((0.1,), True, 1.0), ((1.3, 1.0, 0.9, 0.2), True, 4.0), ((1.0,), False, LONGEST_SECONDS)],
)
def test_it_waits_for_a_quiet_second_but_not_for_ever(shares: tuple[float, ...], rests: bool, after: float) -> None:
    machine = Machine(*shares)
    assert until_idle(machine.cpu_seconds, machine) is rests
    assert machine.time == after


def test_cpu_time_is_that_of_the_living() -> None:
    gone = 2**22 + 1  # above what Linux gives out
    before = cpu_seconds_of([os.getpid(), gone])
    sum(range(3_000_000))
    assert cpu_seconds_of([os.getpid()]) > before > 0
    assert cpu_seconds_of([gone]) == 0
