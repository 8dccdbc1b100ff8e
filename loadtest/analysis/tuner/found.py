"""What the search found: the setting, its bracket, and every trial that says so."""

from dataclasses import dataclass, replace
from typing import Literal

from loadtest.analysis.tuner.frontier import Frontier, frontiers
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.limit import Limit, batching_told, limit
from loadtest.analysis.tuner.replicas import HEADROOM, Replicas, replicas
from loadtest.analysis.tuner.trial import Measured
from loadtest.analysis.verdict import Objective

Kind = Literal["chosen", "cannot_meet", "generator_limited", "too_slow", "partial"]


@dataclass(frozen=True, slots=True)
class Found:
    """The answer is a bracket: the largest confirmed rate and the smallest failed one.

    chosen: `knobs` held `rate` in every confirmation. generator_limited: the same, but the generator could hold no more
    than `generator_rate`, so nothing is claimed beyond. partial: it ended before `rate` was confirmed; `knobs` and
    `rate` are the best that passed, if any. cannot_meet: not even `floor`, the trial with the lowest percentile, was
    inside the objective. too_slow: `needed_seconds` are needed for enough samples, more than the budget.
    """

    kind: Kind
    slo: Objective
    trials: tuple[Measured, ...]
    spent_seconds: float
    knobs: Knobs | None = None
    rate: float | None = None  # requests per second
    failed_rate: float | None = None  # of the same knobs; None where none failed above `rate`
    confirmations: tuple[Measured, ...] = ()  # at `rate`, all passed
    floor: Measured | None = None
    generator_rate: float | None = None  # the largest that it held; None where it was no limit
    needed_seconds: float | None = None
    why: str = ""  # a sentence on what ended the search early, if something did

    @property
    def confirmed(self) -> bool:
        return self.kind in ("chosen", "generator_limited") and bool(self.confirmations)

    @property
    def frontiers(self) -> list[Frontier]:
        """What is known of each setting that was tried, in the order of its first trial."""
        return frontiers(self.trials, self.slo.threshold_seconds)

    @property
    def frontier(self) -> Frontier | None:
        """Of the chosen setting."""
        return next((each for each in self.frontiers if each.knobs == self.knobs), None)

    def limit(self) -> Limit | None:
        """What limits the throughput at the confirmed rate; None where nothing was confirmed."""
        if not self.confirmations:
            return None
        return limit(self._typical(), self.generator_rate if self.kind == "generator_limited" else None)

    def batching(self) -> str | None:
        """A sentence on whether batching helps this model; None where nothing was confirmed."""
        if not self.confirmations:
            return None
        return batching_told(self._typical(), self.single)

    @property
    def single(self) -> Measured | None:
        """What one row at a time carries: its fastest trial that passed, else its slowest that failed."""
        if self.knobs is None:
            return None
        alone = [
            trial
            for each in self.frontiers
            if each.knobs.max_batch_rows == 1 and each.knobs.family == self.knobs.family
            for trial in each.valid()
        ]
        passed = [trial for trial in alone if trial.verdict == "PASS"]
        return max(passed, key=_rate) if passed else min(alone, key=_rate, default=None)

    def _typical(self) -> Measured:
        """The last confirmation with the mean stages of all."""
        stages: dict[str, float] = {}
        for name in self.confirmations[-1].stages:
            values = [trial.stages[name] for trial in self.confirmations if name in trial.stages]
            stages[name] = sum(values) / len(values)
        return replace(self.confirmations[-1], stages=stages)

    def replicas(self, target_rate: float, headroom: float = HEADROOM) -> Replicas | None:
        """How many replicas a target rate needs; None where nothing was confirmed."""
        return replicas(self.rate, target_rate, headroom) if self.confirmed and self.rate else None


def _rate(trial: Measured) -> float:
    return trial.rate
