"""What was found of the load generator itself: how much it sends, how punctually, how true its figures are. Pure."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.table import milliseconds, table

MOST_OTHERS_SHARE: Final = 0.05  # of the generator's core: with more of it taken, a target that is missed says little
KEPT_UP_SHARE: Final = 0.999  # of the arrivals, at the server no later than a moment after the schedule's end
MEMORY_FROM: Final = 0.1  # of the requests, from where on memory has to be flat: all that is made once is there


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed loop against a server that answers at once."""

    name: str
    users: int
    rate: float  # requests a second, counted at the server
    cpu_share: float | None = None  # of the generator's core, where it says
    others_share: float = 0.0  # of that core, taken by whatever else ran on the machine


@dataclass(frozen=True, slots=True)
class Sent:
    """One open-loop run against the same server, from one core."""

    rate: float  # that was asked
    offered: int  # arrivals of the schedule
    dropped: int
    arrived: int  # at the server
    in_time: int  # … by a moment after the schedule's end
    lateness_p50_seconds: float
    lateness_p99_seconds: float
    latency_p99_seconds: float | None
    cpu_share: float
    others_share: float = 0.0

    @property
    def whole(self) -> bool:
        """Every scheduled arrival was sent, counted at the server, and the generator did not fall behind."""
        return self.dropped == 0 and self.arrived == self.offered and self.in_time >= KEPT_UP_SHARE * self.offered


@dataclass(frozen=True, slots=True)
class Truth:
    """A p99 that somebody reported, and that of the delays which the server really made."""

    delays: str  # as the server was told
    by: str
    said_seconds: float | None
    true_seconds: float
    requests: int
    others_share: float = 0.0

    @property
    def error(self) -> float:
        """How far off, as a share of the truth."""
        return math.inf if self.said_seconds is None else abs(self.said_seconds / self.true_seconds - 1)


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes after so many requests."""

    samples: bool  # a row per arrival was kept on disk
    readings: tuple[tuple[int, int], ...]  # (requests, bytes)
    seconds: float

    @property
    def growth_bytes(self) -> int:
        """From a tenth of the requests on."""
        requests = self.readings[-1][0]
        first = next(held for count, held in self.readings if count >= MEMORY_FROM * requests)
        return max(held for _, held in self.readings) - first


@dataclass(slots=True)
class LoadGen:
    """Right at any moment of the measuring."""

    closed: list[Closed] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)  # in search of the highest rate
    half: Sent | None = None  # at half of the target rate
    half_of_best: Sent | None = None
    truths: list[Truth] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # witnesses that are not here, and why

    @property
    def best(self) -> Sent | None:
        """The highest rate of which every arrival was sent."""
        return max((sent for sent in self.sent if sent.whole), key=lambda sent: sent.rate, default=None)

    @property
    def yardstick(self) -> float | None:
        """What Locust's quick client reaches in a closed loop: the best of its runs."""
        return max((closed.rate for closed in self.closed if closed.name == FAST_HTTP), default=None)

    @property
    def ratio(self) -> float | None:
        """The highest open-loop rate over that; 0 if no rate could be sent whole."""
        if self.yardstick is None or not self.sent:
            return None
        return self.best.rate / self.yardstick if self.best else 0.0

    @property
    def error(self) -> float | None:
        """That of our own p99: the median over the rounds, for the delays where it is largest."""
        ours = [truth for truth in self.truths if truth.by == OURS]
        rounds = {truth.delays: [one.error for one in ours if one.delays == truth.delays] for truth in ours}
        return max((statistics.median(errors) for errors in rounds.values()), default=None)

    @property
    def truth_disturbed(self) -> float:
        """The most that anything else took of the generator's core while its p99 was held against the truth."""
        return max((truth.others_share for truth in self.truths if truth.by == OURS), default=0.0)

    @property
    def growth_bytes(self) -> float | None:
        return max((memory.growth_bytes for memory in self.memories), default=None)


OURS: Final = "loadtest run"
FAST_HTTP: Final = "Locust's FastHttpUser"
LEAN: Final = "the lean user"


def text(found: LoadGen) -> str:
    """A section of the report, or nothing."""
    parts = [part for part in (_rates(found), _truths(found.truths), _memories(found.memories)) if part]
    parts += [f"Missing as a witness: {why}." for why in found.missing]
    return "\n\n".join(["## The load generator", *parts]) if parts else ""


def _rates(found: LoadGen) -> str:
    if not found.closed:
        return ""
    yardstick = found.yardstick or math.nan
    rows = [
        (
            f"closed loop, {one.name}",
            f"{one.users} users",
            f"{one.rate:,.0f}",
            f"{one.rate / yardstick:.2f} ×",
            *[""] * 4,
            _share(one.cpu_share),
            _share(one.others_share),
        )
        for one in found.closed
    ]
    tries = [(sent, "") for sent in found.sent]
    tries += [(found.half_of_best, ", half of the best")] if found.half_of_best else []
    tries += [(found.half, ", half of the target")] if found.half else []
    for sent, more in tries:
        note = "every arrival sent" if sent.whole else f"{sent.dropped:,} dropped" if sent.dropped else "fell behind"
        rows.append(
            (
                f"open loop{more}",
                note,
                f"{sent.rate:,.0f}",
                f"{sent.rate / yardstick:.2f} ×",
                f"{sent.offered:,}",
                f"{sent.arrived:,}",
                milliseconds(sent.lateness_p50_seconds),
                milliseconds(sent.lateness_p99_seconds),
                _share(sent.cpu_share),
                _share(sent.others_share),
            )
        )
    head = (
        "load",
        "",
        "requests/s",
        "of FastHttpUser",
        "due",
        "at the server",
        "late p50",
        "late p99",
        "CPU",
        "others",
    )
    return (
        "The generator is alone on one CPU and a server that answers at once is on the others; requests are counted "
        "there. Open loop is Poisson arrivals from `python -m loadtest run`, whose own master shares that CPU. “CPU” "
        "is what its worker took of it, “others” what anything else on the machine took: where that is much, the run "
        "says little.\n\n" + table(head, rows, left=2)
    )


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _truths(found: Sequence[Truth]) -> str:
    if not found:
        return ""
    rows = [
        (
            one.delays,
            one.by,
            f"{one.requests:,}",
            milliseconds(one.said_seconds),
            milliseconds(one.true_seconds),
            f"{one.error:.2%}" if one.error < math.inf else "-",
            _share(one.others_share),
        )
        for one in found
    ]
    head = ("delays", "by", "requests", "p99 said", "p99 true", "off by", "others")
    return (
        "p99 as reported, and that of the delays which the server made, by its own clock. Ours counts from the "
        "scheduled instant, so that its own lateness and the way to the server are in it; the others ask in a closed "
        "loop.\n\n" + table(head, rows, left=2)
    )


def _memories(found: Sequence[Memory]) -> str:
    if not found:
        return ""
    rows = []
    for one in found:
        requests = one.readings[-1][0]
        for share in (0.1, 0.5, 1.0):
            count, held = next(reading for reading in one.readings if reading[0] >= share * requests)
            kept = "a row per arrival on disk" if one.samples else "no samples, as in the web UI"
            rows.append((kept, f"{count:,}", f"{held / 1e6:.1f} MB", f"{1e6 * one.seconds / requests:.1f} µs"))
    return "Resident memory of one generator process, its connection replaced by one that answers at once.\n\n" + table(
        ("kept", "requests", "resident", "time a request"), rows
    )
