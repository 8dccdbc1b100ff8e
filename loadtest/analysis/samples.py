"""One row per arrival of a load's schedule: when it was due, when it was sent, when and how it ended."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.void]

SAMPLE: Final = np.dtype([("scheduled", "<f8"), ("sent", "<f8"), ("done", "<f8"), ("end", "<u1"), ("worker", "<u2")])
SAMPLE_FORMAT: Final = "<dddBH"  # the same row for `struct`, byte for byte


class End(IntEnum):
    """How an arrival ended."""

    OK = 0  # answered 2xx
    CLIENT_ERROR = 1  # 4xx but 429: the load itself is wrong
    SHED = 2  # 429 or 503: turned away on purpose
    FAILED = 3  # any other status
    TIMED_OUT = 4
    CONNECTION = 5  # refused, lost, or the reply was malformed
    DROPPED = 6  # no user was free; `sent` is NaN, `done` the instant of the drop
    IN_FLIGHT = 7  # no outcome when the run ended; `done` is NaN
    GAP = 8  # the share of a worker that was lost; `sent` and `done` are NaN


REPLIED: Final = (End.OK, End.CLIENT_ERROR, End.SHED, End.FAILED)
FAILED: Final = (End.CLIENT_ERROR, End.SHED, End.FAILED, End.TIMED_OUT, End.CONNECTION)
DROPPED: Final = (End.DROPPED, End.GAP)


@dataclass(frozen=True, eq=False)  # comparing ten million rows is never meant
class Samples:
    """Arrivals in the order of their scheduled instants, in seconds since the start of the run.

    `rows` is a one-dimensional array of `SAMPLE`, which may be a memory map; it is never written to. Every column that
    a property returns is computed once and kept, one float a row.
    """

    rows: Rows

    def __post_init__(self) -> None:
        if self.rows.dtype != SAMPLE or self.rows.ndim != 1:
            raise ValueError(f"samples are {self.rows.ndim}-dimensional {self.rows.dtype}; expected rows of {SAMPLE}")

    @classmethod
    def of(cls, rows: Iterable[tuple[float, float, float, int, int]]) -> "Samples":
        """From (scheduled, sent, done, end, worker) in any order."""
        return cls.sorted(np.array(list(rows), dtype=SAMPLE))

    @classmethod
    def sorted(cls, rows: Rows) -> "Samples":
        """From rows in any order; arrivals of the same instant keep theirs."""
        scheduled = rows["scheduled"]
        in_order = bool(np.all(scheduled[1:] >= scheduled[:-1]))
        return cls(rows if in_order else rows[np.argsort(scheduled, kind="stable")])

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def scheduled(self) -> Floats:
        """Instants at which the requests were due, ascending."""
        return np.ascontiguousarray(self.rows["scheduled"])

    @cached_property
    def ends(self) -> npt.NDArray[np.uint8]:
        """Codes of `End`."""
        return np.ascontiguousarray(self.rows["end"])

    @cached_property
    def total_seconds(self) -> Floats:
        """From the scheduled instant to the reply; +inf for every arrival that did not end OK."""
        return np.where(self.ends == End.OK, self.rows["done"] - self.scheduled, np.inf)

    @cached_property
    def service_seconds(self) -> Floats:
        """From the actual send to the reply, whatever its status; NaN without a reply."""
        service: Floats = self.rows["done"] - self.rows["sent"]
        service[~np.isin(self.ends, REPLIED)] = np.nan
        return service

    @property
    def success_seconds(self) -> Floats:
        """Total times of the arrivals that ended OK, and only those: fewer entries than rows."""
        seconds: Floats = self.total_seconds[self.ends == End.OK]
        return seconds

    @cached_property
    def lateness_seconds(self) -> Floats:
        """How long after its instant the scheduler released (or dropped) an arrival; NaN when that is not known."""
        released = np.where(self.ends == End.DROPPED, self.rows["done"], self.rows["sent"])
        lateness: Floats = np.where(self.ends == End.GAP, np.nan, released - self.scheduled)
        return lateness

    def between(self, start: float, end: float) -> "Samples":
        """The arrivals that were due from `start` up to, but not at, `end`; shares this object's rows."""
        first, last = np.searchsorted(self.scheduled, (start, end), side="left")
        return Samples(self.rows[first:last])

    @cached_property
    def by_end(self) -> dict[End, int]:
        """How many ended in which way; every `End` is there."""
        counts = np.bincount(self.ends, minlength=len(End))
        return {end: int(counts[end]) for end in End}

    def counts(self) -> dict[str, int]:
        """offered, started, completed, failed, dropped, in_flight_at_end: offered is the sum of the last four."""
        dropped = sum(self.by_end[end] for end in DROPPED)
        return {
            "offered": len(self),
            "started": len(self) - dropped,
            "completed": self.by_end[End.OK],
            "failed": sum(self.by_end[end] for end in FAILED),
            "dropped": dropped,
            "in_flight_at_end": self.by_end[End.IN_FLIGHT],
        }


def joined(parts: Iterable[Any]) -> Samples:
    """Arrays of `SAMPLE`, say one per worker, as one in the order of their instants."""
    arrays = list(parts)
    return Samples.sorted(np.concatenate(arrays) if arrays else np.empty(0, dtype=SAMPLE))
