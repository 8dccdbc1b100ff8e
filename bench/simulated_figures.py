"""Services that are nothing but a curve of p99 over the rate, with noise: thousands of searches in seconds.

p99 = lone/(1 − rate/ceiling), the form of a queue's; the noise of a trial is that of `bench.simulated`: relative errors
of 0.1 to 0.3 for a trial of 200 thresholds near the capacity, falling with the root of the length.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from loadtest.analysis import needed
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Ask, Measured
from loadtest.analysis.verdict import Objective, Verdict

CUT_SHORT_BEYOND = 1.5  # thresholds: a p99 that far above ends a trial early


@dataclass(frozen=True, slots=True)
class Curve:
    """p99 of a setting; times in seconds, rates per second."""

    fixed: float  # b of the model's b + a·rows
    per_row: float  # a
    lone_factor: float = 2.0  # p99 of a lone request, in batches of the mean size
    noise: float = 0.15
    fixed_waits: bool = False  # whether the wait is added under any policy

    def ceiling(self, knobs: Knobs) -> float:
        return knobs.max_batch_rows / (self.fixed + self.per_row * knobs.max_batch_rows)

    def p99(self, knobs: Knobs, rate: float) -> float:
        """Infinite beyond the ceiling."""
        ceiling = self.ceiling(knobs)
        if rate >= ceiling:
            return math.inf
        wait = knobs.max_wait_seconds if self.fixed_waits or knobs.policy == "fixed" else 0.0
        return wait + self.lone_factor * (self.fixed + self.per_row) / (1 - rate / ceiling)

    def capacity(self, knobs: Knobs, threshold_seconds: float) -> float:
        """The rate at which p99 is the threshold; 0 where even a lone request is slower."""
        wait = knobs.max_wait_seconds if self.fixed_waits or knobs.policy == "fixed" else 0.0
        share = self.lone_factor * (self.fixed + self.per_row) / max(threshold_seconds - wait, 1e-12)
        return self.ceiling(knobs) * max(0.0, 1 - share)


@dataclass(slots=True)
class CurveBench:
    """Answers asks from a curve."""

    curve: Curve
    slo: Objective
    seed: int
    overhead_seconds: float = 1.5
    generator_rate: float = math.inf
    stages: Mapping[str, float] = field(default_factory=dict)
    _count: int = 0

    def measure(self, ask: Ask) -> Measured:
        self._count += 1
        random = np.random.default_rng([self.seed, self._count])
        threshold = self.slo.threshold_seconds
        error = min(self.curve.noise * math.sqrt(200 * threshold / ask.seconds), 0.6)
        p99 = self.curve.p99(ask.knobs, ask.rate) * math.exp(error * float(random.standard_normal()))
        early = p99 > CUT_SHORT_BEYOND * threshold
        share = max(0.1, min(1.0, CUT_SHORT_BEYOND * threshold / p99)) if early else 1.0
        offered = int(random.poisson(ask.expected_arrivals * share))
        late = ask.rate > self.generator_rate
        verdict: Verdict = "PASS" if p99 <= threshold else "FAIL"
        if late or (verdict == "PASS" and offered < needed.samples_needed(self.slo.objective)):
            verdict = "INVALID"
        good = ask.rate * (0.995 if p99 <= threshold else 0.9)
        return Measured(
            ask,
            verdict,
            ("The generator was late.",) if late else ("Few arrivals were measured.",) if verdict == "INVALID" else (),
            offered,
            ask.rate,
            good,
            p99 / 3,
            p99 / 1.5,
            p99,
            (p99 / (1 + 1.96 * error), p99 / (1 - 1.96 * error) if 1.96 * error < 1 else math.inf),
            p99 == math.inf,
            ask.seconds * share + ask.warmup_seconds + self.overhead_seconds,
            "generator" if late else None,
            self.stages,
        )
