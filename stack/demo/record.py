"""All that one run of the demo measured: what the tables, result.json and the report are made from."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slo.config import Service
from stack.demo.experiment import Times, Verdict
from stack.demo.measure import Reading, Window, between
from stack.demo.ramp import Step, largest_met
from stack.demo.words import quantile_text

SERIES_SECONDS = 3.0  # the latency plot shows the last so many seconds at each instant


@dataclass(frozen=True, slots=True)
class Figures:
    """One window in numbers. Latencies are seconds; inf: beyond the last bucket or lost, and the text says which."""

    start: float
    end: float
    max_batch_rows: int
    offered_rps: float
    served_rps: float
    mean: float | None  # of the answered
    p50: float | None
    p95: float | None
    p99: float | None
    p50_text: str
    p95_text: str
    p99_text: str
    lost_share: float
    mean_batch_rows: float | None
    slo_met: bool
    lateness_p99: float | None  # the generator's own

    @classmethod
    def of(cls, window: Window, slo: Service) -> "Figures":
        latency = window.latency
        return cls(
            start=window.start,
            end=window.end,
            max_batch_rows=window.max_batch_rows,
            offered_rps=window.offered_rps,
            served_rps=window.served_rps,
            mean=latency.mean,
            p50=window.quantile(0.5),
            p95=window.quantile(0.95),
            p99=window.quantile(0.99),
            p50_text=quantile_text(latency, 0.5),
            p95_text=quantile_text(latency, 0.95),
            p99_text=quantile_text(latency, 0.99),
            lost_share=latency.lost_share,
            mean_batch_rows=window.mean_batch_rows,
            slo_met=window.meets(slo),
            lateness_p99=window.lateness.quantile(0.99),
        )


@dataclass(frozen=True, slots=True)
class RampPoint:
    """One step of the ramp: a rate that was asked for, and what came of it."""

    rate: float
    figures: Figures

    @property
    def step(self) -> Step:
        figures = self.figures
        return Step(
            rate=self.rate,
            offered_rps=figures.offered_rps,
            seconds=figures.end - figures.start,
            met=figures.slo_met,
            served_rps=figures.served_rps,
        )


@dataclass(slots=True)
class Record:
    """Filled while the demo runs, so that an interrupted one keeps what it has."""

    slo: Service
    alert: str
    seed: int
    started_at: str  # ISO 8601, with its zone
    verdict: Verdict | None = None
    interrupted: bool = False
    capacity_rps: float | None = None  # of one row at a time, measured
    load_rps: float | None = None
    slow_rows: int = 1
    tuned: Mapping[str, Any] = field(default_factory=dict)  # the knobs, as /admin/batching spells them
    times: Times = field(default_factory=Times)
    series: Sequence[Figures] = ()
    before: Figures | None = None  # from the breach to the cure
    after: Figures | None = None  # from the recovery to the end, same load
    ramp: list[RampPoint] = field(default_factory=list)
    cost_fixed_seconds: float | None = None  # of a model call, as the service has learned it
    cost_per_row_seconds: float | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    host: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    took_seconds: float = 0.0

    @property
    def state(self) -> str:
        """pass, fail or partial."""
        if self.verdict is None:
            return "partial"
        return "pass" if self.verdict.passed else "fail"

    def batch_sizes(self) -> list[int]:
        return sorted({point.figures.max_batch_rows for point in self.ramp})

    def points(self, max_batch_rows: int) -> list[RampPoint]:
        """The ramp of one batch size, by rising rate."""
        own = [point for point in self.ramp if point.figures.max_batch_rows == max_batch_rows]
        return sorted(own, key=lambda point: point.rate)

    def largest_met(self, max_batch_rows: int) -> RampPoint | None:
        """The largest rate of a batch size that stayed inside the SLO."""
        points = self.points(max_batch_rows)
        rate = largest_met([point.step for point in points])
        return next((point for point in points if point.rate == rate and point.figures.slo_met), None)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON: a latency that is no number is null, and its text beside it says why."""
        plain: dict[str, Any] = _plain(dataclasses.asdict(self))
        plain["verdict"] = {"pass": "PASS", "fail": "FAIL", "partial": "PARTIAL"}[self.state]
        plain["sentence"] = self.verdict.sentence if self.verdict else None
        return plain


def series(readings: Sequence[Reading], slo: Service) -> list[Figures]:
    """At each reading, the figures of the last seconds before it."""
    figures = []
    first = 0
    for index, now in enumerate(readings):
        while first + 1 < index and now.at - readings[first + 1].at >= SERIES_SECONDS:
            first += 1
        if now.at - readings[first].at >= SERIES_SECONDS - 0.5:
            figures.append(Figures.of(between(readings[first], now), slo))
    return figures


def stretch(readings: Sequence[Reading], start: float | None, end: float | None, slo: Service) -> Figures | None:
    """The figures from `start` until just before `end`; None when one did not happen or too little lies between."""
    if start is None or end is None:
        return None
    inside = [reading for reading in readings if start <= reading.at < end]
    if len(inside) < 2:
        return None
    return Figures.of(between(inside[0], inside[-1]), slo)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
