"""What a load generator says about itself: one process's report, and the sum of those of all workers. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from loadtest.account import COUNTS, Account
from loadtest.recorder import Recorder

FRESH_SECONDS: Final = 10.0  # a worker that has not reported for so long has no load of its own any more


@dataclass(slots=True)
class Report:
    """Counts since the process started (they only grow), and the state of this moment."""

    recorder: Recorder
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    in_flight: int = 0
    oldest_seconds: float = 0.0
    rate: float = 0.0

    @classmethod
    def of(cls, account: Account, recorder: Recorder, rate: float, now: float) -> "Report":
        """This process's own report."""
        return cls(recorder, account.counts(), len(account.in_flight), account.oldest_seconds(now), rate)

    def packed(self) -> dict[str, Any]:
        """As it travels to the master."""
        return {
            "counts": self.counts,
            "in_flight": self.in_flight,
            "oldest_seconds": self.oldest_seconds,
            "rate": self.rate,
            "histograms": self.recorder.packed(),
        }

    def as_json(self) -> dict[str, Any]:
        """For people and programs: the account and the state."""
        return {
            **self.counts,
            "in_flight": self.in_flight,
            "oldest_in_flight_seconds": self.oldest_seconds,
            "target_rate": self.rate,
        }


class WorkerReports:
    """The latest report of every worker. Reports carry totals, not steps: one that is lost costs nothing."""

    def __init__(self, edges: Sequence[float], names: Sequence[str], clock: Callable[[], float]) -> None:
        self._edges = edges
        self._names = names
        self._clock = clock
        self._latest: dict[str, tuple[float, Mapping[str, Any]]] = {}

    def receive(self, worker: str, packed: Mapping[str, Any]) -> None:
        """A worker's report has come."""
        self._latest[worker] = (self._clock(), packed)

    def sum(self) -> Report:
        """Counts of all workers that ever were; the state of those that still report.

        What a silent worker had in flight is not known and not counted: its counts show the gap.
        """
        whole = Report(Recorder(self._edges, self._names))
        now = self._clock()
        for at, packed in self._latest.values():
            whole.recorder.add(packed["histograms"])
            for name in COUNTS:
                whole.counts[name] += packed["counts"][name]
            if now - at <= FRESH_SECONDS:
                whole.in_flight += packed["in_flight"]
                whole.rate += packed["rate"]
                # Between two reports the oldest request only gets older, or is gone: the next report says which.
                whole.oldest_seconds = max(whole.oldest_seconds, packed["oldest_seconds"])
        return whole
