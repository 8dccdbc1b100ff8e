"""Latencies of requests, cheap to take and exact to add up over workers. Pure.

Twice: as Prometheus's buckets since the process started, and to three digits for the run that goes on.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from loadtest.analysis.hdr import Hdr
from slo.names import OUTCOMES

MAX_NAMES: Final = 50  # distinct request names; more of them count under "other"
OTHER_NAME: Final = "other"


class Histogram:
    """Observations counted between edges. `counts` has one place more than `edges`, for what lies above them all."""

    __slots__ = ("counts", "edges", "sum")

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges: Final = tuple(edges)
        self.counts = [0] * (len(self.edges) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value; an edge belongs to the bucket that it closes, as `le` says."""
        self.counts[bisect_left(self.edges, value)] += 1
        self.sum += value

    @property
    def total(self) -> int:
        """How many were observed."""
        return sum(self.counts)

    def cumulative(self) -> list[int]:
        """Counts up to each edge, and up to infinity."""
        return list(accumulate(self.counts))

    def add(self, counts: Sequence[int], total: float) -> None:
        """Put another histogram with the same edges into this one; ValueError if it has other ones."""
        if len(counts) != len(self.counts):
            raise ValueError(f"a histogram of {len(counts)} buckets came; expected {len(self.counts)}")
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, counts, strict=True)]
        self.sum += total

    def packed(self) -> list[Any]:
        """[counts, sum], as it travels to the master."""
        return [self.counts, self.sum]


class RunLatencies:
    """The same three times of one run, to three digits. Only what ended well has a total time here.

    What a run lost is not counted a second time: the account has it, and `worker_report` puts the two together.
    """

    __slots__ = ("lateness", "number", "outcomes", "service", "total")

    def __init__(self, number: int) -> None:
        self.number: Final = number  # of the run, counted in this process
        self.outcomes = dict.fromkeys(OUTCOMES, 0)  # arrivals that were served, by how
        self.total = Hdr()  # seconds from the scheduled instant, of those that ended OK
        self.service = Hdr()  # seconds from the actual send, of those that got a reply of any status
        self.lateness = Hdr()  # seconds from the scheduled instant to the actual send or to the drop


class Recorder:
    """Three histograms of a load: total time from the scheduled instant, service time from the send, lateness."""

    def __init__(self, edges: Sequence[float], names: Sequence[str] = ()) -> None:
        self.edges: Final = tuple(edges)
        self.totals: dict[tuple[str, str], Histogram] = {}
        self.services: dict[tuple[str, str], Histogram] = {}
        self.lateness = Histogram(edges)
        self.run = RunLatencies(0)
        self._names: set[str] = set()
        for name in names:
            self._add_name(name)

    def _add_name(self, name: str) -> None:
        """All outcomes at once, so that the first failure is a step from 0 and not a new series that starts at 1."""
        self._names.add(name)
        for outcome in OUTCOMES:
            self.totals[name, outcome] = Histogram(self.edges)
            self.services[name, outcome] = Histogram(self.edges)

    def begin_run(self) -> None:
        """A run starts: its latencies are taken apart from those of the runs before."""
        self.run = RunLatencies(self.run.number + 1)

    def dispatched(self, late_seconds: float) -> None:
        """A request was sent so long after its scheduled instant."""
        self.lateness.observe(late_seconds)
        self.run.lateness.observe(late_seconds)

    def observe(
        self, name: str, outcome: str, total_seconds: float, service_seconds: float, replied: bool = True
    ) -> None:
        """One finished request that is a whole arrival. Without a whole reply it has no service time to speak of."""
        self.request(name, outcome, total_seconds, service_seconds)
        self.arrival(outcome, total_seconds, service_seconds, replied)

    def request(self, name: str, outcome: str, total_seconds: float, service_seconds: float) -> None:
        """One finished request, for Prometheus."""
        name = self._bounded(name)
        self.totals[name, outcome].observe(total_seconds)
        self.services[name, outcome].observe(service_seconds)

    def arrival(self, outcome: str, total_seconds: float, service_seconds: float, replied: bool) -> None:
        """One finished arrival, for the figures of the run."""
        run = self.run
        run.outcomes[outcome] += 1
        if outcome == "ok":
            run.total.observe(total_seconds)
        if replied:
            run.service.observe(service_seconds)

    def _bounded(self, name: str) -> str:
        if name not in self._names:
            if len(self._names) >= MAX_NAMES:
                name = OTHER_NAME
            if name not in self._names:
                self._add_name(name)
        return name

    def packed(self) -> dict[str, Any]:
        """All counts since the start, as they travel to the master."""
        return {
            "requests": [
                [name, outcome, *self.totals[name, outcome].packed(), *self.services[name, outcome].packed()]
                for name, outcome in self.totals
            ],
            "lateness": self.lateness.packed(),
        }

    def add(self, packed: Mapping[str, Any]) -> None:
        """Put another recorder's counts into this one."""
        for name, outcome, totals, total_sum, services, service_sum in packed["requests"]:
            if outcome not in OUTCOMES:
                raise ValueError(f"outcome {outcome!r} came; expected one of {', '.join(OUTCOMES)}")
            name = self._bounded(name)
            self.totals[name, outcome].add(totals, total_sum)
            self.services[name, outcome].add(services, service_sum)
        self.lateness.add(*packed["lateness"])
