"""Which rate to try next, so that a few short steps show where a batch size's knee is and what lies beyond it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

GROWTH: Final = 1.6  # from step to step while the SLO is met
BEYOND: Final = 1.35  # a point this far past the first miss shows what overload does
NARROW: Final = 1.12  # the largest met and the smallest missed rate are close enough
KEPT_UP: Final = 0.9  # the generator offered at least this share of what it was told, chance aside


@dataclass(frozen=True, slots=True)
class Step:
    """One rate that was tried."""

    rate: float
    offered_rps: float
    seconds: float
    met: bool

    @property
    def generator_kept_up(self) -> bool:
        chance = 4 * math.sqrt(self.rate / self.seconds)  # four standard deviations of a Poisson count, per second
        return self.offered_rps >= KEPT_UP * self.rate - chance


def next_rate(steps: Sequence[Step], first_rate: float, steps_left: int) -> float | None:
    """The next rate for this batch size, or None when its curve is drawn or there is no time left.

    Up until the SLO breaks; one point well beyond; what is left narrows the knee. Where even the first rate misses,
    down until one is met.
    """
    if steps_left <= 0:
        return None
    if not steps:
        return first_rate
    lowest_missed = min((step.rate for step in steps if not step.met), default=math.inf)
    met = [step.rate for step in steps if step.met and step.rate < lowest_missed]
    highest = max(step.rate for step in steps)
    if math.isinf(lowest_missed):
        return highest * GROWTH if all(step.generator_kept_up for step in steps) else None
    if not met:
        return lowest_missed / GROWTH if len(steps) < 4 else None
    if highest < lowest_missed * (BEYOND - 0.01) and all(step.generator_kept_up for step in steps):
        return lowest_missed * BEYOND
    if lowest_missed / max(met) > NARROW:
        return math.sqrt(lowest_missed * max(met))
    return None


def largest_met(steps: Sequence[Step]) -> float | None:
    """The largest rate inside the SLO below the first that was not; None when none was inside."""
    lowest_missed = min((step.rate for step in steps if not step.met), default=math.inf)
    return max((step.rate for step in steps if step.met and step.rate < lowest_missed), default=None)


def measure_seconds(rate: float) -> float:
    """Long enough for about 1,500 arrivals, fifteen of which lie beyond the p99; but from 4 to 6 s."""
    return min(max(1500 / rate, 4.0), 6.0)
