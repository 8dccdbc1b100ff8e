"""The seam: one trial at a time, INVALID ones repeated, the generator's limit named."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from bench.simulated_figures import Curve, CurveBench
from loadtest.analysis.tuner.knobs import Space
from loadtest.analysis.tuner.trial import Ask, Measured
from loadtest.analysis.tuner.tuner import Tuner
from loadtest.analysis.verdict import Objective

SLO = Objective(0.05, 0.99)
CURVE = Curve(0.004, 0.0002)


def tuner(**values: Any) -> Tuner:
    return Tuner(Space.usual(SLO), SLO, values.pop("budget_seconds", 600), **({"first_rate": 200.0} | values))


def ask_of(proposer: Tuner) -> Ask:
    ask = proposer.next()
    assert isinstance(ask, Ask)
    return ask


def invalid(measured: Measured, limit: str | None) -> Measured:
    return replace(measured, verdict="INVALID", limit=limit, reasons=("It was not the service.",))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"budget_seconds": 0}, "budget is 0 s"),
        ({"first_rate": 0.0}, "first rate is 0.0"),
        ({"first_rate": math.inf}, "first rate is inf"),
        ({"tolerance": 0.0}, "tolerance is 0.0"),
        ({"confirmations": 0}, "0 confirmations"),
    ],
)
def test_values_that_make_no_search(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tuner(**values)


def test_what_was_measured_belongs_to_the_ask() -> None:
    search, bench = tuner(), CurveBench(CURVE, SLO, 1)
    with pytest.raises(ValueError, match="asked for"):
        search.take(bench.measure(Ask(Space.usual(SLO).sizes()[0], 1, 1, 1, 1, "floor")))
    first = ask_of(search)
    search.take(bench.measure(first))
    with pytest.raises(ValueError, match="asked for"):
        search.take(bench.measure(first))  # twice


def test_an_invalid_trial_is_repeated_twice_with_other_arrivals_and_then_it_is_the_generators_limit() -> None:
    search, bench = tuner(), CurveBench(CURVE, SLO, 1)
    search.take(bench.measure(ask_of(search)))  # floor
    asks = [ask_of(search)]
    for _ in range(3):
        search.take(invalid(bench.measure(asks[-1]), "generator"))
        asks.append(ask_of(search))
    assert len({ask.rate for ask in asks[:3]}) == 1
    assert len({ask.seed for ask in asks[:3]}) == 3
    assert search.standing.generator_limit == asks[0].rate
    assert asks[3].rate < asks[0].rate


def test_an_invalid_trial_counts_neither_as_pass_nor_as_fail() -> None:
    search, bench = tuner(), CurveBench(CURVE, SLO, 1)
    search.take(bench.measure(ask_of(search)))
    before = search.standing.frontiers()[0]
    search.take(invalid(bench.measure(ask_of(search)), "generator"))
    after = search.standing.frontiers()[0]
    assert (after.passed_rate, after.failed_rate) == (before.passed_rate, before.failed_rate)


def test_trials_that_say_nothing_for_another_reason_end_the_search_with_it() -> None:
    search, bench = tuner(), CurveBench(CURVE, SLO, 1)
    search.take(bench.measure(ask_of(search)))
    lengths = []
    for _ in range(3):
        lengths.append(ask_of(search).seconds)
        search.take(invalid(bench.measure(ask_of(search)), None))
    found = search.next()
    assert not isinstance(found, Ask)
    assert found.kind == "partial"
    assert "It was not the service." in found.why
    assert lengths == sorted(set(lengths))  # each longer, as too few samples are the usual reason


def test_an_interruption_keeps_what_was_measured() -> None:
    search, bench = tuner(), CurveBench(CURVE, SLO, 1)
    assert search.best() is None
    for _ in range(4):
        search.take(bench.measure(ask_of(search)))
    best = search.best()
    assert best is not None
    found = search.interrupted()
    assert found is search.next() is search.interrupted()
    assert (found.kind, found.knobs, found.rate, len(found.trials)) == ("partial", best.knobs, best.rate, 4)
    assert "interrupted" in found.why
    assert search.left_seconds() == 0


def test_a_setting_that_is_new_to_the_service_warms_up_longer(play: Callable[..., Any]) -> None:
    trials = play(tuner(), CurveBench(CURVE, SLO, 1)).trials
    pairs = list(pairwise(trials))
    changed = {b.ask.warmup_seconds for a, b in pairs if a.ask.knobs != b.ask.knobs}
    same = {b.ask.warmup_seconds for a, b in pairs if a.ask.knobs == b.ask.knobs}
    assert min(changed) > max(same)
