"""Results of made-up runs against a made-up service, built as real ones are."""

import heapq
import math
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from loadtest.analysis.result import About, build
from loadtest.analysis.samples import End, Samples
from loadtest.analysis.series import series
from loadtest.analysis.verdict import GeneratorHealth, Objective

Row = tuple[float, float, float, int, int]
NAN = math.nan
SECONDS, WARMUP = 20.0, 2.0
SLO = Objective(0.05, 0.99)


def _arrivals(rate: float, random: np.random.Generator) -> list[float]:
    instants = np.cumsum(random.exponential(1 / rate, int(rate * SECONDS * 1.3)))
    return [float(instant) for instant in instants if instant < SECONDS]


def _open(
    rate: float,
    random: np.random.Generator,
    *,
    stall: float = 0.0,
    servers: int = 64,
    users: int = 400,
    late: float = 1.0,
) -> Iterator[Row]:
    """A service that works on `servers` requests at a time, and on none for `stall` seconds from second 10."""
    free = [0.0] * servers
    flying: list[float] = []
    for due in _arrivals(rate, random):
        sent = due + late * random.exponential(0.00015)
        while flying and flying[0] <= sent:
            heapq.heappop(flying)
        if len(flying) >= users:
            yield due, NAN, sent, End.DROPPED, 0
            continue
        begun = max(sent, heapq.heappop(free))
        if 10 <= begun < 10 + stall:
            begun = 10 + stall
        done = begun + random.lognormal(math.log(0.006), 0.45)
        heapq.heappush(free, done)
        if done - sent > 2:
            done, end = sent + 2, End.TIMED_OUT
        else:
            end = End.OK
        heapq.heappush(flying, done)
        yield (due, sent, done, end, 0) if done < SECONDS + 1 else (due, sent, NAN, End.IN_FLIGHT, 0)


def _closed(users: int, random: np.random.Generator) -> Iterator[Row]:
    """`users` that ask, wait for the answer, think a while and ask again; the service stalls for a second."""
    for _ in range(users):
        now = random.uniform(0, 0.1)
        while now < SECONDS:
            begun = 11.0 if 10 <= now < 11 else now
            done = begun + random.lognormal(math.log(0.006), 0.45)
            yield now, now, done, End.OK, 0
            now = done + random.exponential(0.1)


def _shedding(rows: Iterator[Row], random: np.random.Generator) -> Iterator[Row]:
    for due, sent, done, end, worker in rows:
        yield due, sent, done, End.SHED if random.random() < 0.03 and end == End.OK else end, worker


def _built(rows: Iterator[Row], **options: Any) -> dict[str, Any]:
    run = Samples.of(rows)
    about = About(
        target="http://127.0.0.1:8000",
        arrivals=options.get("arrivals", "poisson"),
        planned_rate=options.get("rate", 500.0),
        seed=7,
        started_at="2026-03-14T15:09:26.535+00:00",
        settings={
            "path": "/predict", "rows_per_request": "1,8,64", "timeout_seconds": 2.0, "header": "", "users": 400,
        },
        versions={"tailboard": "0.1.0", "locust": "2.47.0", "numpy": "2.4.6"},
        host={
            "name": "bench-1", "cpu": "Example CPU @ 2.60GHz", "cpus": 2, "memory_bytes": 8 * 2**30,
            "system": "Linux 6.1", "python": "3.11.9",
        },
        failures=options.get("failures", {}),
    )  # fmt: skip
    health = GeneratorHealth(cpu_share=options.get("cpu_share", 0.31))
    return build(
        run,
        about,
        SLO,
        health,
        duration_seconds=SECONDS,
        warmup_seconds=WARMUP,
        series=series(run, run.between(WARMUP, SECONDS), SECONDS),
    )


def make(kind: str) -> dict[str, Any]:
    """The result of a run of one of KINDS."""
    random = np.random.default_rng(11)
    match kind:
        case "pass":
            return _built(_open(500, random))
        case "stall":
            return _built(_open(100, random, stall=1.0), rate=100.0)
        case "invalid":
            return _built(_open(500, random, late=150.0), cpu_share=0.99)
        case "drops":
            rows = _shedding(_open(600, random, stall=1.0, servers=8, users=150), random)
            return _built(rows, rate=600.0, failures={"HTTP 503": 297, "timed out": 12})
        case "closed":
            return _built(_closed(11, random), arrivals="closed", rate=100.0)
        case "nothing":
            return _built(iter([]))
        case "all lost":
            rows = ((k / 100, k / 100, k / 100, End.CONNECTION, 0) for k in range(2000))
            return _built(rows, rate=100.0, failures={"connection refused": 2000})
        case _:
            raise ValueError(kind)


KINDS = ("pass", "stall", "invalid", "drops", "closed", "nothing", "all lost")


@pytest.fixture(scope="session")
def result_of() -> Callable[[str], dict[str, Any]]:
    """Gives the result of a kind of run, made once."""
    made: dict[str, dict[str, Any]] = {}

    def of(kind: str) -> dict[str, Any]:
        if kind not in made:
            made[kind] = make(kind)
        return made[kind]

    return of


_VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """The text of a page outside scripts and styles; complains when an element is not closed."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.addresses: list[str] = []
        self._open: list[str] = []
        self.feed(source)
        assert self._open == []

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self._open.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & {*self._open}:
            self.words.append(data)


@pytest.fixture(scope="session")
def read() -> Callable[[str], Page]:
    """Reads a page as a person does: its words and where it leads."""
    return Page
