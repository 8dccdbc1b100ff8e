"""Where every arrival went, exactly.

offered = started + dropped, and started = completed + failed + unfinished + in flight, at every moment.
"""

import math
from dataclasses import dataclass, field
from typing import Final, Protocol

from loadtest.analysis.samples import End

COUNTS: Final = ("offered", "started", "dropped", "completed", "failed", "unfinished")

MAX_KINDS: Final = 20  # distinct ways of failing that are told apart; more of them count as one
OTHER_KIND: Final = "other failures"


class SampleLog(Protocol):
    """Where a row per arrival is kept; row k is that of the k-th arrival it is told of."""

    def start(self, instant: float) -> None:
        """The load began then: the zero of its curve's time."""
        ...

    def begin(self, scheduled: float) -> int:
        """An arrival goes to a user."""
        ...

    def drop(self, scheduled: float, now: float) -> None:
        """An arrival finds no user."""
        ...

    def end(self, row: int, sent: float, done: float, end: End) -> None:
        """The arrival of that row has its outcome."""
        ...


@dataclass(slots=True)
class Account:
    """Counts of arrivals, and those that are in flight: number → scheduled instant, oldest first."""

    offered: int = 0  # the schedule asked for a request
    started: int = 0  # a user took it
    dropped: int = 0  # no user was free: the cap on requests in flight was reached
    completed: int = 0  # answered 2xx
    failed: int = 0  # answered otherwise, or not at all
    unfinished: int = 0  # cut short because the run was stopped
    in_flight: dict[int, float] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    """Failures by what they were, in words; their sum is `failed`."""
    samples: SampleLog | None = None
    first_sample: int = 0  # the number of the arrival in the first row of `samples`

    def keep(self, samples: SampleLog | None) -> None:
        """From the next arrival on, a row for each; None: no longer."""
        self.samples, self.first_sample = samples, self.offered

    def begin(self, instant: float) -> None:
        """The load began then: the zero of its curve's time."""
        if self.samples is not None:
            self.samples.start(instant)

    def start(self, scheduled: float) -> int:
        """An arrival goes to a user; its number is what `finish` and `cut_short` take."""
        number = self.offered
        self.offered += 1
        self.started += 1
        self.in_flight[number] = scheduled
        if self.samples is not None:
            self.samples.begin(scheduled)
        return number

    def drop(self, scheduled: float, now: float) -> None:
        """An arrival finds no user."""
        self.offered += 1
        self.dropped += 1
        if self.samples is not None:
            self.samples.drop(scheduled, now)

    def finish(self, number: int, end: End, kind: str = "", sent: float = math.nan, done: float = math.nan) -> None:
        """A request has its outcome: with a reply, TIMED_OUT or CONNECTION. `kind` is a failure in words."""
        del self.in_flight[number]
        if end == End.OK:
            self.completed += 1
        else:
            self.failed += 1
            if kind not in self.kinds and len(self.kinds) >= MAX_KINDS:
                kind = OTHER_KIND
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if self.samples is not None and number >= self.first_sample:
            self.samples.end(number - self.first_sample, sent, done, end)

    def cut_short(self, number: int) -> None:
        """A request was given up because its user was stopped."""
        del self.in_flight[number]
        self.unfinished += 1

    def oldest_seconds(self, now: float) -> float:
        """Age of the oldest request in flight since its scheduled instant; 0 without any."""
        # Requests start in the order of their instants, and a dict keeps the order.
        return max(0.0, now - next(iter(self.in_flight.values()))) if self.in_flight else 0.0

    def counts(self) -> dict[str, int]:
        """The six counts by name."""
        return {name: getattr(self, name) for name in COUNTS}
