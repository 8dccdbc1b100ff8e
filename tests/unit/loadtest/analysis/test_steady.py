"""Steady runs are left in peace, and runs that are not are found out."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from loadtest.analysis.samples import SAMPLE, End, Samples
from loadtest.analysis.steady import Steadiness, steadiness

RATE = 200.0
SECONDS = 30.0


def run(scheduled: npt.NDArray[np.float64], total: npt.NDArray[np.float64]) -> Samples:
    rows = np.zeros(len(scheduled), dtype=SAMPLE)
    rows["scheduled"] = rows["sent"] = scheduled
    rows["done"] = scheduled + total
    return Samples(rows)


def seen(samples: Samples, start: float = 0.0, end: float = SECONDS) -> Steadiness:
    found = steadiness(samples, start, end)
    assert found is not None
    return found


def served(service_seconds: float, seed: int = 1) -> Samples:
    """A queue with Poisson arrivals and services of that fixed length."""
    scheduled = np.cumsum(np.random.default_rng(seed).exponential(1 / RATE, int(RATE * SECONDS)))
    # Each starts when it comes or when the one before is done: a running maximum of what each would end at alone.
    numbers = np.arange(1, len(scheduled) + 1) * service_seconds
    done = np.maximum.accumulate(scheduled - numbers + service_seconds) + numbers
    return run(scheduled, done - scheduled)


@pytest.mark.parametrize(("load", "arrivals", "runs"), [(0.5, 2_000, 150), (0.9, 2_000, 150), (0.8, 12_000, 60)])
def test_false_alarms_on_steady_queues(queues: Callable[..., Any], load: float, arrivals: int, runs: int) -> None:
    simulated = queues(load, runs, arrivals, seed=11)
    found = [
        seen(run(at, total), 0, arrivals) for at, total in zip(simulated.arrivals, simulated.sojourns, strict=True)
    ]
    assert sum(each.grows for each in found) <= 0.01 * len(found)
    assert sum(len(each.notes) > each.warming for each in found) <= 0.05 * len(found)  # rose, yet not much
    assert sum(each.warming for each in found) <= 0.05 * len(found)


@pytest.mark.parametrize("load", [1.05, 1.2, 2.0])
def test_a_service_that_cannot_keep_up_is_seen(load: float) -> None:
    found = [seen(served(load / RATE, seed)) for seed in range(20)]
    assert all(each.grows for each in found)
    assert found[0].backlog.startswith("the backlog grew from ")
    assert "cannot keep up" in found[0].backlog


def test_a_service_with_room_is_not_accused() -> None:
    found = seen(served(0.5 / RATE))
    assert (found.grows, found.warming, found.notes) == (False, False, ())
    assert found.backlog.startswith("the backlog did not grow")


def test_one_stall_is_no_growth_wherever_it_comes() -> None:
    for begin in np.arange(0.0, 29.0, 1.0):
        scheduled = np.arange(0, SECONDS, 1 / RATE)
        stalled = (scheduled >= begin) & (scheduled < begin + 1)
        total = np.where(stalled, begin + 1 - scheduled, 0.0) + 0.005
        assert not seen(run(scheduled, total)).grows


def test_a_service_that_freezes_near_the_end_is_no_growth() -> None:
    scheduled = np.arange(0, SECONDS, 1 / RATE)
    total = np.where(scheduled >= SECONDS - 3, 10.0, 0.005)
    found = seen(run(scheduled, total))
    assert found.backlog_last > 0.02 * len(scheduled)  # it would be material
    assert not found.grows


def test_a_backlog_that_was_worked_off_is_no_growth() -> None:
    scheduled = np.arange(0, SECONDS, 1 / RATE)
    found = seen(run(scheduled, np.minimum(0.1 * scheduled, np.maximum(28.0 - scheduled, 0.005))))
    assert found.backlog_last < 2
    assert not found.grows


def test_requests_under_way_when_measuring_begins_are_no_growth() -> None:
    scheduled = np.arange(0, SECONDS, 1 / RATE)
    samples = run(scheduled, np.full(len(scheduled), 2.0))  # 400 in flight, from two seconds on
    found = seen(samples, start=5.0)
    assert not found.grows
    assert found.backlog_first == pytest.approx(400, rel=0.01)


def test_requests_without_an_outcome_are_backlog_and_dropped_ones_are_not() -> None:
    samples = served(0.1 / RATE)
    for end, grows in ((End.IN_FLIGHT, True), (End.GAP, False)):
        rows = samples.rows.copy()
        rows["end"][::2] = end
        rows["done"][::2] = math.nan
        assert seen(Samples(rows)).grows is grows


def test_a_warm_up_that_goes_on_is_said() -> None:
    random = np.random.default_rng(12)
    scheduled = np.arange(0, SECONDS, 1 / RATE)
    level = 0.005 * (1 + 3 * np.exp(-scheduled / 2.0))  # four times slower at first
    samples = run(scheduled, level * random.exponential(1, len(scheduled)))
    found = seen(samples)
    assert found.warming
    assert found.notes[0].startswith("The warm-up was too short: answers in the first 1.5 s measured took")
    assert not seen(samples, start=12.0).warming


def test_a_little_slower_at_first_is_not_worth_a_note() -> None:
    scheduled = np.arange(0, SECONDS, 1 / RATE)
    assert not seen(run(scheduled, 0.005 * (1 + 0.15 * np.exp(-scheduled / 2.0)))).warming


def test_too_few_arrivals_say_nothing() -> None:
    assert steadiness(run(np.arange(0, 10, 0.1), np.full(100, 0.01)), 0, 10) is None
    assert steadiness(Samples(np.empty(0, dtype=SAMPLE)), 0, 10) is None
