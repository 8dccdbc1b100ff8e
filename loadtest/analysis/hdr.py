"""Latencies to three significant digits in little memory, merged without loss. Pure.

A log-linear histogram after Gil Tene's HdrHistogram: each power of two is cut into 1,024 equal buckets, so that a
bucket is never wider than 0.1% of what it holds. Arrivals without a latency (dropped, failed, timed out) are kept as
a count and rank above every latency, as +∞.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from loadtest.analysis.order import rank

LARGEST_SECONDS: Final = 3600.0  # what is longer counts as this much; `largest_seconds` stays exact
RELATIVE_ERROR: Final = 0.0005  # of a quantile against the exact order statistic, from a microsecond up

_UNITS: Final = 1e9  # nanoseconds: even one microsecond then has its three digits
_HALF: Final = 1024  # buckets of one power of two; below 2 * _HALF units each unit has its own
_BITS: Final = 11  # 2 * _HALF == 2 ** _BITS
_MOST: Final = int(LARGEST_SECONDS * _UNITS)
_TOGETHER: Final = 1024  # observations put into buckets at once: one by one they cost ten times as much


class Hdr:
    """Counts of latencies by bucket, and of arrivals that have none (`lost`). 270 kB, whatever it has seen.

    Two histograms always have the same buckets: the sum of several gives the same quantiles, to the last digit, as
    one that took all their observations.
    """

    __slots__ = ("_counts", "_largest", "_pending", "_sum", "lost")

    def __init__(self) -> None:
        self._counts: NDArray[np.int64] = np.zeros(_BUCKETS, np.int64)
        self._pending: list[float] = []
        self._largest = 0.0
        self._sum = 0.0
        self.lost = 0

    def observe(self, seconds: float) -> None:
        """Count a finite latency; a negative one counts as 0."""
        self._pending.append(seconds)
        if len(self._pending) >= _TOGETHER:
            self._sort_in()

    def _sort_in(self) -> None:
        if not self._pending:
            return
        seconds = np.array(self._pending)
        self._pending.clear()
        if not np.isfinite(seconds).all():
            raise ValueError("a latency is not finite; an arrival without one is counted by `lost`")
        np.add.at(self._counts, _indices(seconds), 1)
        self._sum += float(seconds.sum())
        self._largest = max(self._largest, float(seconds.max()))

    @property
    def observed(self) -> int:
        """How many had a latency."""
        self._sort_in()
        return int(self._counts.sum())

    @property
    def total(self) -> int:
        """How many arrivals there were, the lost among them."""
        return self.observed + self.lost

    @property
    def largest_seconds(self) -> float:
        """The longest latency observed, exactly; 0 without any."""
        self._sort_in()
        return self._largest

    @property
    def max(self) -> float | None:
        """The longest of all arrivals: +∞ if any was lost, else exact; None without any."""
        if self.lost:
            return math.inf
        return self.largest_seconds if self.observed else None

    @property
    def mean(self) -> float | None:
        """Mean seconds of those that had a latency; None without any."""
        observed = self.observed
        return self._sum / observed if observed else None

    def quantile(self, q: float) -> float | None:
        """Seconds of the ⌈q·n⌉-th smallest of all n arrivals, within RELATIVE_ERROR and never above `max`.

        +∞ if that one is among the lost, None without arrivals, ValueError unless 0 ≤ q ≤ 1.
        """
        return self.quantiles((q,))[0]

    def quantiles(self, qs: Sequence[float]) -> list[float | None]:
        """`quantile` of each, with one walk through the buckets."""
        self._sort_in()
        upto = np.cumsum(self._counts)
        observed = int(upto[-1])
        total = observed + self.lost
        ranks = [rank(q, total or 1) for q in qs]
        if not total:
            return [None] * len(qs)
        return [
            math.inf if place > observed else min(_middle_seconds(int(np.searchsorted(upto, place))), self._largest)
            for place in ranks
        ]

    def within(self, seconds: float) -> int:
        """How many had a latency of at most `seconds`, or so little more that it falls into the same bucket."""
        self._sort_in()
        return int(self._counts[: int(_indices(np.array([seconds]))[0]) + 1].sum())

    def beyond(self, seconds: float) -> "Hdr":
        """Those of the same latencies that `within` does not count, and none of the lost."""
        self._sort_in()
        made = Hdr()
        first = int(_indices(np.array([seconds]))[0]) + 1
        made._counts[first:] = self._counts[first:]
        if made.observed:
            made._largest = self._largest
        return made

    def add(self, other: "Hdr") -> None:
        """Put another histogram's arrivals into this one."""
        other._sort_in()
        self._counts += other._counts
        self.lost += other.lost
        self._sum += other._sum
        self._largest = max(self._largest, other._largest)

    def answered(self) -> "Hdr":
        """The same latencies without the lost: the success-only view, which flatters."""
        made = Hdr()
        made.add(self)
        made.lost = 0
        return made

    def packed(self) -> list[Any]:
        """[indices, counts, lost, largest seconds, sum of seconds]: only what is there, as it travels to the master.

        The first two are bytes: as lists, thousands of numbers would hold up a generator's requests by milliseconds.
        """
        self._sort_in()
        (indices,) = np.nonzero(self._counts)
        return [_as_bytes(indices), _as_bytes(self._counts[indices]), self.lost, self._largest, self._sum]

    @classmethod
    def unpacked(cls, packed: Sequence[Any]) -> "Hdr":
        """What `packed` gave; ValueError if it cannot have been."""
        indices, counts, lost, largest, total = packed
        places, numbers = _from_bytes(indices), _from_bytes(counts)
        known = len(places) == len(numbers) == len(np.unique(places)) and np.all((places >= 0) & (places < _BUCKETS))
        if not known or lost < 0 or np.any(numbers < 0):
            raise ValueError("what came is no packed histogram of latencies")
        made = cls()
        made._counts[places] = numbers
        made.lost, made._largest, made._sum = lost, largest, total
        return made


def _as_bytes(numbers: NDArray[np.int64]) -> bytes:
    """The size of a number in bytes, then the numbers, each as short as the largest of them allows."""
    kind = np.min_scalar_type(int(numbers.max(initial=0))).newbyteorder("<")
    return bytes([kind.itemsize]) + numbers.astype(kind).tobytes()


def _from_bytes(packed: bytes) -> NDArray[np.int64]:
    """What `_as_bytes` gave; ValueError if it cannot have been."""
    try:
        return np.frombuffer(packed, f"<u{packed[0]}", offset=1).astype(np.int64)
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError("what came is no packed histogram of latencies") from error


def _indices(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    units = np.clip(seconds * _UNITS, 0, _MOST).astype(np.int64)
    # frexp's exponent is the number of bits of a whole number. Of units with 11 + s bits, `units >> s` runs over
    # _HALF … 2 * _HALF - 1: no index is used twice, and none is left out.
    shift = np.maximum(np.frexp(units.astype(np.float64))[1].astype(np.int64) - _BITS, 0)
    indices: NDArray[np.int64] = shift * _HALF + (units >> shift)
    return indices


_BUCKETS: Final = int(_indices(np.array([LARGEST_SECONDS]))[0]) + 1


def _middle_seconds(index: int) -> float:
    shift = max(index // _HALF - 1, 0)
    return ((index - shift * _HALF + 0.5) * (1 << shift)) / _UNITS
