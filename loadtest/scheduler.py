"""Arrivals meet users: every arrival that is due goes to a free user at once, or is dropped.

The scheduler advances by its schedule, never by "now": a late wake-up releases all that has become due, each with its
own scheduled instant, and after a stall nothing is sent but the schedule's own arrivals. An arrival that finds no
free user is not kept for later: that would turn the open loop into a queue inside the generator.
"""

import math
from collections.abc import Callable
from dataclasses import replace
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
        self._zero = 0.0  # instant at which the curve's time began
        self._coming: list[tuple[float, Plan]] = []  # plans that take over later, and when
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
        """Start with a plan, or go on with another one; the load ends after `seconds` of the curve's time.

        One that makes the same arrivals, or begins its curve anew, takes over now. Another share of a load that goes
        on takes over when `plan.begun` seconds of *this worker's* curve are over: users come a little later in one
        worker than in another, and so each arrival is in the share of exactly one, whenever each of them was told.
        """
        self._seconds = seconds
        if self._schedule is None or self._plan is None:
            self._plan = plan
            return
        now = self._clock()
        self._release_due(now)
        latest = self._coming[-1][1] if self._coming else self._plan
        if plan.begun and not plan.same_process(latest):
            begun = max(plan.begun, now - self._zero)  # where the word came late: none of its own twice
            self._coming.append((self._zero + begun, replace(plan, begun=begun)))
        else:
            self._coming.clear()
            self._take_over(plan, now)

    def _take_over(self, plan: Plan, now: float) -> None:
        assert self._schedule is not None
        while self._schedule.next <= now:  # beyond the end: not part of the load
            self._schedule.take()
        self._schedule.edit(plan, now)
        self._plan, self._zero = plan, now - plan.begun
        self._end = self._zero + self._seconds

    def stop(self) -> None:
        """No more arrivals until the next plan; what was due by now still counts."""
        if self._schedule is not None:
            self._release_due(self._clock())
        self._plan = self._schedule = None
        self._coming.clear()

    def run_once(self) -> float:
        """Release every arrival that is due; seconds until the next, inf if none is to come, 0 or less if it is due."""
        if self._schedule is None:
            if self._plan is None or not self._idle:
                return math.inf
            # The schedule's time begins when there are users, so that no arrival comes before the first of them.
            now = self._clock()
            self._schedule = Schedule(self._plan, now)
            self._zero = now - self._plan.begun
            self._end = self._zero + self._seconds
            self._account.begin(self._zero)
        self._release_due(self._clock())
        due = self._schedule.next if self._schedule.next < self._end else math.inf
        if self._coming:
            due = min(due, self._coming[0][0])
        return due - self._clock()

    @property
    def end(self) -> float | None:
        """The instant from which on no arrival is due any more, maybe inf; None before the first user."""
        return None if self._schedule is None else self._end

    def rate(self) -> float:
        """Arrivals per second that this worker has to start now."""
        now = self._clock()
        return self._schedule.rate(now) if self._schedule is not None and now < self._end else 0.0

    def _release_due(self, now: float) -> None:
        while self._coming and self._coming[0][0] <= now:
            handover, plan = self._coming.pop(0)
            self._release_until(handover, now)
            self._take_over(plan, handover)
        self._release_until(now, now)

    def _release_until(self, until: float, now: float) -> None:
        # `now` is read once: were it read in the loop, a generator too slow for its rate would never leave it.
        schedule = self._schedule
        assert schedule is not None
        while schedule.next <= until and schedule.next < self._end:
            scheduled = schedule.take()
            if self._idle:
                user, _ = self._idle.popitem()
                user.take_arrival(self._account.start(scheduled), scheduled)
            else:
                self._account.drop(scheduled, now)
                self._on_drop(now - scheduled)
