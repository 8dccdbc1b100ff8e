"""The rate at which the slack is 1."""

import math
from collections.abc import Callable

import pytest

from loadtest.analysis.tuner.capacity import estimate, slack
from loadtest.analysis.tuner.trial import Measured

THRESHOLD = 0.05
Make = Callable[..., Measured]


def on_line(rate: float, capacity: float, slope: float) -> float:
    """The p99 whose slack lies on the line."""
    return THRESHOLD / (1 - slope * math.log(rate / capacity))


@pytest.mark.parametrize("slope", [2.0, 7.0, 20.0])
def test_a_line_is_found_again(measured: Make, slope: float) -> None:
    trials = [measured(rate, on_line(rate, 1_000, slope), width=0.02) for rate in (930, 960, 1_010, 1_030)]
    found = estimate(trials, THRESHOLD, 980)
    assert found is not None
    assert found.rate == pytest.approx(1_000, rel=0.003)
    assert found.slope == pytest.approx(slope, rel=0.15)
    assert found.error < 0.01
    assert found.slack(found.rate) == 1


def test_one_trial_gives_an_answer_with_a_large_error(measured: Make) -> None:
    near = estimate([measured(1_000, 0.048)], THRESHOLD, 1_000)
    far = estimate([measured(1_000, 0.025)], THRESHOLD, 1_000)
    assert near is not None
    assert far is not None
    assert 1_000 < near.rate < far.rate
    assert near.error < far.error


def test_trials_far_from_the_objective_say_nothing_about_it(measured: Make) -> None:
    assert estimate([measured(300, 0.049), measured(2_000, math.inf)], THRESHOLD, 1_000) is None
    assert estimate([measured(1_000, 0.001)], THRESHOLD, 1_000) is None  # there the line is known to bend
    assert estimate([measured(1_000, 0.049, verdict="INVALID")], THRESHOLD, 1_000) is None


def test_a_trial_that_could_no_longer_pass_says_by_how_soon_that_was(measured: Make) -> None:
    late = measured(1_000, math.inf, offered=9_000)
    soon = measured(1_000, math.inf, offered=1_500)
    assert 1 > slack(late, THRESHOLD)[0] > slack(soon, THRESHOLD)[0] > 0.5
    assert slack(late, THRESHOLD)[1] < slack(soon, THRESHOLD)[1]


def test_a_wide_interval_is_believed_less_than_it_says(measured: Make) -> None:
    sharp, wide = measured(1_000, 0.04, width=0.01), measured(1_000, 0.04, width=0.5)
    assert slack(wide, THRESHOLD)[0] < slack(sharp, THRESHOLD)[0] == pytest.approx(1.25, abs=0.001)


def test_a_complete_trial_is_not_taken_for_a_short_one(measured: Make) -> None:
    assert not measured(1_000, 0.06, offered=9_700).ended_early  # three standard deviations
    assert measured(1_000, 0.06, offered=9_500).ended_early
