"""How the settings compare by what was measured so far."""

import math
from typing import Final

from loadtest.analysis.tuner.capacity import USUAL_SLOPE, Capacity
from loadtest.analysis.tuner.frontier import Frontier, frontiers
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Measured

TIE: Final = 0.05  # within it the smaller batch wins, then the smaller wait
MOST_ERROR: Final = 0.3  # of ln(rate), that is held against an estimate
# Of a rate that the generator could not hold: nearer to it, it is late by chance in every other trial.
TRUSTED: Final = 0.9


class Standing:
    """Settings by worth: a view of `trials`, which grows while the search goes on."""

    def __init__(self, trials: list[Measured], threshold_seconds: float) -> None:
        self._trials, self._threshold = trials, threshold_seconds
        self.slope = USUAL_SLOPE  # of the first setting whose rate was searched; others are taken to be like it
        self._not_held: dict[Knobs, float] = {}

    def not_held(self, knobs: Knobs, rate: float) -> None:
        """The generator could not hold `rate` with this setting, whatever was tried."""
        self._not_held[knobs] = min(rate, self.limit_of(knobs))

    def limit_of(self, knobs: Knobs) -> float:
        """The smallest rate that the generator is known not to hold with this setting."""
        return min(self._not_held.get(knobs, math.inf), self.generator_limit or math.inf)

    @property
    def generator_limit(self) -> float | None:
        """The smallest rate that it could not hold at all.

        A setting that is too slow for its rate holds thousands of requests open, and that can make the generator late.
        Where another setting passed at such a rate and this one never near it, the generator is not what was wrong.
        """
        passed = {each.knobs: each.passed_rate or 0.0 for each in self.frontiers()}
        top = max(passed.values(), default=0.0)
        limits = (
            rate for knobs, rate in self._not_held.items() if rate > top or passed.get(knobs, 0.0) > (1 - TIE) * rate
        )
        return min(limits, default=None)

    @property
    def ceiling(self) -> float:
        """The largest rate that the generator is trusted to hold."""
        return math.inf if self.generator_limit is None else TRUSTED * self.generator_limit

    def frontiers(self) -> list[Frontier]:
        return frontiers(self._trials, self._threshold)

    def of(self, knobs: Knobs) -> Frontier:
        return Frontier(knobs, self._threshold, tuple(t for t in self._trials if t.ask.knobs == knobs))

    def capacity(self, knobs: Knobs) -> Capacity | None:
        return self.of(knobs).capacity(self.slope)

    def rate(self, knobs: Knobs) -> float:
        """What the setting is worth: its estimated capacity, up to the generator's ceiling; 0 if none passed."""
        return self._worth(self.of(knobs))[0]

    def top(self) -> float:
        """What the best setting has shown it can do: its rate less a standard error, or luck would lead."""
        return max((self._worth(frontier)[1] for frontier in self.frontiers()), default=0.0)

    def best(self) -> Knobs | None:
        """The setting that has shown the most, if any passed anything."""
        top = max(self.frontiers(), key=lambda frontier: self._worth(frontier)[1], default=None)
        return top.knobs if top is not None and self._worth(top)[1] > 0 else None

    def within_tie(self) -> list[Knobs]:
        """Those worth as much as the best, but for the tie; the smaller batch first, then the smaller wait."""
        least = (1 - TIE) * self.top()
        near = [frontier.knobs for frontier in self.frontiers() if 0 < least <= self._worth(frontier)[0]]
        return sorted(near, key=lambda knobs: knobs.size)

    def failed_above(self, knobs: Knobs, rate: float) -> float | None:
        """The smallest rate above `rate` at which the setting failed, if only once."""
        failed = (trial.rate for trial in self.of(knobs).trials if trial.verdict == "FAIL" and trial.rate > rate)
        return min(failed, default=None)

    def _worth(self, frontier: Frontier) -> tuple[float, float]:
        """Its rate, and what of it was shown."""
        passed = frontier.passed_rate
        if passed is None:
            return 0.0, 0.0
        capacity = frontier.capacity(self.slope)
        ceiling = TRUSTED * self.limit_of(frontier.knobs)
        if capacity is None or capacity.rate >= ceiling:
            worth = min(passed, ceiling)
            return worth, worth
        return capacity.rate, capacity.rate * math.exp(-min(capacity.error, MOST_ERROR))
