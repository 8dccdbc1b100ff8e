"""A record as a good run leaves it, from a made-up service: one row costs 5 ms, each further one 0.06 ms."""

import math
from dataclasses import dataclass
from itertools import pairwise

import pytest

from loadtest.analysis.histogram import Histogram
from slo.buckets import duration_edges
from slo.config import Profile, Service
from stack.demo.experiment import Times, Verdict
from stack.demo.measure import Reading, between
from stack.demo.record import Figures, RampPoint, Record, series, stretch

SLO = Service("inference", 0.99, 0.05, 30, Profile("local", (), 100, 15, 30))
EDGES = duration_edges(0.05)


@dataclass
class Counting:
    """Counts of a made-up generator and service."""

    at: float = 0.0
    counts: tuple[float, ...] = (0.0,) * (len(EDGES) + 1)
    total: float = 0.0
    lost: float = 0.0
    offered: float = 0.0
    batches: float = 0.0
    rows: float = 0.0

    def go(self, seconds: float, rate: float, lost: float, median: float, batch: float) -> None:
        """Latencies spread around `median` as a logistic distribution does."""
        answered = rate * seconds * (1 - lost)
        cumulative = [answered / (1 + (median / edge) ** 6) for edge in EDGES]
        steps = [b - a for a, b in pairwise([0.0, *cumulative, answered])]
        self.counts = tuple(a + b for a, b in zip(self.counts, steps, strict=True))
        self.total += answered * median * 1.05
        self.lost += rate * seconds * lost
        self.offered += rate * seconds
        self.batches += answered / batch
        self.rows += answered
        self.at += seconds

    def reading(self, rate: float, rows: int) -> Reading:
        return Reading(
            at=self.at,
            latency=Histogram(EDGES, self.counts, self.total, self.lost),
            lateness=Histogram(EDGES, (self.offered, *[0.0] * len(EDGES)), 0.0005 * self.offered),
            offered=self.offered,
            dropped=0.0,
            in_flight=10.0,
            target_rate=rate,
            reached=self.offered,
            batches=self.batches,
            batch_rows=self.rows,
            model_seconds=0.005 * self.batches,
            max_batch_rows=rows,
            cost_fixed_seconds=0.005,
            cost_per_row_seconds=0.00006,
        )


def step(rows: int, rate: float, knee: float) -> RampPoint:
    counting = Counting()
    start = counting.reading(rate, rows)
    load = rate / knee
    lost = max(0.0, 1 - 1 / load)
    median = 0.006 + 0.02 * load**6 if load < 1 else 0.9
    counting.go(5.0, rate, lost, median, batch=max(1.0, min(rows, rows * load)))
    return RampPoint(rate, Figures.of(between(start, counting.reading(rate, rows)), SLO))


def experiment() -> list[Reading]:
    counting = Counting()
    readings = [counting.reading(0.0, 1)]
    for second in range(110):
        if second < 33:
            counting.go(1.0, 400.0, 0.0 if second < 1 else 0.42, min(0.02 + 0.3 * second, 0.85), 1.0)
        else:
            counting.go(1.0, 400.0 + 10 * math.sin(second), 0.0, 0.011 if second > 34 else 0.5, 4.2)
        readings.append(counting.reading(400.0, 1 if second < 33 else 128))
    return readings


@pytest.fixture
def record() -> Record:
    """All of it went well."""
    readings = experiment()
    return Record(
        slo=SLO,
        alert="LatencySLOBreach",
        seed=1,
        started_at="2026-01-02T03:04:05+00:00",
        verdict=Verdict(True, "Under one unchanged load of 400/s the alert fired and resolved."),
        capacity_rps=201.0,
        load_rps=400.0,
        tuned={"policy": "adaptive", "max_batch_rows": 128, "max_wait_seconds": 0.005},
        times=Times(
            breach=2.0,
            breach_in_prometheus=9.0,
            fired=26.0,
            arrived=28.4,
            cured=34.0,
            recovered=38.0,
            recovered_in_prometheus=63.0,
            resolved=101.0,
            cleared=104.2,
            ended=109.0,
        ),
        series=series(readings, SLO),
        before=stretch(readings, 2.0, 34.0, SLO),
        after=stretch(readings, 38.0, 109.0, SLO),
        ramp=[
            *(step(1, rate, 200.0) for rate in (100.0, 160.0, 256.0, 350.0, 190.0)),
            *(step(8, rate, 1_400.0) for rate in (128.0, 205.0, 328.0, 525.0, 840.0, 1_344.0, 2_150.0)),
            *(step(128, rate, 5_000.0) for rate in (840.0, 1_344.0, 2_150.0, 3_440.0, 5_500.0, 7_400.0)),
        ],
        cost_fixed_seconds=0.005,
        cost_per_row_seconds=0.00006,
        settings={"seed": "1", "CPUs of the service": "0"},
        host={"CPU": "made up", "CPUs usable": "2"},
        versions={"Python": "3.11.7"},
        took_seconds=290.0,
    )
