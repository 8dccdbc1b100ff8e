"""When requests start: a rate over time, and the instants that a seeded process draws from it. Pure; no clock.

Two parts make a schedule. A `RateCurve` says how many arrivals are expected by a time. A unit process counts in
expected arrivals instead of seconds: evenly spaced (1, 2, 3, …) or Poisson (sums of exponential gaps of mean 1).
Arrival k happens when the curve reaches the process's k-th point, so that any process follows any curve, and a new
curve can take over in mid-gap without an arrival lost or added (time change of a point process).
A recorded trace is such a process too: its points are seconds of the trace, and the curve's rate is the speed at which
they are replayed.
"""

import hashlib
import math
import random
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, pairwise, repeat
from typing import Final

import numpy as np

_ROUNDING: Final = 1e-9  # far above what adding up a curve loses, far below a gap


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


class Trace:
    """Recorded arrivals: seconds from the start of the recording, in order, at least one. Equal if the instants are."""

    def __init__(self, instants: Iterable[float]) -> None:
        self.instants: Final = array("d", instants)
        """Seconds, each from the one before it on; the first may be 0."""
        if not self.instants:
            raise ValueError("a trace has no arrivals; expected at least one")
        if not self.instants[0] >= 0 or not all(earlier <= later for earlier, later in pairwise(self.instants)):
            raise ValueError("a trace's arrivals are not in order; expected seconds from 0 on")
        self._digest: Final = hashlib.blake2b(self.instants, digest_size=16).digest()

    def __len__(self) -> int:
        return len(self.instants)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    @property
    def seconds(self) -> float:
        """When its last arrival comes."""
        return self.instants[-1]

    @cached_property
    def mean_rate(self) -> float:
        """Arrivals per second of the whole trace; 0 if all come at once."""
        return len(self) / self.seconds if self.seconds else 0.0

    def most_within(self, seconds: float) -> int:
        """The most arrivals in any stretch of that length."""
        instants = np.frombuffer(self.instants)
        ends = np.searchsorted(instants, instants + seconds, side="right")
        return int(np.max(ends - np.arange(len(instants))))


def evenly(share: Share, after: float = 0.0) -> Iterator[float]:
    """Points 1, 2, 3, … of the whole load that lie above `after`; every worker takes each `workers`-th."""
    first = share.index + 1
    rounds = max(0, math.floor((after - first) / share.workers) + 1)
    return (float(point) for point in count(first + rounds * share.workers, share.workers))


def poisson(seed: int, share: Share, after: float = 0.0) -> Iterator[float]:
    """Points of a Poisson process of rate 1 / workers: the workers' processes add up to one of rate 1.

    It begins at `after`: the process has no memory. What was drawn for an earlier beginning is not drawn again.
    """
    # Text as a seed: neighbouring numbers give unrelated streams.
    stream = f"{seed}/{share.index}" if after == 0 else f"{seed}/{share.index}/{share.workers}/{after!r}"
    draw = random.Random(stream).expovariate
    point = after
    while True:
        point += draw(1.0) * share.workers
        yield point


def replayed(trace: Trace, share: Share, after: float = -1.0) -> Iterator[float]:
    """The trace's instants above `after`, every worker each `workers`-th of the whole; then inf for ever."""
    skipped = bisect_right(trace.instants, after)
    first = share.index + max(0, math.ceil((skipped - share.index) / share.workers)) * share.workers
    mine = (trace.instants[number] for number in range(first, len(trace), share.workers))
    return chain(mine, repeat(math.inf))


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that decides the instants: curve, process, seed, this worker's share, and how much of it is over."""

    curve: RateCurve
    seed: int = 1
    even: bool = False  # evenly spaced instead of Poisson
    share: Share = Share()
    trace: Trace | None = None  # replayed instead of either; the curve is then the speed, seconds of trace per second
    begun: float = 0.0
    """Seconds of the curve that are over when the plan takes over. The curve goes on from there, and no arrival that
    lies before it is released: for a worker that joins late, and for all when shares are dealt anew."""

    def points(self) -> Iterator[float]:
        """This worker's arrivals from `begun` on, counted in expected arrivals of the whole load (seconds of trace)."""
        over = self.curve.expected(self.begun)
        if self.trace is None and not self.even:
            return poisson(self.seed, self.share, over)
        # `over` is rounded: points so near to it stay in, and the schedule lets their instants decide.
        after = over * (1 - _ROUNDING) if self.begun else -1.0
        return evenly(self.share, after) if self.trace is None else replayed(self.trace, self.share, after)

    def same_process(self, other: "Plan") -> bool:
        """Whether the points go on unchanged when `other` takes over."""
        mine = self.seed, self.even, self.share, self.trace
        return mine == (other.seed, other.even, other.share, other.trace)


class Schedule:
    """The instants of arrivals, taken one by one. Times are seconds on the caller's clock.

    It advances by its plan alone: what it is asked, and when, changes no instant.
    """

    def __init__(self, plan: Plan, start: float) -> None:
        """`start` is the instant at which `plan.begun` seconds of the curve are over."""
        self.next = math.inf
        """Instant of the next arrival; inf when there is none."""
        self._begin(plan, start)

    def _begin(self, plan: Plan, start: float) -> None:
        self._plan = plan
        self._start = start - plan.begun  # where the curve's time begins
        self._points = plan.points()
        self._skipped = 0.0  # points that lie before the curve's time began
        self._point = next(self._points)
        self._find_next()
        # What came by `start` has been released by whoever had the load before. At the very start there was nobody.
        while plan.begun and self.next <= start:
            self._point = next(self._points)
            self._find_next()

    def _find_next(self) -> None:
        self.next = self._start + self._plan.curve.instant(self._point - self._skipped)

    def take(self) -> float:
        """The next instant, and on to the one after."""
        instant = self.next
        self._point = next(self._points)
        self._find_next()
        return instant

    def rate(self, now: float) -> float:
        """This worker's arrivals per second at that time; of a trace its mean, until its last arrival."""
        plan = self._plan
        rate = plan.curve.rate(now - self._start) / plan.share.workers
        if plan.trace is None:
            return rate
        return 0.0 if math.isinf(self.next) else rate * plan.trace.mean_rate

    def edit(self, plan: Plan, now: float) -> None:
        """Let another plan take over from now on, its curve at `plan.begun`; what is due by now must have been taken.

        With the same process the gap that is under way goes on at the new rate: half a gap of the old rate and half
        a gap of the new one make one gap. Another seed, process, share or trace begins afresh at `plan.begun`: where
        all workers are told the same, they make up the whole load again, and without another curve it is the same
        even or recorded load as before.
        """
        if self.next <= now:
            raise ValueError(f"an arrival due at {self.next} is not taken yet at {now}; expected none")
        if not plan.same_process(self._plan):
            self._begin(plan, now)
            return
        over = self._plan.curve.expected(now - self._start)
        self._skipped += over - plan.curve.expected(plan.begun)
        self._plan, self._start = plan, now - plan.begun
        self._find_next()
