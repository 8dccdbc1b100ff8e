"""The slowest inference requests of the last minutes, with where their time went: what to read when paged. Bounded."""

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from service.records import RequestRecord
from slo import names

SLICE_SECONDS: Final = 15.0
SLICES: Final = 20  # so the last five minutes
KEPT_PER_SLICE: Final = 20

_Entry = tuple[float, int, float, RequestRecord]  # seconds, a number that breaks ties, unix time, record


class Slowest:
    """Keeps the slowest of each slice of time, so that a past stall cannot crowd out a present one."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._slices: deque[tuple[float, list[_Entry]]] = deque(maxlen=SLICES)  # (start, heap), oldest first
        self._count = itertools.count()
        self._bar = 0.0  # of the current slice, once that is full: nothing quicker is looked at
        self._slice_ends = 0.0

    def on_request(self, record: RequestRecord) -> None:
        """Keeps the record if it is among its slice's slowest; only inference is looked at."""
        now = self._clock()
        if (record.seconds <= self._bar and now < self._slice_ends) or record.route not in names.INFERENCE_ROUTES:
            return
        with self._lock:
            if now >= self._slice_ends:
                self._slices.append((now, []))
                self._slice_ends = now + SLICE_SECONDS
                self._bar = 0.0
            heap = self._slices[-1][1]
            entry = (record.seconds, next(self._count), now, record)
            if len(heap) < KEPT_PER_SLICE:
                heapq.heappush(heap, entry)
            else:
                heapq.heappushpop(heap, entry)
            if len(heap) == KEPT_PER_SLICE:
                self._bar = heap[0][0]

    def report(self, limit: int) -> list[dict[str, Any]]:
        """At most `limit` of them, slowest first, as JSON-ready objects; durations in milliseconds."""
        since = self._clock() - SLICES * SLICE_SECONDS
        with self._lock:
            entries = [entry for start, heap in self._slices if start >= since for entry in heap]
        return [_shown(entry) for entry in heapq.nlargest(limit, entries)]


def _shown(entry: _Entry) -> dict[str, Any]:
    seconds, _, ended_at, record = entry
    rest = seconds - record.queue_seconds - record.model_seconds
    return {
        "ended_at": ended_at,
        "route": record.route,
        "outcome": record.outcome,
        "status": record.status,
        "reason": record.reason,
        "total_ms": round(seconds * 1e3, 3),
        "queue_ms": round(record.queue_seconds * 1e3, 3),
        "model_ms": round(record.model_seconds * 1e3, 3),
        "rest_ms": round(max(0.0, rest) * 1e3, 3),
        "rows": record.rows,
        "batch_rows": record.batch_rows,
        "trace_id": record.trace_id,
    }
