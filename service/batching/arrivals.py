"""How soon the next requests tend to come, learned at the moments when holding a batch is weighed.

Two kinds of moments are kept apart. When a request arrives and a worker is free: did one more come while holding could
have paid? By the number k that wait, since callers who come in a flock of 32 are followed closely up to the 32nd and by
nobody after it. When a worker becomes free and some wait already: how many come, and when? There the callers who were
just answered may all be on their way back, and it pays to wait for the flock where it would not pay to wait for one.

Both are seen whether the batch was held or not, so nothing is ever held only to learn.
"""

import math
from typing import Final

from service.batching.policy import Expectation

WEIGHT: Final = 1 / 8  # of the newest sample: about the last dozen moments count
NEEDED: Final = 3  # samples before they say anything
_FLOCKS: Final = tuple(1 << power for power in range(8))  # the 1st, 2nd, 4th ... 128th to come


class _Odds:
    __slots__ = ("probability", "samples", "seconds")

    def __init__(self) -> None:
        self.samples = 0
        self.probability = 0.0
        self.seconds = 0.0

    def add(self, came: bool, seconds: float) -> None:
        self.samples += 1
        weight = max(WEIGHT, 1 / self.samples)  # a plain mean at first
        self.probability += weight * (came - self.probability)
        self.seconds += weight * (seconds - self.seconds)


class ArrivalEstimator:
    """Exponentially weighted odds and waiting times. Not locked: the batcher calls it under its own lock."""

    def __init__(self) -> None:
        self.news_at = -math.inf  # the last arrival, or a worker becoming free to those who waited
        self._news_is_arrival = True
        self._next = [_Odds() for _ in range(64)]  # by the size class of those who wait
        self._weighed: tuple[int, float] | None = None  # (requests, patience) if a hold was weighed since the arrival
        self._flocks = [_Odds() for _ in _FLOCKS]
        self._flock_at: float | None = None  # the worker became free, and who comes is being counted
        self._flock_horizon = 0.0
        self._came = 0
        self._came_after: list[float] = []  # the 1st, 2nd, 4th ... so long after `_flock_at`

    def worker_became_free(self, now: float, horizon_seconds: float) -> None:
        """To some who wait. Whoever comes later than the horizon, the most that a hold can bring, is of no interest."""
        self._close_flock(now)
        self.news_at = self._flock_at = now
        self._flock_horizon = horizon_seconds
        self._news_is_arrival = False
        self._weighed = None

    def weigh(self, requests: int, patience_seconds: float) -> None:
        """Holding `requests` for at most `patience_seconds` from the last arrival is decided. Only the first counts."""
        if self._news_is_arrival and self._weighed is None:
            self._weighed = (requests, patience_seconds)

    def arrived(self, now: float) -> None:
        if self._weighed is not None:
            requests, patience = self._weighed
            gap = now - self.news_at
            self._next[requests.bit_length()].add(gap < patience, min(gap, patience))
            self._weighed = None
        if self._flock_at is not None:
            gap = now - self._flock_at
            if gap >= self._flock_horizon:
                self._close_flock(now)
            else:
                self._came += 1
                if self._came & (self._came - 1) == 0:
                    self._came_after.append(gap)
        self.news_at = now
        self._news_is_arrival = True

    def expect(self, requests: int) -> tuple[Expectation, ...]:
        """Of the moment of the last news, with so many waiting. Empty while too little was seen."""
        if self._news_is_arrival:
            odds = self._next[requests.bit_length()]
            return (Expectation(odds.probability, odds.seconds),) if odds.samples >= NEEDED else ()
        return tuple(
            Expectation(odds.probability, odds.seconds, count)
            for count, odds in zip(_FLOCKS, self._flocks, strict=True)
            if odds.samples >= NEEDED
        )

    def _close_flock(self, now: float) -> None:
        if self._flock_at is None:
            return
        for odds, seconds in zip(self._flocks, self._came_after, strict=False):
            odds.add(True, seconds)
        if now - self._flock_at >= self._flock_horizon:  # else the others might still have come in time
            for odds in self._flocks[len(self._came_after) :]:
                odds.add(False, self._flock_horizon)
        self._flock_at = None
        self._came = 0
        self._came_after.clear()
