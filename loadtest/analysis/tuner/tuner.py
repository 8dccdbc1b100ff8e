"""The search: the objective first, then the most throughput inside it, with the smallest batch that suffices.

1. floor: at a low rate, does the objective hold at all?
2. leader: the rate of the largest batch, by a bracket and longer trials in it.
3. sizes: every other batch size is tried just below the leader's rate. What fails there is out; what is better leads.
4. smallest: the smallest batch whose rate is within 5% of the best.
5. waits: a longer wait is only worth it where it carries 5% more.
6. confirm: with fresh seeds, stepping down on any failure; the next larger batch if that costs more than the 5%.
7. edge: a failed rate right above, so that the answer is a bracket.
8. single: what one row at a time carries, so that it is measured whether batching helps.
"""

import contextlib
from dataclasses import replace
from typing import Final

from loadtest.analysis.tuner import climb
from loadtest.analysis.tuner.confirm import Confirmation, Confirmed
from loadtest.analysis.tuner.floor import Ground, ground
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.knobs import Knobs, Space
from loadtest.analysis.tuner.limit import rate_alone
from loadtest.analysis.tuner.proposer import Best, GeneratorLimit, OutOfTime, Proposer, Steps
from loadtest.analysis.tuner.standing import TIE, TRUSTED
from loadtest.analysis.verdict import Objective

RESERVED_ROUNDS: Final = 1.7  # of confirmations, for which time is kept
RESERVED_SHARE: Final = 0.6  # of the budget, at most
LEADER_ERROR, FINAL_ERROR = 0.02, 0.012  # standard errors of ln(rate) that refining aims at
BETTER_SLACK: Final = 0.1  # more than the leader's: worth to be climbed
CLIMB_COARSE: Final = 1.12
SCOUT_SEED, WAIT_SEED, EDGE_SEED = 1_000, 2_000, 3_000
WAIT_TRIALS: Final = 2  # that a longer wait has to pass at 5% more
EDGES: Final = 3  # trials above the confirmed rate, at most
SCOUTS: Final = 3  # rates for one setting, while the generator cannot hold them
SINGLE_LOAD: Final = 0.7  # of what a model can do at the most: about where its p99 breaks
SINGLE_TRIALS: Final = 4
NEEDED_SEARCHING: Final = 8  # trials besides the confirmations, for the time that a slow service would need


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
        if not 0 < tolerance < 0.5:
            raise ValueError(f"the tolerance is {tolerance}; expected a share above 0 and below 0.5")
        if confirmations < 1:
            raise ValueError(f"{confirmations} confirmations; expected at least 1")
        self.tolerance, self.confirmations = tolerance, confirmations
        self._confirmation = Confirmation(self, confirmations, tolerance)
        self._ground: Ground | None = None
        self._confirmed: Confirmed | None = None
        self._ahead = 0.0  # seconds that the steps after the current one will take, about
        self._step_ends = 0.0  # spent seconds at which the current one ends, about

    # The search

    def _search(self) -> Steps:
        sizes = self.space.sizes()
        self._expect("floor", 1)
        for knobs in dict.fromkeys((self._largest(), sizes[0])):
            self._ground = yield from ground(self, knobs, self.confirmations)
            if self._ground is not Ground.UNMET:
                break
        if self._ground is not Ground.HOLDS:
            return
        self._reserve(self.first_rate)
        try:
            yield from self._compare()
        except OutOfTime:
            self.why = "The budget did not reach for a look at every setting."
        yield from self._confirm()
        with contextlib.suppress(OutOfTime):
            yield from self._edge()
            yield from self._single()

    def _compare(self) -> Steps:
        """Rates of the settings, as far as they matter."""
        leader = self._largest()
        self._expect("leader", 6)
        yield from climb.bracket(self, leader, self.first_rate)
        self._reserve(self.standing.rate(leader))
        yield from climb.refine(self, leader, LEADER_ERROR)
        capacity = self.standing.capacity(leader)
        if capacity is not None:
            self.standing.slope = capacity.slope
        others = [knobs for knobs in reversed(self.space.sizes()) if knobs != leader]
        for place, knobs in enumerate(others):
            self._expect("sizes", len(others) - place)
            yield from self._scout(knobs)
        smallest = None
        self._expect("smallest", 3)
        for knobs in self.standing.within_tie():
            yield from climb.refine(self, knobs, FINAL_ERROR, self.standing.slope)
            if self.standing.rate(knobs) >= (1 - TIE) * self.standing.top():
                smallest = knobs
                break
        if smallest is not None and self.standing.top() < self.standing.ceiling:  # or more could not be seen
            waits = self.space.longer_waits(smallest)
            for place, knobs in enumerate(waits):
                self._expect("waits", len(waits) - place)
                yield from self._try_wait(knobs)

    def _scout(self, knobs: Knobs) -> Steps:
        """One short trial just below the leader's rate; more where it turns out to be better."""
        # Where the generator is the limit nothing is above the leader's rate, so the others are seen right below it.
        for _ in range(SCOUTS):
            below = TIE if self.standing.top() < self.standing.ceiling else self.tolerance
            rate = min((1 - below) * self.standing.top(), TRUSTED * self.standing.limit_of(knobs))
            try:
                measured = yield from self.trial(knobs, rate, "bracket", self.seed + SCOUT_SEED)
                break
            except GeneratorLimit:  # the top is lower now, or only this setting is
                continue
        else:
            return
        expected = 1 + self.standing.slope * below
        slack, error = measured.slack(self.slo.threshold_seconds)
        if measured.verdict == "PASS" and slack - error > expected + BETTER_SLACK:
            guess = self.standing.rate(knobs)
            yield from climb.bracket(self, knobs, guess, coarse=CLIMB_COARSE, steps=climb.SMALL_STEPS)
            yield from climb.refine(self, knobs, LEADER_ERROR, self.standing.slope)

    def _try_wait(self, knobs: Knobs) -> Steps:
        rate = max(map(self.standing.rate, self.standing.within_tie()), default=0.0) * (1 + TIE)
        for attempt in range(WAIT_TRIALS):
            try:
                measured = yield from self.trial(knobs, rate, "bisect", self.seed + WAIT_SEED + attempt)
            except GeneratorLimit:
                return
            slack, error = measured.slack(self.slo.threshold_seconds)
            if measured.verdict != "PASS" or slack - error < 1:
                return
        yield from climb.bracket(self, knobs, rate, coarse=CLIMB_COARSE, steps=climb.SMALL_STEPS)
        yield from climb.refine(self, knobs, FINAL_ERROR, self.standing.slope)

    def _confirm(self) -> Steps:
        """The smallest of the settings within the tie that can be confirmed at a rate within the tie."""
        self._expect("confirm", self.confirmations + 1)
        while self._confirmed is None:
            top = self.standing.top()
            if top <= 0:
                return  # nothing passed
            # The confirmed rate is a little below the capacity, for certainty's sake, and that is part of the tie.
            least = (1 - TIE + self.tolerance / 2) * top
            for knobs in self.standing.within_tie():
                yield from self._sharpen(knobs)
                if self.standing.rate(knobs) >= (1 - TIE) * top:
                    self._confirmed = yield from self._confirmation.at(knobs, least, self.standing.slope)
                    if self._confirmed is not None:
                        return
            if self.standing.top() > 0.99 * top:  # nothing was learned that lowers the claim
                best = self.standing.best()
                if best is not None:
                    yield from self._sharpen(best)
                    self._confirmed = yield from self._confirmation.at(best, 0.0, self.standing.slope)
                return

    def _sharpen(self, knobs: Knobs) -> Steps:
        """A setting that was only looked at is measured properly before it is confirmed, if there is time."""
        with contextlib.suppress(OutOfTime):
            yield from climb.refine(self, knobs, FINAL_ERROR, self.standing.slope)

    def _edge(self) -> Steps:
        """A failed rate right above the confirmed one; where it passes and all else agrees, a higher confirmed one."""
        self.reserved_seconds = 0.0
        for attempt in range(EDGES):
            if self._confirmed is None:
                return
            self._expect("edge", 1)
            knobs, rate = self._confirmed.knobs, self._confirmed.rate
            if rate >= (1 - self.tolerance) * self.standing.ceiling:
                return  # the generator cannot show more
            failed = self.standing.failed_above(knobs, rate)
            if failed is not None and failed <= rate * (1 + 1.5 * self.tolerance):
                return
            above = rate * (1 + self.tolerance)
            try:
                measured = yield from self.trial(knobs, above, "bisect", self.seed + EDGE_SEED + attempt)
            except GeneratorLimit:
                return
            if measured.verdict == "PASS":
                least = rate * (1 + self.tolerance / 3)
                higher = yield from self._confirmation.at(knobs, least, self.standing.slope, above)
                if higher is None:
                    return
                self._confirmed = higher

    def _single(self) -> Steps:
        """About where one row at a time fails, with the chosen setting otherwise."""
        confirmed = self._confirmed
        if confirmed is None or confirmed.knobs.max_batch_rows == 1:
            return
        same = (knobs for knobs in self.space.sizes() if knobs.family == confirmed.knobs.family)
        alone = next((knobs for knobs in same if knobs.max_batch_rows == 1), None)
        if alone is None:
            return  # not among what was to be tried
        self._expect("single", SINGLE_TRIALS)
        rows_per_second = rate_alone(confirmed.trials[-1])
        known = self.standing.of(alone)
        if rows_per_second is not None and known.passed_rate is None:
            rate = min(SINGLE_LOAD * rows_per_second, (known.failed_rate or confirmed.rate) / 2)
            with contextlib.suppress(GeneratorLimit):
                yield from self.trial(alone, rate, "bracket", self.seed)
        yield from climb.bracket(self, alone, confirmed.rate / 2)

    def _largest(self) -> Knobs:
        """The setting that leads at first: of the preferred family, as late binding makes large batches harmless."""
        family = self.space.sizes()[0].family
        return max((k for k in self.space.sizes() if k.family == family), key=lambda knobs: knobs.max_batch_rows)

    # Time

    def _reserve(self, rate: float) -> None:
        wanted = RESERVED_ROUNDS * self.confirmations * self.budget.trial_seconds("confirm", max(rate, 1e-9))
        self.reserved_seconds = min(wanted, RESERVED_SHARE * self.budget.seconds)

    def _expect(self, step: str, trials: int) -> None:
        """So many trials are expected of the step that begins, and the usual number of those that follow."""
        sizes, waits = len(self.space.sizes()) - 1, len(self.space.waits_seconds) - 1
        usual = {
            "floor": 1,
            "leader": 6,
            "sizes": sizes,
            "smallest": 3,
            "waits": waits,
            "confirm": 5,
            "edge": 1,
            "single": SINGLE_TRIALS,
        }
        rate = max(self.standing.top(), self.first_rate)
        seconds = {
            name: self.budget.trial_seconds("confirm" if name == "confirm" else "bracket", rate) for name in usual
        }
        names = list(usual)
        self._ahead = sum(usual[name] * seconds[name] for name in names[names.index(step) + 1 :])
        self._step_ends = self.budget.spent_seconds + trials * seconds[step]

    def left_seconds(self) -> float:
        """An estimate, never more than what is left of the budget."""
        if self._ended is not None:
            return 0.0
        rate = max(self.standing.top(), self.first_rate)
        current = max(self._step_ends - self.budget.spent_seconds, self.budget.trial_seconds("bracket", rate))
        return min(self._ahead + current, self.budget.left_seconds)

    # What it says

    def best(self) -> Best | None:
        if self._confirmed is not None:
            return Best(self._confirmed.knobs, self._confirmed.rate, True)
        passed = [(each.passed_rate, each.knobs) for each in self.standing.frontiers() if each.passed_rate]
        if not passed:
            return None
        rate, knobs = max(passed, key=lambda pair: pair[0] or 0.0)
        return Best(knobs, rate or 0.0, False)

    def _found(self) -> Found:
        trials = tuple(self.trials)
        valid = [trial for trial in trials if trial.verdict != "INVALID"]
        limit = self.standing.generator_limit
        found = Found(
            "partial",
            self.slo,
            trials,
            self.budget.spent_seconds,
            floor=min(valid, key=lambda trial: trial.p99, default=None),
            generator_rate=max((trial.rate for trial in valid if trial.rate < limit), default=None) if limit else None,
            why=self.why,
        )
        if self._ground is Ground.UNMET:
            return replace(found, kind="cannot_meet")
        if self._ground is Ground.SLOW:
            return replace(found, kind="too_slow", needed_seconds=self._needed_seconds())
        if self._confirmed is None:
            best = self.best()
            return found if best is None else replace(found, knobs=best.knobs, rate=best.rate)
        failed = self.standing.failed_above(self._confirmed.knobs, self._confirmed.rate)
        limited = limit is not None and (failed is None or failed >= limit)
        return replace(
            found,
            kind="generator_limited" if limited else "chosen",
            knobs=self._confirmed.knobs,
            rate=self._confirmed.rate,
            confirmations=self._confirmed.trials,
            failed_rate=failed,
        )

    def _needed_seconds(self) -> float:
        """For a search at the largest rate that did not fail."""
        failed = min((trial.rate for trial in self.trials if trial.verdict == "FAIL"), default=float("inf"))
        held = max((trial.rate for trial in self.trials if trial.rate < failed), default=self.first_rate)
        return self.budget.least_plan_seconds(held, self.confirmations, NEEDED_SEARCHING)
