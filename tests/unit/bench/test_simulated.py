"""The simulated services against what theory says of them, and the share of wrong answers of the tuner on them."""

import numpy as np
import pytest

from bench.simulated import Bench, Service, poisson, sojourns, true_quantile
from bench.tuner_scenarios import SCENARIOS
from bench.tuner_simulation import play, tuner
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Ask
from loadtest.analysis.verdict import Objective

SLO = Objective(0.05, 0.99)
STEADY = Service(fixed=0.0, per_row=0.002, other=0.0, noise=0.0)


@pytest.mark.parametrize("batch", [1, 4])
def test_a_steady_queue_waits_as_long_as_theory_says(batch: int) -> None:
    # M/D/1: mean wait ρ·s/(2(1−ρ)). With batches and no fixed cost the work is the same, but an answer comes with
    # the whole batch, so the mean is larger.
    arrivals = poisson(350.0, 400.0, seed=1)
    mean = float(sojourns(STEADY, Knobs(batch, 0.0), arrivals, np.random.default_rng(1)).mean())
    theory = 0.7 * 0.002 / (2 * 0.3) + 0.002
    if batch == 1:
        assert mean == pytest.approx(theory, rel=0.03)
    else:
        assert theory < mean < 2 * theory


def test_one_by_one_and_in_batches_are_the_same_queue() -> None:
    arrivals = poisson(400.0, 20.0, seed=2)
    alone = sojourns(STEADY, Knobs(1, 0.0), arrivals, np.random.default_rng(1))
    fixed = sojourns(STEADY, Knobs(1, 0.005, "fixed"), arrivals, np.random.default_rng(1), warm=True)
    assert alone == pytest.approx(fixed)


def test_a_fixed_policy_holds_a_lone_request_and_a_full_batch_goes_at_once() -> None:
    service = Service(fixed=0.001, per_row=0.0, other=0.0, noise=0.0)
    waits = sojourns(service, Knobs(2, 0.005, "fixed"), np.array([0.0, 1.0, 1.001, 2.0]), np.random.default_rng(1))
    assert waits == pytest.approx([0.006, 0.002, 0.001, 0.006])


def test_a_batching_service_goes_to_its_ceiling_and_not_beyond() -> None:
    service, knobs = Service(0.008, 0.0004, noise=0.0), Knobs(16, 0.0)
    assert service.ceiling(knobs) == pytest.approx(16 / 0.0144)
    below = true_quantile(service, SLO, knobs, 0.8 * service.ceiling(knobs), minutes=0, arrivals=50_000)
    beyond = true_quantile(service, SLO, knobs, 1.1 * service.ceiling(knobs), minutes=0, arrivals=50_000)
    assert below < 0.05 < 1.0 < beyond


def test_a_bench_judges_as_a_run_would_and_ends_what_cannot_pass() -> None:
    bench = Bench(Service(0.008, 0.0004), SLO, 1)
    good = bench.measure(Ask(Knobs(64, 0.0), 1_000, 5.0, 1.0, 1, "bracket"))
    bad = bench.measure(Ask(Knobs(64, 0.0), 4_000, 5.0, 1.0, 1, "bracket"))
    few = bench.measure(Ask(Knobs(64, 0.0), 100, 5.0, 1.0, 1, "bracket"))
    assert (good.verdict, bad.verdict, few.verdict) == ("PASS", "FAIL", "INVALID")
    assert good.seconds == pytest.approx(7.5)
    assert bad.ended_early
    assert bad.seconds < 5
    assert bench.spent_seconds == pytest.approx(good.seconds + bad.seconds + few.seconds)


# Capacities as `bench.simulated.true_capacity` finds them, with a million arrivals at each rate. So few runs cannot
# show a share of 5%: of the second service, one in four may be wrong, but by no more than 1%.
@pytest.mark.parametrize(
    ("name", "capacities", "runs", "wrong"),
    [
        ("usual", {32: 1_413.2, 64: 1_512.1, 128: 1_513.1}, 8, 0),
        ("slows in large batches", {16: 928.3, 32: 848.8, 64: 778.1, 128: 778.1}, 4, 1),
    ],
)
def test_the_tuner_is_seldom_wrong(name: str, capacities: dict[int, float], runs: int, wrong: int) -> None:
    scenario = next(each for each in SCENARIOS if each.name == name)
    best = max(capacities.values())
    violating, near = 0, 0
    for seed in range(1, runs + 1):
        found = play(scenario, tuner(scenario, seed), seed)
        assert found.kind == "chosen"
        assert found.knobs is not None
        assert found.rate is not None
        over = found.rate / capacities[found.knobs.max_batch_rows]
        assert over < 1.01
        violating += over > 1.003
        near += found.rate >= 0.95 * best
    assert violating <= wrong
    assert near >= 0.9 * runs
