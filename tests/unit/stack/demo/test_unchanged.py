"""Chance is not change: Poisson noise passes, a stop, an edit or a drift does not."""

import math

import pytest

from stack.demo.unchanged import Counts, UnchangedLoad, tolerance

RATE = 500.0


def watch(rates: list[float], target: float = RATE) -> UnchangedLoad:
    """One look a second, each second with its own offered rate."""
    load, offered = UnchangedLoad(RATE), 0.0
    load.see(Counts(0.0, 0.0, 0.0, target))
    for second, rate in enumerate(rates, start=1):
        offered += rate
        load.see(Counts(float(second), offered, offered, target))
    return load


@pytest.mark.parametrize(
    ("rates", "stopped", "fault"),
    [
        ([RATE] * 30, False, None),
        ([RATE] * 5, False, None),  # too short to judge, not wrong
        ([600.0, 400.0] * 15, False, None),  # uneven seconds, even stretches
        ([RATE] * 20 + [0.0] * 3, False, None),  # three quiet seconds are not yet a stop ...
        ([RATE] * 20 + [0.0] * 4, True, None),  # ... four are, and a stop is not called a drift
        ([RATE] * 20 + [10.0] * 4, True, None),  # as good as stopped
        ([RATE] * 20 + [350.0] * 14, False, "drifted to 350/s from 20 s to 30 s; 500/s were to be offered"),
        ([RATE] * 20 + [600.0] * 14, False, "drifted to 600/s"),
    ],
)
def test_what_is_seen(rates: list[float], stopped: bool, fault: str | None) -> None:
    load = watch(rates)
    assert load.stopped is stopped
    said = load.fault()
    assert said is None if fault is None else said is not None and fault in said


def test_an_edit_is_seen_at_once_and_a_zero_target_is_left_to_the_counts() -> None:
    said = watch([RATE], target=250.0).fault()
    assert said == "the load was changed from 500/s to 250/s at 1 s"
    assert watch([RATE], target=0.0).fault() is None


def test_chance_shrinks_with_the_count() -> None:
    assert tolerance(100) == pytest.approx(0.43)
    assert tolerance(40_000) == pytest.approx(0.05)


def test_over_a_long_time_small_changes_show_at_both_ends() -> None:
    load, start = UnchangedLoad(RATE), Counts(40.0, 20_000, 19_000, RATE)
    assert load.fault_since(start, Counts(140.0, 70_000, 68_900, RATE)) is None
    assert load.fault_since(start, Counts(140.0, 67_000, 66_000, RATE)) == (
        "470/s were offered since then instead of 500/s"
    )
    assert load.fault_since(start, Counts(140.0, 70_000, 66_000, RATE)) == (
        "the service counted only 470/s of the 500/s offered since then"
    )


def test_what_is_long_past_is_forgotten() -> None:
    load = watch([RATE] * 1000)
    assert len(load._seen) < 40
    assert math.isclose(load.rate, RATE)
