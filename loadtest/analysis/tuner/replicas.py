"""How many replicas a target rate needs."""

import math
from dataclasses import dataclass
from typing import Final

from loadtest.analysis.words import rate_text, share_text

HEADROOM: Final = 0.2
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Replicas:
    """`count` replicas carry `target_rate` with each at most at `1 − headroom` of its confirmed rate."""

    count: int
    target_rate: float
    rate: float  # confirmed, of one
    headroom: float

    @property
    def load(self) -> float:
        """Of each replica, as a share of its confirmed rate."""
        return self.target_rate / self.count / self.rate

    @property
    def survives_one_lost(self) -> bool:
        """Whether the others stay within their confirmed rate when one is gone."""
        return self.count > 1 and self.target_rate <= (self.count - 1) * self.rate

    def told(self) -> str:
        lost = "one of them may fail" if self.survives_one_lost else "none of them may fail"
        return (
            f"{rate_text(self.target_rate)}/s need {self.count} replica{'' if self.count == 1 else 's'} of "
            f"{rate_text(self.rate)}/s each with {share_text(self.headroom)} headroom: each then runs at "
            f"{share_text(self.load)} of its confirmed rate, and {lost}."
        )


def replicas(rate: float, target_rate: float, headroom: float = HEADROOM) -> Replicas:
    """For `target_rate`, where one replica was confirmed at `rate`; both in requests per second.

    Near its capacity a queue's latency goes with the reciprocal of what is spare, so a few percent more load, or an
    uneven balancer, cost far more than a few percent of latency: the headroom is what keeps p99 away from that.
    """
    if not (rate > 0 and target_rate > 0):
        raise ValueError(f"the rates are {rate} and {target_rate}; expected numbers above 0")
    if not 0 <= headroom < 1:
        raise ValueError(f"the headroom is {headroom}; expected a share from 0 to below 1")
    return Replicas(max(1, math.ceil(target_rate / (rate * (1 - headroom)) - _ROUNDING)), target_rate, rate, headroom)
