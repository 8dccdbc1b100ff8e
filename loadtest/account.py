"""Where every arrival went, exactly.

offered = started + dropped, and started = completed + failed + unfinished + in flight, at every moment.
"""

from dataclasses import dataclass, field
from typing import Final

COUNTS: Final = ("offered", "started", "dropped", "completed", "failed", "unfinished")


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

    def start(self, scheduled: float) -> int:
        """An arrival goes to a user; its number is what `finish` and `cut_short` take."""
        number = self.offered
        self.offered += 1
        self.started += 1
        self.in_flight[number] = scheduled
        return number

    def drop(self) -> None:
        """An arrival finds no user."""
        self.offered += 1
        self.dropped += 1

    def finish(self, number: int, ok: bool) -> None:
        """A request has its outcome."""
        del self.in_flight[number]
        if ok:
            self.completed += 1
        else:
            self.failed += 1

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
