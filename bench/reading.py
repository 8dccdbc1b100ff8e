"""One run of the load generator as numbers, and what several runs of the same cell say together. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAX_ERROR_SHARE: Final = 0.001  # more errors than this, and a cell says nothing about speed


@dataclass(frozen=True, slots=True)
class Reading:
    """What one closed-loop run counted. Latencies are of all replies, in seconds; None where there were none."""

    requests: int  # replies, whatever their status
    seconds: float
    not_2xx: int
    socket_errors: int  # connect, read, write and timeout together
    p50_seconds: float | None
    p99_seconds: float | None

    @property
    def good_per_second(self) -> float:
        """Replies with a good status a second: an error is no throughput."""
        return max(0, self.requests - self.not_2xx) / self.seconds if self.seconds > 0 else 0.0

    @property
    def errors(self) -> int:
        return self.not_2xx + self.socket_errors


@dataclass(frozen=True, slots=True)
class Cell:
    """One server at one number of connections, over all rounds so far: medians, and how far the rounds lie apart."""

    server: str  # key of the server
    connections: int
    readings: tuple[Reading, ...]

    @property
    def rate(self) -> float:
        """Good replies a second, the median of the rounds."""
        return statistics.median(reading.good_per_second for reading in self.readings)

    @property
    def p50_seconds(self) -> float | None:
        return _median([reading.p50_seconds for reading in self.readings])

    @property
    def p99_seconds(self) -> float | None:
        return _median([reading.p99_seconds for reading in self.readings])

    @property
    def errors(self) -> int:
        return sum(reading.errors for reading in self.readings)

    @property
    def counts(self) -> bool:
        """Whether it may stand for its server: it answered, and nearly all of it well."""
        asked = sum(reading.requests + reading.socket_errors for reading in self.readings)
        return self.p99_seconds is not None and self.rate > 0 and self.errors <= MAX_ERROR_SHARE * asked

    @property
    def spread(self) -> float | None:
        """Largest less smallest rate of the rounds, over their median; None for a single round."""
        if len(self.readings) < 2 or self.rate == 0:
            return None
        rates = [reading.good_per_second for reading in self.readings]
        return (max(rates) - min(rates)) / self.rate


def best(cells: Sequence[Cell], p99_bound_seconds: float) -> Cell | None:
    """The cell with the highest rate among those that count and keep p99 inside the bound."""
    inside = [cell for cell in cells if cell.counts and (cell.p99_seconds or 0.0) <= p99_bound_seconds]
    return max(inside, key=lambda cell: cell.rate, default=None)


def _median(values: Sequence[float | None]) -> float | None:
    """None if any round has none: a round without replies must not vanish from the median."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known and len(known) == len(values) else None
