"""What one setting passed and failed."""

import math
from collections.abc import Callable

import pytest

from loadtest.analysis.tuner.frontier import Frontier, frontiers
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Measured

Make = Callable[..., Measured]
KNOBS = Knobs(32, 0.0)


def of(*trials: Measured) -> Frontier:
    return Frontier(KNOBS, 0.05, trials)


def test_the_bracket(measured: Make) -> None:
    known = of(measured(100, 0.01), measured(400, math.inf), measured(200, 0.03), measured(300, 0.09))
    assert (known.passed_rate, known.failed_rate, known.contradictions()) == (200, 300, [])


def test_nothing_is_known_without_valid_trials(measured: Make) -> None:
    known = of(measured(100, 0.01, verdict="INVALID"))
    assert (known.passed_rate, known.failed_rate, known.capacity()) == (None, None, None)
    with pytest.raises(ValueError, match="batch 32"):
        known.between()


def test_a_pass_above_a_fail_is_told(measured: Make) -> None:
    known = of(measured(100, 0.01), measured(200, 0.06), measured(300, 0.03), measured(400, 0.2))
    assert (known.passed_rate, known.failed_rate, known.contradictions()) == (300, 400, [200])


@pytest.mark.parametrize(
    ("p99s", "passed"), [((0.04, 0.06), None), ((0.04, 0.06, 0.04), 200), ((0.06, 0.04, 0.06), None)]
)
def test_a_rate_that_was_tried_again_goes_by_the_majority(
    measured: Make, p99s: tuple[float, ...], passed: float | None
) -> None:
    assert of(*(measured(200, p99) for p99 in p99s)).passed_rate == passed


def test_the_guess_lies_where_the_slack_is_one(measured: Make) -> None:
    # 1/p99 falls linearly in a queue: 100/s has twice the slack needed, 400/s none, so that of 1 is half way in ln.
    assert of(measured(100, 0.025), measured(400, math.inf)).between() == pytest.approx(200, rel=0.01)
    assert 101 < of(measured(100, 0.0499), measured(400, math.inf)).between() < 200


def test_settings_in_the_order_of_their_first_trial(measured: Make) -> None:
    other = Knobs(1, 0.0)
    found = frontiers([measured(1, 0.01), measured(2, 0.01, knobs=other), measured(3, 0.01)], 0.05)
    assert [(each.knobs, len(each.trials)) for each in found] == [(KNOBS, 2), (other, 1)]
