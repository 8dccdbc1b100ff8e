"""Which rate to try next, so that a few short steps show where a batch size's knee is and what lies beyond it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

GROWTH: Final = 1.6  # from step to step while the SLO is met
BEYOND: Final = 1.35  # a point this far past the first miss shows what overload does
NARROW: Final = 1.12  # the largest met and the smallest missed rate are close enough
KEPT_UP: Final = 0.9  # the generator offered at least this share of what it was told, chance aside
OVERLOADED: Final = 0.9
_DOWNWARD_STEPS: Final = 4  # where even the first rate misses


@dataclass(frozen=True, slots=True)
class Step:
    """One rate that was tried."""

    rate: float
    offered_rps: float
    seconds: float
    met: bool
    served_rps: float = math.inf

    @property
    def overloaded(self) -> bool:
        """Whether much of what was offered was not served."""
        return self.served_rps < OVERLOADED * self.offered_rps

    @property
    def generator_kept_up(self) -> bool:
        chance = 4 * math.sqrt(self.rate / self.seconds)  # four standard deviations of a Poisson count, per second
        return self.offered_rps >= KEPT_UP * self.rate - chance


def next_rate(steps: Sequence[Step], first_rate: float, steps_left: int) -> float | None:
    """The next rate for this batch size, or None when its curve is drawn or there is no time left.

    Up until the SLO breaks; one point beyond; again where the steps contradict one another; then narrow the knee, and
    with what is left go on to where much is lost. Where even the first rate misses, down until one is met.
    """
    if steps_left <= 0:
        return None
    if not steps:
        return first_rate
    low, high = _knees(steps)
    inside = [step.rate for step in steps if step.met and step.rate <= low]
    missed = min((step.rate for step in steps if not step.met and step.rate > low), default=math.inf)
    highest = max(step.rate for step in steps)
    kept_up = all(step.generator_kept_up for step in steps)
    if math.isinf(missed):
        return highest * GROWTH if kept_up else None
    if low < high:  # as likely below as above: one more look at the miss that a higher rate contradicts
        return missed
    if not inside:
        return missed / GROWTH if len(steps) < _DOWNWARD_STEPS else None
    if highest < missed * (BEYOND - 0.01) and kept_up:
        return missed * BEYOND
    if missed / max(inside) > NARROW:
        return math.sqrt(missed * max(inside))
    if kept_up and not any(step.overloaded for step in steps):
        return highest * GROWTH
    return None


def largest_met(steps: Sequence[Step]) -> float | None:
    """The largest rate inside the SLO: below the knee that contradicts the fewest steps; None when none was inside."""
    low, _ = _knees(steps)
    return low or None


def measure_seconds(rate: float) -> float:
    """Long enough for about 1,500 arrivals, fifteen of which lie beyond the p99; but from 4 to 6 s."""
    return min(max(1500 / rate, 4.0), 6.0)


def _knees(steps: Sequence[Step]) -> tuple[float, float]:
    """(lowest, highest) of the rates that can be the largest met one, 0 for none.

    Steps are short and machines do other things, so a single miss may be no overload and a single success luck: the
    knee is where the fewest steps are on the wrong side.
    """
    candidates = [0.0, *sorted({step.rate for step in steps if step.met})]
    wrong = {knee: sum(step.met != (step.rate <= knee) for step in steps) for knee in candidates}
    fewest = [knee for knee in candidates if wrong[knee] == min(wrong.values())]
    return fewest[0], fewest[-1]
