"""Whether the load is still the one that was started: same rate, never stopped, all of it at the service."""

import math
from collections import deque
from dataclasses import dataclass
from typing import Final

from stack.demo.words import rate_text

STOPPED_SECONDS: Final = 4.0  # (almost) no arrivals for this long: the load has stopped
STRETCH_SECONDS: Final = 10.0  # the offered rate is checked over every stretch of this length
_STOPPED_SHARE: Final = 0.1
_REACHED_SHARE: Final = 0.95  # requests in flight at either end, and a retry here or there
_SLACK: Final = 0.03  # for clocks and scrapes on a busy machine


@dataclass(frozen=True, slots=True)
class Counts:
    """What has been counted up to one instant."""

    at: float
    offered: float  # arrivals, by the generator
    reached: float  # requests, by the service
    target_rate: float


def tolerance(expected_arrivals: float) -> float:
    """Relative deviation that chance (four standard deviations of a Poisson count) and the clocks explain."""
    return _SLACK + 4 / math.sqrt(expected_arrivals)


class UnchangedLoad:
    """Feed it counts in order once arrivals have begun; `stopped` and `fault` say what is no longer as started."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._seen: deque[Counts] = deque()

    def see(self, now: Counts) -> None:
        self._seen.append(now)
        while len(self._seen) > 2 and now.at - self._seen[1].at >= 2 * (STRETCH_SECONDS + STOPPED_SECONDS):
            self._seen.popleft()

    @property
    def stopped(self) -> bool:
        stretch = self._last(STOPPED_SECONDS)
        return stretch is not None and _offered_rate(*stretch) < _STOPPED_SHARE * self.rate

    def fault(self) -> str | None:
        """One clause on how the load changed, or None."""
        now = self._seen[-1]
        if now.target_rate > 0 and not math.isclose(now.target_rate, self.rate, rel_tol=1e-6):
            before, after = rate_text(self.rate), rate_text(now.target_rate)
            return f"the load was changed from {before}/s to {after}/s at {now.at:.0f} s"
        recent = self._last(STOPPED_SECONDS)  # judged once it is past, so that a stop is not called a drift
        stretch = self._last(STRETCH_SECONDS, recent[0]) if recent else None
        if stretch and self._deviates(*stretch):
            start, end = stretch
            return (
                f"the offered load drifted to {rate_text(_offered_rate(start, end))}/s from {start.at:.0f} s to "
                f"{end.at:.0f} s; {rate_text(self.rate)}/s were to be offered"
            )
        return None

    def fault_since(self, start: Counts, now: Counts) -> str | None:
        """The same over all the time since `start`, at both ends of the wire."""
        offered = _offered_rate(start, now)
        if self._deviates(start, now):
            return f"{rate_text(offered)}/s were offered since then instead of {rate_text(self.rate)}/s"
        reached = (now.reached - start.reached) / (now.at - start.at)
        if reached < _REACHED_SHARE * offered:
            return f"the service counted only {rate_text(reached)}/s of the {rate_text(offered)}/s offered since then"
        return None

    def _deviates(self, start: Counts, end: Counts) -> bool:
        expected = self.rate * (end.at - start.at)
        return abs((end.offered - start.offered) / expected - 1) > tolerance(expected)

    def _last(self, seconds: float, end: Counts | None = None) -> tuple[Counts, Counts] | None:
        """The shortest stretch of at least `seconds` up to `end` (now); None when not watched for so long."""
        end = end or self._seen[-1]
        for earlier in reversed(self._seen):
            if end.at - earlier.at >= seconds:
                return earlier, end
        return None


def _offered_rate(start: Counts, end: Counts) -> float:
    return (end.offered - start.offered) / (end.at - start.at)
