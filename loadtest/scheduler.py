"""Arrivals meet users: every arrival that is due goes to a free user at once, or is dropped.

The scheduler advances by its schedule, never by "now": a late wake-up releases all that has become due, each with its
own scheduled instant, and after a stall nothing is sent but the schedule's own arrivals. An arrival that finds no
free user is not kept for later: that would turn the open loop into a queue inside the generator.
"""

import math
from collections.abc import Callable
from typing import Protocol

from loadtest.account import Account
from loadtest.arrivals import Plan, Schedule


class ArrivalTaker(Protocol):
    """A user that can be given an arrival while it is idle."""

    def take_arrival(self, number: int, scheduled: float) -> None:
        """Serve it soon. Must not block, and must not raise. The account's `number`, the schedule's instant."""
        ...


class Scheduler:
    """One worker's arrivals. Not thread-safe: it lives in one gevent hub, and nothing here yields."""

    def __init__(self, account: Account, clock: Callable[[], float], on_drop: Callable[[float], None]) -> None:
        """`on_drop` hears how many seconds after its instant an arrival was dropped."""
        self._account = account
        self._clock = clock
        self._on_drop = on_drop
        self._plan: Plan | None = None
        self._schedule: Schedule | None = None
        self._seconds = math.inf  # of the curve's time, after which no arrival is due any more
        self._end = math.inf  # the same as an instant
        # A dict is a stack (popitem) from which anyone can leave in constant time. Last in, first out: the same few
        # connections stay warm, and the number of those in use shows how many the load needs.
        self._idle: dict[ArrivalTaker, None] = {}

    @property
    def idle_users(self) -> int:
        """Users that wait for an arrival."""
        return len(self._idle)

    def join(self, user: ArrivalTaker) -> bool:
        """`user` is free; whether the schedule waits for that: then the next `run_once` starts it."""
        self._idle[user] = None
        return self._plan is not None and self._schedule is None

    def leave(self, user: ArrivalTaker) -> bool:
        """`user` takes no more arrivals; whether it was idle."""
        was_idle = user in self._idle
        if was_idle:
            del self._idle[user]
        return was_idle

    def follow(self, plan: Plan, seconds: float = math.inf) -> None:
        """Start with a plan, or go on from now with another one; the load ends after `seconds` of the curve's time."""
        self._seconds = seconds
        if self._schedule is not None:
            now = self._clock()
            self._release_due(now)
            while self._schedule.next <= now:  # beyond the end: not part of the load
                self._schedule.take()
            self._schedule.edit(plan, now)
            self._end = now + seconds - plan.begun
        self._plan = plan

    def stop(self) -> None:
        """No more arrivals until the next plan; what was due by now still counts."""
        if self._schedule is not None:
            self._release_due(self._clock())
        self._plan = self._schedule = None

    def run_once(self) -> float:
        """Release every arrival that is due; seconds until the next, inf if none is to come, 0 or less if it is due."""
        if self._schedule is None:
            if self._plan is None or not self._idle:
                return math.inf
            # The schedule's time begins when there are users, so that no arrival comes before the first of them.
            now = self._clock()
            self._schedule = Schedule(self._plan, now)
            self._end = now + self._seconds - self._plan.begun
            self._account.begin(now - self._plan.begun)
        self._release_due(self._clock())
        return self._schedule.next - self._clock() if self._schedule.next < self._end else math.inf

    @property
    def end(self) -> float | None:
        """The instant from which on no arrival is due any more, maybe inf; None before the first user."""
        return None if self._schedule is None else self._end

    def rate(self) -> float:
        """Arrivals per second that this worker has to start now."""
        now = self._clock()
        return self._schedule.rate(now) if self._schedule is not None and now < self._end else 0.0

    def _release_due(self, now: float) -> None:
        # `now` is read once: were it read in the loop, a generator too slow for its rate would never leave it.
        schedule = self._schedule
        assert schedule is not None
        while schedule.next <= now and schedule.next < self._end:
            scheduled = schedule.take()
            if self._idle:
                user, _ = self._idle.popitem()
                user.take_arrival(self._account.start(scheduled), scheduled)
            else:
                self._account.drop(scheduled, now)
                self._on_drop(now - scheduled)
