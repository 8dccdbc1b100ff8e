"""What is known of one setting: which rates it passed, which it failed, and where between them its capacity lies."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from loadtest.analysis.tuner.capacity import USUAL_SLOPE, Capacity, estimate
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Measured

SAME_RATE: Final = 0.002  # rates that differ by less are the same rate
INNER: Final = 0.2  # a guess between two rates stays this share of the way off both


@dataclass(frozen=True, slots=True)
class Frontier:
    """One setting's trials in the order of their measurement."""

    knobs: Knobs
    threshold_seconds: float
    trials: tuple[Measured, ...] = ()

    def valid(self) -> list[Measured]:
        return [trial for trial in self.trials if trial.verdict != "INVALID"]

    def tried(self) -> list[tuple[float, list[Measured]]]:
        """Valid trials by rate, ascending."""
        groups: list[tuple[float, list[Measured]]] = []
        for trial in sorted(self.valid(), key=lambda trial: trial.rate):
            if groups and trial.rate <= groups[-1][0] * (1 + SAME_RATE):
                groups[-1][1].append(trial)
            else:
                groups.append((trial.rate, [trial]))
        return groups

    @property
    def passed_rate(self) -> float | None:
        """The largest rate at which more than half of the trials passed."""
        return max((rate for rate, trials in self.tried() if _passes(trials)), default=None)

    @property
    def failed_rate(self) -> float | None:
        """The smallest failed rate above the largest passed one, or the smallest failed one if none passed."""
        above = self.passed_rate or 0.0
        return min((rate for rate, trials in self.tried() if not _passes(trials) and rate > above), default=None)

    def contradictions(self) -> list[float]:
        """Rates that failed although a higher one passed, ascending."""
        above = self.passed_rate or 0.0
        return [rate for rate, trials in self.tried() if not _passes(trials) and rate < above]

    def capacity(self, usual_slope: float = USUAL_SLOPE) -> Capacity | None:
        """Where the objective is just met, if trials are near enough."""
        low, high = self.passed_rate, self.failed_rate
        if low is None and high is None:
            return None
        around = self.between() if low and high else low or high
        assert around is not None
        return estimate(self.trials, self.threshold_seconds, around, usual_slope)

    def between(self) -> float:
        """A guess where the slack is 1 between the passed and the failed rate; ValueError without both."""
        low, high = self.passed_rate, self.failed_rate
        if low is None or high is None:
            raise ValueError(f"{self.knobs.told()} has no rate that passed and one that failed")
        upper, lower = (self._slack_at(rate) for rate in (low, high))
        upper, lower = max(upper, 1.0), min(lower, 1.0)
        share = (upper - 1) / (upper - lower) if upper > lower else 0.5
        share = min(max(share, INNER), 1 - INNER)
        return math.exp(math.log(low) + share * math.log(high / low))

    def _slack_at(self, rate: float) -> float:
        trials = next(trials for tried, trials in self.tried() if tried == rate)
        return sum(trial.slack(self.threshold_seconds)[0] for trial in trials) / len(trials)


def frontiers(trials: Iterable[Measured], threshold_seconds: float) -> list[Frontier]:
    """One for each setting that was tried, in the order of the first trial."""
    by_knobs: dict[Knobs, list[Measured]] = {}
    for trial in trials:
        by_knobs.setdefault(trial.ask.knobs, []).append(trial)
    return [Frontier(knobs, threshold_seconds, tuple(each)) for knobs, each in by_knobs.items()]


def _passes(trials: list[Measured]) -> bool:
    """More than half passed: of one pass and one fail the fail counts."""
    return 2 * sum(trial.verdict == "PASS" for trial in trials) > len(trials)
