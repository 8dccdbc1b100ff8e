"""The last word on one setting: trials with fresh seeds at one rate, which step down on any failure."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from loadtest.analysis.tuner.capacity import Capacity, slack, variance_seconds
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.proposer import GeneratorLimit, Proposer
from loadtest.analysis.tuner.standing import TRUSTED
from loadtest.analysis.tuner.trial import Ask, Measured

SEED: Final = 10_000  # far from those of the search, so that no arrivals are met again
# Three passes alone would accept a rate just beyond the capacity one time in eight. So the mean slack of all trials at
# the rate must be so many of its standard errors above 1. Set with `bench.tuner_simulation`.
MARGIN_ERRORS: Final = 1.25
FIT_ERRORS: Final = 0.5  # below the capacity that all trials of the setting, also those that failed, say it has
START_ERRORS: Final = 1.0  # below the estimated capacity, where the first round starts
EXTRA: Final = 2  # further trials at a rate that passed every time but too closely
WANTED_ERROR: Final = 0.01  # of ln(rate), from the confirmations alone
LEAST_FACTOR, MOST_FACTOR = 5.0, 30.0  # of the shortest useful trial
NEAR: Final = 0.1  # in ln(rate): trials that are as noisy as those at the rate itself
ROUND_SHARE: Final = 0.4  # of the time left, for one round
GROWTH: Final = 1.5  # of the steps down from one failed round to the next
LARGEST_STEP: Final = 8.0  # tolerances


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A rate that passed every time."""

    knobs: Knobs
    rate: float
    trials: tuple[Measured, ...]


class Confirmation:
    """Rounds of confirmations for one proposer; seeds are used once."""

    def __init__(self, proposer: Proposer, confirmations: int, tolerance: float) -> None:
        self.proposer, self.confirmations, self.tolerance = proposer, confirmations, tolerance
        self._seeds = 0

    def at(
        self, knobs: Knobs, least_rate: float, usual_slope: float, most_rate: float = math.inf
    ) -> Generator[Ask, Measured, Confirmed | None]:
        """The largest rate from `least_rate` to `most_rate` that could be confirmed; None where there is none.

        OutOfTime if the budget ends first.
        """
        rate, step = most_rate, 1.0
        while True:
            capacity = self.proposer.standing.of(knobs).capacity(usual_slope)
            rate = min(rate, self._start(knobs, capacity))
            if rate < least_rate or rate <= 0:
                return None
            rate = float(f"{rate:.4g}")
            passed = yield from self._round(knobs, rate, capacity, usual_slope)
            if passed is not None:
                return passed
            if self.proposer.budget.left_seconds < 2 * self._round_seconds(knobs, rate, capacity):
                step = max(step, 2.0)  # no time for small steps
            rate *= 1 - self.tolerance * step
            step = min(step * GROWTH, LARGEST_STEP)  # the estimate was wrong, or the service is not what it was

    def _round_seconds(self, knobs: Knobs, rate: float, capacity: Capacity | None) -> float:
        return self.confirmations * self.proposer.budget.cost_seconds(self._seconds(knobs, rate, capacity))

    def _start(self, knobs: Knobs, capacity: Capacity | None) -> float:
        if capacity is None:
            rate = self.proposer.standing.of(knobs).passed_rate or 0.0
        else:
            rate = capacity.rate * math.exp(-START_ERRORS * capacity.error)
        return min(rate, TRUSTED * self.proposer.standing.limit_of(knobs))

    def _round(
        self, knobs: Knobs, rate: float, capacity: Capacity | None, usual_slope: float
    ) -> Generator[Ask, Measured, Confirmed | None]:
        seconds = self._seconds(knobs, rate, capacity)
        passed: list[Measured] = []
        while len(passed) < self.confirmations + EXTRA:
            self._seeds += 1
            seed = self.proposer.seed + SEED + 10 * self._seeds
            try:
                measured = yield from self.proposer.trial(knobs, rate, "confirm", seed, seconds=seconds)
            except GeneratorLimit:
                return None
            if measured.verdict != "PASS":
                return None
            passed.append(measured)
            if len(passed) >= self.confirmations and self._clearly(passed) and self._agrees(knobs, rate, usual_slope):
                return Confirmed(knobs, rate, tuple(passed))
        return None

    def _agrees(self, knobs: Knobs, rate: float, usual_slope: float) -> bool:
        """Whether what was seen at other rates says the same: many rounds at one rate after another find luck too."""
        capacity = self.proposer.standing.of(knobs).capacity(usual_slope)
        return capacity is None or rate <= capacity.rate * math.exp(-FIT_ERRORS * capacity.error)

    def _clearly(self, passed: list[Measured]) -> bool:
        """Whether the mean slack is above 1 by its margin."""
        slacks = [slack(trial, self.proposer.slo.threshold_seconds) for trial in passed]
        mean = sum(point for point, _ in slacks) / len(slacks)
        error = math.sqrt(sum(error**2 for _, error in slacks)) / len(slacks)
        first = passed[0].ask
        common = self._variance_seconds(first.knobs, first.rate) / (first.seconds * len(slacks))
        error = max(error, math.sqrt(common))
        return mean - MARGIN_ERRORS * error >= 1

    def _seconds(self, knobs: Knobs, rate: float, capacity: Capacity | None) -> float:
        """Long enough to tell the rate within `WANTED_ERROR`, as far as the budget allows."""
        budget = self.proposer.budget
        base = budget.length_seconds("bracket", rate)
        least, most = LEAST_FACTOR * base, MOST_FACTOR * base
        wanted = least
        if capacity is not None:
            variance = self._variance_seconds(knobs, capacity.rate)
            wanted = variance / self.confirmations / (WANTED_ERROR * capacity.slope) ** 2
        each = ROUND_SHARE * budget.left_seconds / self.confirmations - budget.cost_seconds(0)
        seconds = min(max(wanted, least), most, each)
        return max(seconds, 2 * base, budget.least_seconds(rate))

    def _variance_seconds(self, knobs: Knobs, rate: float) -> float:
        trials = self.proposer.standing.of(knobs).valid()
        near = [trial for trial in trials if abs(math.log(trial.rate / rate)) < NEAR]
        return variance_seconds(near, self.proposer.slo.threshold_seconds)
