"""A run ends early when its objective has been broken for as long as was asked, and not sooner."""

import pytest

from loadtest.run.breach import Breach, window_seconds
from loadtest.run.watch import Standing


def standing(elapsed: float, good: int, bad: int, recent: float = 5.0) -> Standing:
    return Standing(
        elapsed_seconds=elapsed,
        offered=0,
        completed=0,
        failed=0,
        dropped=0,
        in_flight=0,
        oldest_seconds=0.0,
        recent_seconds=recent,
        recent_offered=good + bad,
        recent_completed=good,
        recent_good=good,
        recent_bad=bad,
        p50=0.0,
        p95=0.0,
        p99=0.0,
        lateness_p99=0.0,
    )


def test_it_has_to_last() -> None:
    breach = Breach(0.99, for_seconds=10, warmup_seconds=0)
    looks = [(10, True), (19.5, True), (20, True)]
    assert [breach.lasts(standing(at, 90, 10)) for at, _ in looks] == [False, False, True]


def test_a_pause_begins_it_anew() -> None:
    breach = Breach(0.99, for_seconds=10, warmup_seconds=0)
    assert not breach.lasts(standing(10, 90, 10))
    assert not breach.lasts(standing(15, 100, 1))  # inside the budget
    assert not breach.lasts(standing(20, 90, 10))
    assert not breach.lasts(standing(29, 90, 10))
    assert breach.lasts(standing(30, 90, 10))


def test_the_warm_up_is_none() -> None:
    breach = Breach(0.99, for_seconds=1, warmup_seconds=20)
    assert not breach.lasts(standing(24, 0, 100))  # some of what is recent belongs to the warm-up
    assert not breach.lasts(standing(25, 0, 100))
    assert breach.lasts(standing(26, 0, 100))


@pytest.mark.parametrize(("rate", "expected"), [(1000, 5.0), (100, 5.0), (10, 20.0)])
def test_the_window_has_arrivals_enough_for_a_budget(rate: float, expected: float) -> None:
    assert window_seconds(0.99, 10, rate) == pytest.approx(expected)
    assert window_seconds(0.99, 2, 1000) == 1
