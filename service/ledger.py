"""Counts the records of requests and batches, cheaply: one lock, one bisection, a few additions; about a microsecond.

Text is made of it at scrape time only, by `exposition`.
"""

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.batching.records import BatchRecord
from service.records import RequestRecord
from slo import names
from slo.buckets import batch_row_edges


class Distribution:
    """A histogram's state: counts per bucket (the last is +Inf) and the sum. Guarded by the ledger's lock."""

    __slots__ = ("counts", "edges", "sum")

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges: Final = tuple(edges)
        self.counts = [0] * (len(self.edges) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """`value` falls into the first bucket whose edge is not below it."""
        self.counts[bisect_left(self.edges, value)] += 1
        self.sum += value

    def copy(self) -> "Distribution":
        """As it is now."""
        other = Distribution(self.edges)
        other.counts = self.counts.copy()
        other.sum = self.sum
        return other


class Ledger:
    """Counts every record once. Any thread may call it."""

    def __init__(self, routes: Sequence[str], duration_edges: Sequence[float], capacity_rows: int) -> None:
        self.duration_edges: Final = tuple(duration_edges)
        self._lock = threading.Lock()
        self._requests = {
            (route, outcome): Distribution(duration_edges) for route in routes for outcome in names.OUTCOMES
        }
        self._queue_waits = Distribution(duration_edges)
        self._model_durations = Distribution(duration_edges)
        self._batch_rows = {trigger: Distribution(batch_row_edges(capacity_rows)) for trigger in names.TRIGGERS}
        self._rejected = dict.fromkeys(names.REJECT_REASONS, 0)
        self._worker_restarts = 0

    def on_request(self, record: RequestRecord) -> None:
        """One request has ended, whatever its end."""
        with self._lock:
            self._requests[record.route, record.outcome].add(record.seconds)
            if record.reason is not None:
                self._rejected[record.reason] += 1

    def on_batch(self, record: BatchRecord) -> None:
        """One run of the model has ended."""
        with self._lock:
            self._batch_rows[record.trigger].add(record.rows)
            if record.error is None:
                self._model_durations.add(record.model_seconds)
            for wait in record.queue_waits:
                self._queue_waits.add(wait)

    def on_worker_restart(self) -> None:
        """A model worker has been replaced."""
        with self._lock:
            self._worker_restarts += 1

    def snapshot(self) -> "Snapshot":
        """A consistent copy, made under the lock; the text is made from it outside."""
        with self._lock:
            return Snapshot(
                requests={key: distribution.copy() for key, distribution in self._requests.items()},
                queue_waits=self._queue_waits.copy(),
                model_durations=self._model_durations.copy(),
                batch_rows={key: distribution.copy() for key, distribution in self._batch_rows.items()},
                rejected=self._rejected.copy(),
                worker_restarts=self._worker_restarts,
            )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The ledger at one instant."""

    requests: dict[tuple[str, str], Distribution]
    queue_waits: Distribution
    model_durations: Distribution
    batch_rows: dict[str, Distribution]
    rejected: dict[str, int]
    worker_restarts: int
