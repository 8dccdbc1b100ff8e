"""The time there is, and how long a trial must be to say something."""

from dataclasses import dataclass
from typing import Final

from loadtest.analysis import needed
from loadtest.analysis.tuner.trial import Purpose
from loadtest.analysis.verdict import Objective

POISSON_MARGIN: Final = 1.12  # so that of a Poisson process 1,000 arrivals come almost surely
LEAST_SECONDS: Final = 2.0  # shorter, and a single hiccup of the machine decides

# A queue forgets its past in some multiple of the latency it allows, so trials are measured in thresholds. The factors
# say how much longer a trial is where more depends on it; `bench.tuner_simulation` shows what they buy.
THRESHOLDS: Final = 60.0
FACTORS: Final[dict[Purpose, float]] = {"floor": 0.7, "bracket": 1.0, "bisect": 2.0, "confirm": 5.0}
SHARES: Final[dict[Purpose, float]] = {"floor": 0.02, "bracket": 0.015, "bisect": 0.025, "confirm": 0.06}  # at most

WARMUP_THRESHOLDS: Final = 40.0
LEAST_WARMUP_SECONDS: Final = 1.0
LONGEST_WARMUP_SECONDS: Final = 5.0


@dataclass(slots=True)
class Budget:
    """Seconds that may be spent in all, of which trials take theirs."""

    slo: Objective
    seconds: float
    overhead_seconds: float  # of a trial, on top of its warm-up and its measured part
    spent_seconds: float = 0.0

    @property
    def left_seconds(self) -> float:
        return max(0.0, self.seconds - self.spent_seconds)

    @property
    def warmup_seconds(self) -> float:
        """Of a trial whose setting is new to the service; its successors need half of it."""
        wanted = WARMUP_THRESHOLDS * self.slo.threshold_seconds
        return min(max(wanted, LEAST_WARMUP_SECONDS), LONGEST_WARMUP_SECONDS)

    def least_seconds(self, rate: float) -> float:
        """Measured seconds without which the percentile says nothing at `rate` arrivals per second."""
        return POISSON_MARGIN * needed.seconds_needed(self.slo.objective, rate)

    def length_seconds(self, purpose: Purpose, rate: float) -> float:
        """Of the measured part: more where more depends on it, never too little for the percentile."""
        base = max(LEAST_SECONDS, THRESHOLDS * self.slo.threshold_seconds)
        wanted = min(FACTORS[purpose] * base, SHARES[purpose] * self.seconds)
        return max(wanted, self.least_seconds(rate))

    def cost_seconds(self, seconds: float) -> float:
        """What a trial with `seconds` measured takes in all."""
        return seconds + self.warmup_seconds + self.overhead_seconds

    def trial_seconds(self, purpose: Purpose, rate: float) -> float:
        """What a trial for this purpose takes in all."""
        return self.cost_seconds(self.length_seconds(purpose, rate))

    def least_plan_seconds(self, rate: float, confirmations: int, searching: int) -> float:
        """The time without which nothing can be confirmed at `rate`: a few trials to search, then the confirmations."""
        return (confirmations + searching) * self.cost_seconds(self.least_seconds(rate))
