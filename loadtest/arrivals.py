"""When requests start: a rate over time, and the instants that a seeded process draws from it. Pure; no clock.

Two parts make a schedule. A `RateCurve` says how many arrivals are expected by a time. A unit process counts in
expected arrivals instead of seconds: evenly spaced (1, 2, 3, …) or Poisson (sums of exponential gaps of mean 1).
Arrival k happens when the curve reaches the process's k-th point, so that any process follows any curve, and a new
curve can take over in mid-gap without an arrival lost or added (time change of a point process).
"""

import math
import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of time in which the rate goes linearly from `start_rate` to `end_rate` arrivals per second."""

    seconds: float
    start_rate: float
    end_rate: float

    @property
    def expected(self) -> float:
        """Arrivals expected in the whole piece."""
        return self.seconds * (self.start_rate + self.end_rate) / 2


class RateCurve:
    """Arrivals per second over time: linear pieces one after the other, then `final_rate` for ever."""

    def __init__(self, pieces: Sequence[Piece], final_rate: float) -> None:
        self._pieces: Final = (*pieces, Piece(math.inf, final_rate, final_rate))
        self._starts: Final = [0.0]  # seconds at which each piece begins
        self._counts: Final = [0.0]  # arrivals expected before it
        for piece in pieces:
            self._starts.append(self._starts[-1] + piece.seconds)
            self._counts.append(self._counts[-1] + piece.expected)

    @property
    def peak(self) -> float:
        """The highest rate that is ever reached."""
        return max(max(piece.start_rate, piece.end_rate) for piece in self._pieces)

    def rate(self, seconds: float) -> float:
        """Arrivals per second at that time."""
        index = bisect_right(self._starts, seconds) - 1
        if index < 0:
            return 0.0
        piece = self._pieces[index]
        if math.isinf(piece.seconds):
            return piece.start_rate
        share = (seconds - self._starts[index]) / piece.seconds
        return piece.start_rate + share * (piece.end_rate - piece.start_rate)

    def expected(self, seconds: float) -> float:
        """Arrivals expected from 0 to that time."""
        index = bisect_right(self._starts, seconds) - 1
        if index < 0:
            return 0.0
        into = seconds - self._starts[index]
        return self._counts[index] + into * (self._pieces[index].start_rate + self.rate(seconds)) / 2

    def instant(self, count: float) -> float:
        """The first time by which `count` arrivals are expected: the inverse of `expected`; inf if never."""
        if count <= 0:  # only by rounding, when a new curve takes over right before an arrival
            return 0.0
        # The first piece that gets there; a piece of rate zero never does, so it is stepped over.
        index = bisect_right(self._counts, count) - 1
        while index > 0 and self._counts[index] == count:
            index -= 1
        piece = self._pieces[index]
        missing = count - self._counts[index]
        if math.isinf(piece.seconds):
            return self._starts[index] + missing / piece.start_rate if piece.start_rate else math.inf
        # missing = a·t + s·t²/2 with slope s; this form of the root has no cancellation and holds for s = 0.
        slope = (piece.end_rate - piece.start_rate) / piece.seconds
        root = math.sqrt(max(0.0, piece.start_rate**2 + 2 * slope * missing))
        return self._starts[index] + min(piece.seconds, 2 * missing / (piece.start_rate + root))


def constant(rate: float) -> RateCurve:
    """One rate for ever."""
    return RateCurve((), rate)


def ramp(rate: float, to_rate: float, seconds: float) -> RateCurve:
    """From one rate to another within that time, then stays."""
    return RateCurve((Piece(seconds, rate, to_rate),), to_rate)


def steps(stages: Sequence[tuple[float, float]]) -> RateCurve:
    """(rate, seconds) one after the other; the last rate stays."""
    return RateCurve([Piece(seconds, rate, rate) for rate, seconds in stages], stages[-1][0])


def spike(rate: float, spike_rate: float, after_seconds: float, seconds: float) -> RateCurve:
    """A base rate; once, after a while, another for some time; then the base again."""
    before = [Piece(after_seconds, rate, rate)] if after_seconds else []
    return RateCurve([*before, Piece(seconds, spike_rate, spike_rate)], rate)


@dataclass(frozen=True, slots=True)
class Share:
    """One of `workers` generators that make up the whole load between them, counted from 0."""

    index: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.workers:
            raise ValueError(f"share is worker {self.index} of {self.workers}; expected an index from 0 below workers")


def evenly(share: Share) -> Iterator[float]:
    """Points 1, 2, 3, … of the whole load; every worker takes each `workers`-th."""
    point = float(share.index)
    while True:
        yield point + 1
        point += share.workers


def poisson(seed: int, share: Share) -> Iterator[float]:
    """Points of a Poisson process of rate 1 / workers: the workers' processes add up to one of rate 1."""
    draw = random.Random(f"{seed}/{share.index}").expovariate  # text: neighbouring seeds give unrelated streams
    point = 0.0
    while True:
        point += draw(1.0) * share.workers
        yield point


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that decides the instants: curve, process, seed and this worker's share."""

    curve: RateCurve
    seed: int = 1
    even: bool = False  # evenly spaced instead of Poisson
    share: Share = Share()

    def points(self) -> Iterator[float]:
        """This worker's arrivals, counted in expected arrivals of the whole load."""
        return evenly(self.share) if self.even else poisson(self.seed, self.share)

    def same_process(self, other: "Plan") -> bool:
        """Whether the points go on unchanged when `other` takes over."""
        return (self.seed, self.even, self.share) == (other.seed, other.even, other.share)


class Schedule:
    """The instants of arrivals, taken one by one. Times are seconds on the caller's clock.

    It advances by its plan alone: what it is asked, and when, changes no instant.
    """

    def __init__(self, plan: Plan, start: float) -> None:
        self._plan = plan
        self._start = start  # where the curve's time begins
        self._points = plan.points()
        self._skipped = 0.0  # points that lie before `start`
        self._point = next(self._points)
        self.next = start + plan.curve.instant(self._point)
        """Instant of the next arrival; inf when there is none."""

    def take(self) -> float:
        """The next instant, and on to the one after."""
        instant = self.next
        self._point = next(self._points)
        self.next = self._start + self._plan.curve.instant(self._point - self._skipped)
        return instant

    def rate(self, now: float) -> float:
        """This worker's arrivals per second at that time."""
        return self._plan.curve.rate(now - self._start) / self._plan.share.workers

    def edit(self, plan: Plan, now: float) -> None:
        """Let another plan take over from now on; what is due by now must have been taken.

        With the same process the gap that is under way goes on at the new rate: half a gap of the old rate and half
        a gap of the new one make one gap. Another seed, process or share begins afresh.
        """
        if self.next <= now:
            raise ValueError(f"an arrival due at {self.next} is not taken yet at {now}; expected none")
        if plan.same_process(self._plan):
            self._skipped += self._plan.curve.expected(now - self._start)
        else:
            self._points = plan.points()
            self._skipped = 0.0
            self._point = next(self._points)
        self._plan, self._start = plan, now
        self.next = now + plan.curve.instant(self._point - self._skipped)
