"""The whole search on curves, whose truth is a formula."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.simulated_figures import Curve, CurveBench
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.grid import Grid
from loadtest.analysis.tuner.knobs import Knobs, Space
from loadtest.analysis.tuner.limit import FIXED, GENERATOR_CPU, MODEL_WORKERS, PER_ROW
from loadtest.analysis.tuner.trial import Ask, Measured
from loadtest.analysis.tuner.tuner import Tuner
from loadtest.analysis.verdict import Objective

SLO = Objective(0.05, 0.99)
CURVE = Curve(0.004, 0.0002, noise=0.05)
Play = Callable[..., Found]


def search(
    slo: Objective = SLO, *, first_rate: float = 200.0, seed: int = 1, budget: float = 600.0, **space: Any
) -> Tuner:
    return Tuner(Space.usual(slo, **space), slo, budget, first_rate=first_rate, seed=seed)


@pytest.mark.parametrize("first_rate", [2.0, 200.0, 20_000.0])
def test_the_best_setting_is_found_from_any_guess(play: Play, first_rate: float) -> None:
    found = play(search(first_rate=first_rate), CurveBench(CURVE, SLO, 1))
    best = max(CURVE.capacity(knobs, 0.05) for knobs in Space.usual(SLO))
    assert found.kind == "chosen"
    assert found.rate is not None
    assert 0.95 * best <= found.rate <= best
    assert found.failed_rate is not None
    assert found.rate < found.failed_rate < 1.1 * best
    assert len(found.confirmations) >= 3
    assert {trial.verdict for trial in found.confirmations} == {"PASS"}
    assert len({trial.ask.seed for trial in found.trials if trial.ask.purpose == "confirm"}) >= 3


def test_the_confirmations_meet_arrivals_that_the_search_has_not_seen(play: Play) -> None:
    found = play(search(), CurveBench(CURVE, SLO, 2))
    seeds = {True: set(), False: set()}  # type: dict[bool, set[int]]
    for trial in found.trials:
        seeds[trial.ask.purpose == "confirm"].add(trial.ask.seed)
    assert not seeds[True] & seeds[False]


def test_batch_sizes_are_compared_under_the_same_arrivals(play: Play) -> None:
    found = play(search(), CurveBench(CURVE, SLO, 3))
    scouts = [trial.ask for trial in found.trials if trial.ask.seed == 1_001]
    assert {ask.knobs.max_batch_rows for ask in scouts} == {1, 2, 4, 8, 16, 32, 64}
    assert all(len({ask.rate for ask in group}) == 1 for _, group in groupby(scouts, key=lambda ask: ask.rate))


def test_the_smallest_batch_that_suffices(play: Play) -> None:
    # Without a fixed cost every batch carries the same.
    flat = Curve(0.0, 0.002, noise=0.03)
    found = play(search(), CurveBench(flat, SLO, 1))
    assert found.knobs == Knobs(1, 0.0)


def test_a_longer_wait_has_to_earn_its_place(play: Play) -> None:
    found = play(search(policies=("fixed",)), CurveBench(CURVE, SLO, 1))
    assert found.knobs is not None
    assert found.knobs.max_wait_seconds == 0.0
    assert {trial.ask.knobs.max_wait_seconds for trial in found.trials} == {0.0, 0.001, 0.002, 0.005}


def test_a_better_policy_is_found(play: Play) -> None:
    class Better(Curve):
        def ceiling(self, knobs: Knobs) -> float:
            return super().ceiling(knobs) * (1.3 if knobs.policy == "fixed" else 1.0)

    found = play(search(policies=("adaptive", "fixed")), CurveBench(Better(0.004, 0.0002, noise=0.05), SLO, 1))
    assert found.knobs is not None
    assert found.knobs.policy == "fixed"


def test_an_objective_that_cannot_be_met_is_said_at_once(play: Play) -> None:
    slo = Objective(0.001, 0.99)
    found = play(search(slo), CurveBench(CURVE, slo, 1))
    assert found.kind == "cannot_meet"
    assert found.floor is not None
    assert {trial.ask.knobs.max_batch_rows for trial in found.trials} == {1, 128}
    assert found.spent_seconds < 60


def test_an_overload_at_the_first_guess_is_not_taken_for_the_floor(play: Play) -> None:
    found = play(search(first_rate=1e6), CurveBench(CURVE, SLO, 1))
    assert found.kind == "chosen"


def test_a_rate_below_one_says_how_long_it_would_need(play: Play) -> None:
    slo = Objective(10.0, 0.99)
    found = play(search(slo, first_rate=0.4), CurveBench(Curve(0.0, 2.0), slo, 1))
    assert found.kind == "too_slow"
    assert found.needed_seconds is not None
    assert found.needed_seconds > 8 * 1_000 / 0.5  # three confirmations and a search, at the capacity of 0.5/s or below


def test_a_generator_that_is_the_limit_is_named(play: Play) -> None:
    found = play(search(), CurveBench(CURVE, SLO, 1, generator_rate=900.0))
    assert found.kind == "generator_limited"
    assert found.rate is not None
    assert found.generator_rate is not None
    assert 0.8 * 900 <= found.rate <= found.generator_rate <= 900
    # 8 rows carry 1,176/s at the most, 16 twice that: the smallest that suffices for what the generator can hold.
    assert found.knobs is not None
    assert found.knobs.max_batch_rows in (8, 16)


class Soft(CurveBench):
    """A generator that is late by chance around its limit, less often below it."""

    def measure(self, ask: Ask) -> Measured:
        measured = super().measure(ask)
        odds = 1 / (1 + math.exp(-math.log(ask.rate / 900.0) / 0.05))
        if float(np.random.default_rng([self.seed, self._count, 7]).random()) < odds:
            late = {"verdict": "INVALID", "reasons": ("late",), "limit": "generator"}
            return replace(measured, **late, stages={GENERATOR_CPU: 1.0})
        return measured


@pytest.mark.parametrize("seed", range(8))
def test_a_generator_whose_limit_is_soft_does_not_eat_the_budget(play: Play, seed: int) -> None:
    found = play(search(seed=seed), Soft(CURVE, SLO, seed))
    assert found.kind == "generator_limited"
    assert found.rate is not None
    assert 500 <= found.rate <= 1_000
    assert found.knobs is not None
    assert found.knobs.max_batch_rows <= 16  # the smallest that carries what can be sent, and not the first one tried
    assert sum(trial.verdict == "INVALID" for trial in found.trials) <= 20
    assert found.spent_seconds < 400


def test_what_one_row_at_a_time_carries_is_measured_too(play: Play) -> None:
    stages = {FIXED: CURVE.fixed, PER_ROW: CURVE.per_row, MODEL_WORKERS: 1.0}
    for known in (stages, {}):
        found = play(search(), CurveBench(CURVE, SLO, 1, stages=known))
        assert found.knobs is not None
        assert found.knobs.max_batch_rows > 1
        assert found.single is not None
        assert found.single.verdict == "PASS"
        alone = CURVE.capacity(Knobs(1, 0.0), 0.05)
        assert 0.7 * alone <= found.single.rate <= 1.1 * alone
        assert "times what one row" in (found.batching() or "")


def test_one_row_at_a_time_is_not_tried_where_it_was_not_asked_for(play: Play) -> None:
    space = replace(Space.usual(SLO), batch_rows=(8, 32))
    found = play(Tuner(space, SLO, 600, first_rate=200), CurveBench(CURVE, SLO, 1))
    assert found.confirmed
    assert {trial.ask.knobs.max_batch_rows for trial in found.trials} == {8, 32}


def test_the_time_that_is_expected_to_be_left_is_never_nothing_before_the_end(play: Play) -> None:
    tuner, bench = search(), Slower(CURVE, SLO, 1)
    while isinstance(ask := tuner.next(), Ask):
        assert tuner.left_seconds() > 2
        tuner.take(bench.measure(ask))


@pytest.mark.parametrize("budget", [20.0, 60.0, 150.0])
def test_a_small_budget_is_kept_and_what_it_gave_is_told(play: Play, budget: float) -> None:
    found = play(search(budget=budget), CurveBench(CURVE, SLO, 1))
    assert found.spent_seconds <= budget
    assert found.kind in ("partial", "chosen", "too_slow")


class Slower(CurveBench):
    """A service that loses a tenth of its capacity when the search is over: what passed before fails now."""

    def measure(self, ask: Ask) -> Measured:
        if ask.purpose == "confirm":
            self.curve = Curve(CURVE.fixed / 0.9, CURVE.per_row / 0.9, CURVE.lone_factor * 0.9, CURVE.noise)
        return super().measure(ask)


def test_a_failure_at_a_rate_that_passed_steps_down(play: Play) -> None:
    bench = Slower(CURVE, SLO, 1)
    found = play(search(), bench)
    rates = [trial.rate for trial in found.trials if trial.ask.purpose == "confirm"]
    failed = [trial.rate for trial in found.trials if trial.ask.purpose == "confirm" and trial.verdict == "FAIL"]
    assert failed
    assert found.rate is not None
    assert found.knobs is not None
    assert found.rate < 0.99 * min(failed)
    assert found.rate <= bench.curve.capacity(found.knobs, 0.05)
    assert rates[0] > CURVE.capacity(found.knobs, 0.05) * 0.92  # it began from what was known before


def test_a_service_that_passes_nothing_any_more_leaves_nothing_confirmed(play: Play) -> None:
    class Gone(CurveBench):
        def measure(self, ask: Ask) -> Measured:
            if self._count > 0:
                self.curve = Curve(1.0, 1.0)
            return super().measure(ask)

    found = play(search(), Gone(CURVE, SLO, 1))
    assert not found.confirmed
    assert found.kind == "partial"


@settings(max_examples=25, deadline=None)
@given(
    fixed=st.floats(0, 0.05),
    per_row=st.floats(1e-5, 0.1),
    threshold=st.floats(0.002, 2.0),
    first_rate=st.floats(0.1, 20_000),
    noise=st.floats(0, 0.5),
    generator_rate=st.one_of(st.just(math.inf), st.floats(1, 10_000)),
    budget=st.floats(5, 900),
    seed=st.integers(0, 1_000),
)
def test_any_search_ends_within_its_budget_and_is_backed_by_its_trials(
    fixed: float,
    per_row: float,
    threshold: float,
    first_rate: float,
    noise: float,
    generator_rate: float,
    budget: float,
    seed: int,
) -> None:
    slo = Objective(threshold, 0.99)
    tuner = Tuner(Space.usual(slo, largest_batch_rows=32), slo, budget, first_rate=first_rate, seed=seed)
    bench = CurveBench(Curve(fixed, per_row, noise=noise), slo, seed, generator_rate=generator_rate)
    while isinstance(step := tuner.next(), Ask):
        assert len(tuner.trials) < 500
        tuner.take(bench.measure(step))
    assert step.spent_seconds <= budget + 0.1
    assert step.spent_seconds == pytest.approx(sum(trial.seconds for trial in step.trials))
    if step.confirmed:
        assert {(trial.verdict, trial.ask.knobs, trial.rate) for trial in step.confirmations} == {
            ("PASS", step.knobs, step.rate)
        }
        assert step.failed_rate is None or step.failed_rate > (step.rate or 0)


def test_the_grid_agrees_and_takes_much_longer(play: Play) -> None:
    space = Space((8, 32, 128), (0.0, 0.002))
    slow = play(Grid(space, SLO, 7_200, first_rate=200), CurveBench(CURVE, SLO, 1))
    quick = play(Tuner(space, SLO, 600, first_rate=200), CurveBench(CURVE, SLO, 1))
    assert {trial.ask.knobs for trial in slow.trials} == set(space)
    assert all(each.passed_rate and each.failed_rate for each in slow.frontiers)
    assert slow.rate == pytest.approx(quick.rate, rel=0.05)
    assert slow.spent_seconds > 2 * quick.spent_seconds
