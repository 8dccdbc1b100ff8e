"""The search itself: the objective first, then the most throughput inside it, with the smallest batch that suffices.

1. floor: at a low rate, does the objective hold at all?
2. leader: bracket and bisect one setting, the largest batch.
3. halving: every other batch size is tried at the leader's rate. One that fails is out; one that is better leads.
4. waits: a longer wait is only worth it where it carries 5% more.
5. confirm: the smallest batch whose capacity is within 5% of the best, in fresh-seed trials, stepping down on any fail.
"""

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Final

from loadtest.analysis.tuner import climb
from loadtest.analysis.tuner.capacity import Capacity
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.knobs import Knobs, Space
from loadtest.analysis.tuner.proposer import Best, GeneratorLimit, Proposer, Steps
from loadtest.analysis.tuner.trial import Ask, Measured
from loadtest.analysis.verdict import Objective

TIE: Final = 0.05  # within it the smaller batch wins, then the smaller wait
CONFIRM_SEED: Final = 10_000  # far from those of the search
RESERVED_ROUNDS: Final = 1.5  # rounds of confirmations for which time is kept
START_ERRORS: Final = 0.5  # standard errors below the estimate at which the confirmation starts


class Tuner(Proposer):
    """See the module. `tolerance` is the width of the bracket, `confirmations` how often a rate must pass."""

    def __init__(
        self,
        space: Space,
        slo: Objective,
        budget_seconds: float,
        *,
        first_rate: float,
        seed: int = 1,
        overhead_seconds: float = 1.5,
        tolerance: float = 0.03,
        confirmations: int = 3,
    ) -> None:
        super().__init__(
            space, slo, budget_seconds, first_rate=first_rate, seed=seed, overhead_seconds=overhead_seconds
        )
        self.tolerance, self.confirmations = tolerance, confirmations
        self._confirmed: tuple[Knobs, float, tuple[Measured, ...]] | None = None
        self._fresh = 0  # confirmation seeds used
        self._unmet = False
        self._needed_seconds: float | None = None

    # The search

    def _search(self) -> Steps:
        yield from self._floor()
        if self._unmet or self._needed_seconds is not None:
            return
        leader = self.space.sizes()[-1] if len(self.space.runtimes) == 1 else self.space.sizes()[0]
        leader = max(self.space.sizes(), key=lambda knobs: knobs.max_batch_rows)
        yield from climb.bracket(self, leader, self.first_rate)
        self._keep(leader)
        yield from climb.refine(self, leader, 2 * self.tolerance)
        for knobs in self._others(leader):
            yield from self._scout(knobs)
        yield from self._confirm_best()

    def _floor(self) -> Steps:
        rate = self.first_rate / 8
        least = self.budget.least_seconds(1.0) / (0.04 * self.budget.seconds)
        rate = min(max(rate, least), self.first_rate)
        sizes = self.space.sizes()
        for knobs in dict.fromkeys((sizes[-1], sizes[0])):
            lower = rate
            before = math.inf
            while True:
                measured = yield from self.trial(knobs, lower, "floor", self.seed)
                if measured.verdict == "PASS":
                    return
                if measured.p99 > 0.85 * before or lower < 1:
                    break
                before = measured.p99
                lower /= 8
        self._unmet = True

    def _keep(self, knobs: Knobs) -> None:
        rate = self.frontier(knobs).passed_rate or self.first_rate
        self._reserve_seconds = RESERVED_ROUNDS * self.confirmations * self.budget.trial_seconds("confirm", rate)

    def _others(self, leader: Knobs) -> list[Knobs]:
        return [knobs for knobs in reversed(self.space.sizes()) if knobs != leader]

    def _scout(self, knobs: Knobs) -> Steps:
        best = self._best_capacity()
        if best is None:
            return
        rate = best.rate * (1 - TIE)
        try:
            yield from self.trial(knobs, rate, "bracket", self.seed + 1)
        except GeneratorLimit:
            return

    def _capacities(self) -> dict[Knobs, Capacity]:
        found = {}
        for knobs in dict.fromkeys(trial.ask.knobs for trial in self.trials):
            frontier = self.frontier(knobs)
            capacity = frontier.capacity()
            if capacity is not None and frontier.passed_rate is not None:
                found[knobs] = capacity
        return found

    def _best_capacity(self) -> Capacity | None:
        return max(self._capacities().values(), key=lambda capacity: capacity.rate, default=None)

    def _confirm_best(self) -> Steps:
        best = self._best_capacity()
        if best is None:
            return
        for knobs in sorted(self._capacities(), key=lambda knobs: knobs.size):
            capacity = self._capacities()[knobs]
            if capacity.rate < (1 - TIE) * best.rate:
                continue
            yield from climb.refine(self, knobs, self.tolerance / 2)
            refined = self.frontier(knobs).capacity()
            if refined is None or refined.rate < (1 - TIE) * best.rate:
                continue
            rate = refined.rate * math.exp(-START_ERRORS * refined.error)
            while rate >= (1 - TIE) * best.rate or knobs.size == max(k.size for k in self._capacities()):
                passed = yield from self._round(knobs, rate)
                if passed:
                    return
                rate *= 1 - self.tolerance

    def _round(self, knobs: Knobs, rate: float) -> Generator[Ask, Measured, bool]:
        passed: list[Measured] = []
        for _ in range(self.confirmations):
            self._fresh += 1
            try:
                measured = yield from self.trial(knobs, rate, "confirm", self.seed + CONFIRM_SEED + 10 * self._fresh)
            except GeneratorLimit:
                return False
            if measured.verdict != "PASS":
                return False
            passed.append(measured)
        self._confirmed = (knobs, passed[0].rate, tuple(passed))
        return True

    # What it says

    def best(self) -> Best | None:
        if self._confirmed is not None:
            return Best(self._confirmed[0], self._confirmed[1], True)
        rates = {knobs: self.frontier(knobs).passed_rate for knobs in dict.fromkeys(t.ask.knobs for t in self.trials)}
        known = [(rate, knobs) for knobs, rate in rates.items() if rate]
        if not known:
            return None
        rate, knobs = max(known, key=lambda pair: pair[0])
        return Best(knobs, rate, False)

    def left_seconds(self) -> float:
        return 0.0 if self._ended is not None else self.budget.left_seconds

    def _found(self) -> Found:
        trials = tuple(self.trials)
        floor = min(
            (trial for trial in trials if trial.verdict != "INVALID"), key=lambda trial: trial.p99, default=None
        )
        found = Found(
            "partial", self.slo, trials, self.budget.spent_seconds, floor=floor, why=self.why,
            generator_rate=max((t.rate for t in trials if t.verdict != "INVALID"), default=None)
            if self.generator_limit is not None else None,
        )  # fmt: skip
        if self._unmet:
            return replace(found, kind="cannot_meet")
        if self._needed_seconds is not None:
            return replace(found, kind="too_slow", needed_seconds=self._needed_seconds)
        if self._confirmed is None:
            best = self.best()
            return found if best is None else replace(found, knobs=best.knobs, rate=best.rate)
        knobs, rate, confirmations = self._confirmed
        failed = min(
            (r for r, ts in self.frontier(knobs).tried() if r > rate and any(t.verdict == "FAIL" for t in ts)),
            default=None,
        )
        limited = failed is None and self.generator_limit is not None
        return replace(
            found,
            kind="generator_limited" if limited else "chosen",
            knobs=knobs, rate=rate, confirmations=confirmations, failed_rate=failed,
        )  # fmt: skip
