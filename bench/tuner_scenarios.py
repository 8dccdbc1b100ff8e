"""The services on which the tuner is tried, with what makes each of them hard."""

from dataclasses import dataclass, field, replace
from typing import Final

from bench.simulated import Service, true_capacity
from loadtest.analysis.tuner.found import Kind
from loadtest.analysis.tuner.knobs import Knobs, Space
from loadtest.analysis.verdict import Objective


@dataclass(frozen=True, slots=True)
class Scenario:
    """One service under one objective."""

    name: str
    service: Service
    slo: Objective = field(default_factory=lambda: Objective(0.05, 0.99))
    first_rate: float = 100.0  # what the live side guesses
    expected: Kind = "chosen"
    policies: tuple[str, ...] = ("adaptive",)
    budget_seconds: float = 600.0

    @property
    def space(self) -> Space:
        return Space.usual(self.slo, policies=self.policies)


_USUAL: Final = Service(fixed=0.008, per_row=0.0004)

SCENARIOS: Final = (
    Scenario("usual", _USUAL),
    Scenario("guess far too high", _USUAL, first_rate=9000),
    Scenario("guess far too low", _USUAL, first_rate=3),
    Scenario("big fixed cost", Service(0.03, 0.0002), Objective(0.1, 0.99)),
    Scenario("no fixed cost", Service(0.0, 0.002), first_rate=200),
    Scenario("slows in large batches", Service(0.006, 0.0003, bend=0.00002)),
    Scenario("fixed policy too", _USUAL, policies=("adaptive", "fixed")),
    Scenario("noisy", replace(_USUAL, noise=0.25)),
    Scenario("bimodal", replace(_USUAL, slow_share=0.04, slow_seconds=0.015)),
    Scenario("noisy, p99 nearly flat", replace(_USUAL, noise=0.5)),
    Scenario("bimodal, p99 nearly flat", replace(_USUAL, slow_share=0.015, slow_seconds=0.02)),
    Scenario("drifts by 2% a minute", replace(_USUAL, drift=0.02)),
    Scenario("warm-up", replace(_USUAL, warmup=1.0, warmup_seconds=0.7)),
    Scenario("slow in a band", replace(_USUAL, band=(500.0, 800.0), band_seconds=0.05)),
    Scenario("slow model", Service(0.08, 0.006), Objective(0.5, 0.99), first_rate=10),
    Scenario("generator 900/s", replace(_USUAL, generator_rate=900.0), expected="generator_limited"),
    Scenario("objective of 1 ms", _USUAL, Objective(0.001, 0.99), expected="cannot_meet"),
    Scenario("below 1/s", Service(0.0, 2.0), Objective(10.0, 0.99), first_rate=0.4, expected="too_slow"),
)


KNOT_MINUTES: Final = 5.0


def true_best(scenario: Scenario, minutes: float = 0.0) -> tuple[Knobs, float]:
    """The setting with the largest capacity, and what of it the generator can hold.

    Under the fixed policy no wait was ever better than none, so none is tried.
    """
    best, capacity = None, -1.0
    for knobs in sorted(scenario.space.sizes(), key=lambda knobs: -knobs.max_batch_rows):
        if knobs.policy != "adaptive" or scenario.service.ceiling(knobs) <= 0.9 * capacity:
            continue
        found = own_capacity(scenario, knobs, minutes)
        if found > capacity:
            best, capacity = knobs, found
    assert best is not None
    return best, min(capacity, scenario.service.generator_rate)


def own_capacity(scenario: Scenario, knobs: Knobs, minutes: float = 0.0) -> float:
    """Of one setting, so many minutes into the search; in between two knots in time by a straight line.

    Under the adaptive policy the simulated batcher never waits, so the wait plays no part.
    """
    if knobs.policy == "adaptive":
        knobs = replace(knobs, max_wait_seconds=0.0)
    if not scenario.service.drift:
        return true_capacity(scenario.service, scenario.slo, knobs)
    before = minutes // KNOT_MINUTES
    low, high = (
        true_capacity(scenario.service, scenario.slo, knobs, KNOT_MINUTES * knot) for knot in (before, before + 1)
    )
    return low + (minutes / KNOT_MINUTES - before) * (high - low)
