"""One trial: what is asked of the live side, and what it measured."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.verdict import Verdict

Purpose = Literal["floor", "bracket", "bisect", "confirm"]

CHANCE: Final = 4.0  # standard deviations of a Poisson count: fewer arrivals than that, and the trial was cut short
NOTHING: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Ask:
    """What to measure next."""

    knobs: Knobs
    rate: float  # arrivals (requests) per second
    seconds: float  # of the measured part
    warmup_seconds: float
    seed: int
    purpose: Purpose

    @property
    def expected_arrivals(self) -> float:
        return self.rate * self.seconds


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of an `Ask`. Latencies are seconds over all measured arrivals, math.inf where they were lost."""

    ask: Ask
    verdict: Verdict
    reasons: tuple[str, ...]
    offered: int  # arrivals of the measured part
    achieved_rate: float  # arrivals per second that were really offered
    good_rate: float  # goodput: requests per second inside the objective's threshold
    p50: float
    p95: float
    p99: float  # the objective's percentile, whichever it is
    p99_interval: tuple[float, float]
    backlog_grows: bool
    seconds: float  # what the trial took in all, overhead included
    limit: str | None = None  # "generator" where an INVALID trial was its fault
    stages: Mapping[str, float] = field(default_factory=lambda: NOTHING)  # see `limit.py` for the names
    aborted: bool | None = None  # whether it was cut short because it could no longer pass; None: nobody said

    @property
    def rate(self) -> float:
        """Arrivals per second that were asked for."""
        return self.ask.rate

    @property
    def ended_early(self) -> bool:
        """Whether the live side cut it short because it could no longer pass; by its arrivals where it does not say."""
        if self.aborted is not None:
            return self.aborted
        expected = self.ask.expected_arrivals
        return self.offered < expected - CHANCE * math.sqrt(expected) - 1

    def slack(self, threshold_seconds: float) -> tuple[float, float]:
        """threshold/p99, and its standard error from the interval, which is symmetric in it.

        1 is just on the objective, 2 twice as fast as needed, 0 without an end. In a queue it falls almost linearly
        with the rate, because latency is the reciprocal of the spare capacity.
        """
        low, high = self.p99_interval
        ends = [threshold_seconds / end if 0 < end < math.inf else 0.0 for end in (low, high)]
        point = threshold_seconds / self.p99 if 0 < self.p99 < math.inf else 0.0
        return point, max(ends[0] - ends[1], 0.0) / (2 * _NORMAL_95)


_NORMAL_95: Final = 1.96
