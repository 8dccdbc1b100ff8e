"""What a load generator says about itself: one process's report, and the sum of those of all workers. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from loadtest.account import COUNTS, Account
from loadtest.analysis.hdr import Hdr
from loadtest.recorder import Recorder, RunLatencies
from slo.names import OUTCOMES

FRESH_SECONDS: Final = 10.0  # a worker that has not reported for so long has no load of its own any more


_LOST: Final = ("failed", "dropped", "unfinished")  # counts of arrivals that ended without a good reply


@dataclass(slots=True)
class RunFigures:
    """What the run that goes on, or the last one, looks like so far.

    `total` is over all its arrivals that have ended: those that were dropped, failed or were given up are its `lost`.
    """

    number: int = 0  # of the run in its process; in a sum it means nothing
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))  # of those served
    total: Hdr = field(default_factory=Hdr)  # seconds from the scheduled instant
    service: Hdr = field(default_factory=Hdr)  # seconds from the actual send, of those that got a reply
    lateness: Hdr = field(default_factory=Hdr)  # seconds from the scheduled instant to the send or the drop

    @classmethod
    def of(cls, latencies: RunLatencies, now: Mapping[str, int], before: Mapping[str, int]) -> "RunFigures":
        """From a run's latencies, the counts of this moment, and those of the run's start."""
        counts = {name: now[name] - before.get(name, 0) for name in COUNTS}
        latencies.total.lost = sum(counts[name] for name in _LOST)
        return cls(latencies.number, counts, latencies.outcomes, latencies.total, latencies.service, latencies.lateness)

    def add(self, other: "RunFigures") -> None:
        """Put another process's part of the same run into this one."""
        for name in COUNTS:
            self.counts[name] += other.counts[name]
        for outcome in OUTCOMES:
            self.outcomes[outcome] += other.outcomes[outcome]
        self.total.add(other.total)
        self.service.add(other.service)
        self.lateness.add(other.lateness)

    def packed(self) -> dict[str, Any]:
        """As it travels to the master."""
        return {
            "number": self.number,
            "counts": self.counts,
            "outcomes": self.outcomes,
            "total": self.total.packed(),
            "service": self.service.packed(),
            "lateness": self.lateness.packed(),
        }

    @classmethod
    def unpacked(cls, packed: Mapping[str, Any]) -> "RunFigures":
        """What `packed` gave."""
        times = (Hdr.unpacked(packed[name]) for name in ("total", "service", "lateness"))
        counts = {name: packed["counts"][name] for name in COUNTS}
        outcomes = {outcome: packed["outcomes"][outcome] for outcome in OUTCOMES}
        return cls(packed["number"], counts, outcomes, *times)


@dataclass(slots=True)
class Report:
    """Counts since the process started (they only grow), the state of this moment, and the run's figures."""

    recorder: Recorder
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    in_flight: int = 0
    oldest_seconds: float = 0.0
    rate: float = 0.0
    cpu_share: float = 0.0  # of one core; of several workers the largest
    workers_lost: int = 0  # those that fell silent while they had a load
    kinds: dict[str, int] = field(default_factory=dict)  # failures by what they were, since the process started
    ages: Hdr = field(default_factory=Hdr)  # seconds for which the requests in flight have been due
    run: RunFigures = field(default_factory=RunFigures)

    @classmethod
    def of(
        cls,
        account: Account,
        recorder: Recorder,
        rate: float,
        now: float,
        before_run: Mapping[str, int] | None = None,
        cpu_share: float = 0.0,
    ) -> "Report":
        """This process's own report; `before_run` holds the account's counts at the start of the run."""
        counts = account.counts()
        return cls(
            recorder,
            counts,
            len(account.in_flight),
            account.oldest_seconds(now),
            rate,
            cpu_share,
            kinds=dict(account.kinds),
            ages=_ages(account.in_flight.values(), now),
            run=RunFigures.of(recorder.run, counts, before_run or {}),
        )

    def packed(self) -> dict[str, Any]:
        """As it travels to the master."""
        return {
            "counts": self.counts,
            "in_flight": self.in_flight,
            "oldest_seconds": self.oldest_seconds,
            "rate": self.rate,
            "cpu_share": self.cpu_share,
            "kinds": self.kinds,
            "ages": self.ages.packed(),
            "run": self.run.packed(),
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


def _ages(scheduled: Iterable[float], now: float) -> Hdr:
    ages = Hdr()
    for instant in scheduled:
        ages.observe(now - instant)
    return ages


@dataclass(frozen=True, slots=True)
class _Latest:
    """A worker's last report, its histograms unpacked: several may look at it before the next comes."""

    at: float
    packed: Mapping[str, Any]
    run: RunFigures
    ages: Hdr


@dataclass(frozen=True, slots=True)
class _Gap:
    """What became of a lost worker's share before others took it over."""

    missed: int  # arrivals that nobody made
    in_flight: int  # requests whose outcome nobody will know
    of_run: bool = True  # that goes on, or of the last one

    def count_in(self, counts: dict[str, int]) -> None:
        counts["offered"] += self.missed
        counts["dropped"] += self.missed
        counts["unfinished"] += self.in_flight


class WorkerReports:
    """The latest report of every worker. Reports carry totals, not steps: one that is lost costs nothing."""

    def __init__(self, edges: Sequence[float], names: Sequence[str], clock: Callable[[], float]) -> None:
        self._edges = edges
        self._names = names
        self._clock = clock
        self._latest: dict[str, _Latest] = {}
        self._before: dict[str, int] = {}  # worker → the number of the run that it last spoke of before this one
        self._lost: dict[str, _Gap] = {}  # workers that are no longer there

    def receive(self, worker: str, packed: Mapping[str, Any]) -> None:
        """A worker's report has come."""
        run, ages = RunFigures.unpacked(packed["run"]), Hdr.unpacked(packed["ages"])
        self._latest[worker] = _Latest(self._clock(), packed, run, ages)
        self._lost.pop(worker, None)  # it was only silent, and its counts know better

    def lose(self, worker: str) -> None:
        """A worker has gone in mid-run, and from now on others have its share.

        What it should have sent since its last report counts as dropped, and what it had in flight as unfinished.
        """
        if worker in self._latest:
            latest = self._latest[worker]
            missed = round(latest.packed["rate"] * (self._clock() - latest.at))
            self._lost[worker] = _Gap(missed, latest.packed["in_flight"])

    def begin_run(self) -> None:
        """A run starts. Until a worker has heard of it too, its reports still speak of the run before."""
        self._before = {worker: latest.run.number for worker, latest in self._latest.items()}
        self._lost = {worker: replace(gap, of_run=False) for worker, gap in self._lost.items()}

    def sum(self) -> Report:
        """Counts of all workers that ever were; the state of those that still report.

        What a silent worker does is not known and not counted, until it is lost: see `lose`.
        """
        whole = Report(Recorder(self._edges, self._names))
        now = self._clock()
        for worker, latest in self._latest.items():
            packed = latest.packed
            whole.recorder.add(packed["histograms"])
            for name in COUNTS:
                whole.counts[name] += packed["counts"][name]
            for kind, count in packed["kinds"].items():
                whole.kinds[kind] = whole.kinds.get(kind, 0) + count
            takes_part = latest.run.number != self._before.get(worker)
            if takes_part:
                whole.run.add(latest.run)
            if (gap := self._lost.get(worker)) is not None:
                gap.count_in(whole.counts)
                if gap.of_run:
                    gap.count_in(whole.run.counts)
                    whole.run.total.lost += gap.missed + gap.in_flight
                    whole.workers_lost += 1
                continue
            if now - latest.at <= FRESH_SECONDS:
                whole.in_flight += packed["in_flight"]
                whole.rate += packed["rate"]
                whole.cpu_share = max(whole.cpu_share, packed["cpu_share"])
                whole.ages.add(latest.ages)
                # Between two reports the oldest request only gets older, or is gone: the next report says which.
                whole.oldest_seconds = max(whole.oldest_seconds, packed["oldest_seconds"])
            elif takes_part and packed["rate"] > 0:
                whole.workers_lost += 1
        return whole
