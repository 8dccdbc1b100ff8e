"""The rates that are tried, against services with a known knee."""

from collections.abc import Callable

import pytest

from stack.demo.ramp import GROWTH, NARROW, Step, largest_met, measure_seconds, next_rate


def climb(
    knee: float, first: float, steps_left: int, generator: Callable[[float], float] = lambda rate: rate
) -> list[Step]:
    steps: list[Step] = []
    while (rate := next_rate(steps, first, steps_left - len(steps))) is not None:
        offered = generator(rate)
        steps.append(Step(rate, offered, 5.0, met=offered <= knee, served_rps=min(offered, 1.1 * knee)))
    return steps


@pytest.mark.parametrize("knee", [130.0, 180.0, 1_000.0, 3_300.0])
def test_the_knee_is_enclosed_and_a_point_lies_well_beyond_it(knee: float) -> None:
    steps = climb(knee, 100.0, 20)
    met, missed = max(s.rate for s in steps if s.met), min(s.rate for s in steps if not s.met)
    assert met <= knee < missed <= met * NARROW
    assert max(s.rate for s in steps) >= 1.3 * min(s.rate for s in steps[:-1] if not s.met)
    assert largest_met(steps) == met
    assert len(steps) <= 13


def test_few_steps_go_up_and_beyond_before_they_narrow() -> None:
    rates = [step.rate for step in climb(150.0, 100.0, 4)]
    assert rates == pytest.approx([100, 160, 216, 126.5], rel=0.01)


def test_time_gone_means_no_more_steps() -> None:
    assert next_rate([], 100.0, 0) is None
    assert len(climb(5_000.0, 100.0, 3)) == 3


def test_where_the_first_rate_misses_it_goes_down_but_not_for_ever() -> None:
    steps = climb(50.0, 100.0, 20)
    assert [step.rate for step in steps[:3]] == pytest.approx([100, 100 / GROWTH, 100 / GROWTH**2])
    assert steps[2].met
    never = climb(0.0, 100.0, 20)
    assert len(never) == 4
    assert largest_met(never) is None


def test_a_generator_at_its_limit_ends_the_climb() -> None:
    steps = climb(10_000.0, 1_000.0, 20, generator=lambda rate: min(rate, 2_000.0))
    assert [step.rate for step in steps] == pytest.approx([1_000, 1_600, 2_560])
    assert not steps[-1].generator_kept_up


def test_a_miss_that_a_higher_rate_contradicts_is_looked_at_again() -> None:
    steps = [Step(100, 100, 5, True), Step(160, 160, 5, False), Step(216, 216, 5, True)]
    assert largest_met(steps) == 100, "while in doubt the lower"
    assert next_rate(steps, 100.0, 5) == 160
    disturbed = [*steps, Step(160, 160, 5, True)]
    assert largest_met(disturbed) == 216
    assert next_rate(disturbed, 100.0, 5) == 216 * GROWTH
    lucky = [*steps, Step(160, 160, 5, False)]
    assert largest_met(lucky) == 100
    assert next_rate(lucky, 100.0, 5) == pytest.approx(126.5, rel=0.01)


def test_a_disturbance_at_the_very_first_step_does_not_spoil_the_curve() -> None:
    steps: list[Step] = []
    while (rate := next_rate(steps, 97.0, 9 - len(steps))) is not None:
        steps.append(Step(rate, rate, 5.0, met=bool(steps) and rate <= 600.0, served_rps=min(rate, 700.0)))
    assert [step.rate for step in steps[:4]] == pytest.approx([97, 97 / GROWTH, 97 * 1.35, 97])
    assert largest_met(steps) == pytest.approx(97 * 1.35 * GROWTH**3)


def test_slow_rates_are_measured_longer() -> None:
    assert [measure_seconds(rate) for rate in (50, 300, 5_000)] == [6.0, 5.0, 4.0]


def test_few_arrivals_by_chance_are_not_the_generators_limit() -> None:
    assert Step(12.0, 8.8, 6.0, met=True).generator_kept_up
    assert not Step(12.0, 4.0, 6.0, met=True).generator_kept_up
    assert not Step(2_000.0, 1_700.0, 4.0, met=True).generator_kept_up


def test_time_that_is_left_goes_to_where_much_is_lost() -> None:
    steps = [
        Step(100, 100, 5, True, 100),
        Step(160, 160, 5, False, 160),
        Step(216, 216, 5, False, 216),
        Step(126, 126, 5, False, 126),
        Step(112, 112, 5, True, 112),
    ]
    rate = next_rate(steps, 100.0, 5)
    assert rate == pytest.approx(119, abs=0.5)
    steps.append(Step(119, 119, 5, False, 119))
    assert next_rate(steps, 100.0, 5) == pytest.approx(216 * GROWTH)
    assert next_rate([*steps, Step(346, 346, 5, False, 250)], 100.0, 5) is None
