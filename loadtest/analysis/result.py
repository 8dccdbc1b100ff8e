"""The record of one run, as it stands in result.json: built from the samples, written, and read again."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np

from loadtest.analysis.intervals import Interval, quantile_interval
from loadtest.analysis.order import quantiles
from loadtest.analysis.samples import DROPPED, FAILED, End, Floats, Samples
from loadtest.analysis.steady import steadiness
from loadtest.analysis.verdict import GeneratorHealth, Judgement, Slo, judge

FORMAT: Final = 1
PERCENTILES: Final[Mapping[str, float]] = {
    "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0,
}  # fmt: skip
WITH_INTERVAL: Final = ("p50", "p95", "p99")
BATCHES: Final = 24  # enough for an interval of their mean, few enough that each is longer than a queue's memory
STEADY_ARRIVALS: Final = ("constant", "poisson")  # the others change their rate on purpose

_LOST: Final[Mapping[str, tuple[End, ...]]] = {
    "dropped": DROPPED,
    "failed": FAILED,
    "in flight when the run ended": (End.IN_FLIGHT,),
}
_REQUIRED: Final = (
    "verdict", "reasons", "offered", "started", "completed", "failed", "dropped", "in_flight_at_end", "measured",
    "planned_rate", "achieved_rate", "latency_seconds", "latency_p99_ci95", "success_latency_seconds",
    "service_seconds", "dispatch_lateness_seconds", "slo", "seed", "arrivals", "host", "latency_ci95", "batches",
    "settings", "target", "ended", "duration_seconds", "warmup_seconds",
)  # fmt: skip


class ResultError(ValueError):
    """A file that is no result: one sentence that says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class About:
    """What only the program that made the run knows; everything must be JSON."""

    target: str
    arrivals: str  # the kind of schedule, or "closed"
    planned_rate: float | None  # arrivals per second, the mean over the measured part; None in a closed loop
    seed: int
    started_at: str  # ISO 8601 with its offset
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    host: Mapping[str, Any]  # name, cpu, cpus, memory_bytes, system, python
    processes: int = 1
    failures: Mapping[str, int] = field(default_factory=dict)  # "HTTP 404" → how many, over the whole run
    client_errors: Mapping[str, int] = field(default_factory=dict)  # those among them that are 4xx but 429


@dataclass(frozen=True, slots=True)
class Excluded:
    """Arrivals from one instant up to another, in seconds since the start, that are left out, and why."""

    from_seconds: float
    to_seconds: float
    why: str


def build(
    samples: Samples,
    about: About,
    slo: Slo,
    health: GeneratorHealth,
    *,
    duration_seconds: float,
    warmup_seconds: float = 0.0,
    ended: Literal["complete", "aborted", "interrupted"] = "complete",
    excluded: Sequence[Excluded] = (),
    reasons: Sequence[str] = (),
    notes: Sequence[str] = (),
    series: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The whole record, ready for `dumps`, with the verdict in it.

    The run lasted `duration_seconds` from its start, the warm-up among them: measured are the arrivals that were due
    from `warmup_seconds` up to there. `excluded` names what else was cut off at either side. `reasons` and `notes` of
    the caller come after those of the verdict; `series` is kept as it is. A time that is +∞ becomes None, and
    `latency_reasons` says why.
    """
    left_out = [
        *([Excluded(0.0, warmup_seconds, "warm-up")] if warmup_seconds > 0 else []),
        *excluded,
    ]
    measured = samples.between(warmup_seconds, duration_seconds)
    span = max(duration_seconds - warmup_seconds, 0.0)
    steady = steadiness(samples, warmup_seconds, duration_seconds) if about.arrivals in STEADY_ARRIVALS else None
    judgement = judge(measured, slo, health, steadiness=steady, client_errors=about.client_errors)
    counts, measured_counts = samples.counts(), measured.counts()
    latency = _percentiles(measured.total_seconds)
    intervals = _intervals(measured)
    return {
        "format": FORMAT,
        "verdict": judgement.verdict,
        "reasons": [*judgement.reasons, *reasons],
        "notes": [*judgement.notes, *notes],
        "target": about.target,
        "started_at": about.started_at,
        "ended": ended,
        "duration_seconds": duration_seconds,
        "warmup_seconds": warmup_seconds,
        **counts,
        "measured": measured_counts,
        "planned_rate": about.planned_rate,
        "achieved_rate": measured_counts["started"] / span if span else 0.0,
        "throughput": _answered(samples, warmup_seconds, duration_seconds) / span if span else 0.0,
        "latency_seconds": {name: _finite(value) for name, value in latency.items()},
        "latency_reasons": _why_null(measured, latency),
        "latency_ci95": {name: _ends(interval) for name, interval in intervals.items()},
        "latency_p99_ci95": _ends(intervals["p99"]),
        "latency_p99_effective_samples": intervals["p99"].effective_samples if intervals["p99"] else 0.0,
        "success_latency_seconds": _of_successes(measured.success_seconds),
        "service_seconds": _nullable(_percentiles(_known(measured.service_seconds))),
        "dispatch_lateness_seconds": _lateness(_known(measured.lateness_seconds)),
        "slo": _kept(slo, judgement),
        "steady": None if steady is None else steady.as_dict(),
        "excluded": [_cut(samples, each) for each in left_out],
        "failures": [{"what": what, "count": count} for what, count in _most_first(about.failures)],
        "generator": {
            "processes": about.processes,
            "cpu_share": health.cpu_share,
            "workers_lost": health.workers_lost,
        },
        "batches": batches(measured, slo, warmup_seconds, duration_seconds),
        "seed": about.seed,
        "arrivals": about.arrivals,
        "settings": dict(about.settings),
        "versions": dict(about.versions),
        "host": dict(about.host),
        **({} if series is None else {"series": dict(series)}),
    }


def _answered(samples: Samples, start: float, end: float) -> int:
    """Good answers that came in that time, whenever they were due: what came later was not done by then."""
    done = samples.rows["done"][samples.ends == End.OK]
    return int(np.count_nonzero((done >= start) & (done < end)))


def batches(measured: Samples, slo: Slo, start: float, end: float, count: int = BATCHES) -> list[dict[str, Any]]:
    """The measured part in `count` spans of equal length, in time order; None stands for +∞ and for no figure."""
    found: list[dict[str, Any]] = []
    if end <= start:
        return found
    edges = np.linspace(start, end, count + 1)
    for first, last in pairwise(edges.tolist()):
        part = measured.between(first, last)
        successes = part.success_seconds
        p50, p95, p99 = quantiles(part.total_seconds, (0.5, 0.95, 0.99)) if len(part) else (None, None, None)
        found.append(
            {
                "from_seconds": first,
                "to_seconds": last,
                "offered": len(part),
                "completed": len(successes),
                "good": int(np.count_nonzero(successes <= slo.threshold_seconds)),
                "p50": _finite(p50),
                "p95": _finite(p95),
                "p99": _finite(p99),
                "mean": float(successes.mean()) if len(successes) else None,
            }
        )
    return found


def dumps(result: Mapping[str, Any]) -> str:
    """As the text of result.json; ValueError if a number in it is not finite."""
    return json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def loads(text: str | bytes) -> dict[str, Any]:
    """A result from its text; ResultError, one sentence, if it is none."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ResultError(f"it is not JSON ({error})") from None
    if not isinstance(found, dict) or "verdict" not in found:
        raise ResultError('it is no result of a run; expected an object with a "verdict"')
    if found.get("format") != FORMAT:
        raise ResultError(f"its format is {found.get('format')!r}; this version reads format {FORMAT}")
    missing = [name for name in _REQUIRED if name not in found]
    if missing:
        raise ResultError(f"it is no whole result: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    return found


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _nullable(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: _finite(value) for name, value in values.items()}


def _intervals(measured: Samples) -> dict[str, Interval | None]:
    if not len(measured):
        return dict.fromkeys(WITH_INTERVAL)
    return {name: quantile_interval(measured.total_seconds, PERCENTILES[name]) for name in WITH_INTERVAL}


def _ends(interval: Interval | None) -> list[float | None]:
    return [None, None] if interval is None else [_finite(interval.low), _finite(interval.high)]


def _known(seconds: Floats) -> Floats:
    return seconds[~np.isnan(seconds)]


def _percentiles(seconds: Floats) -> dict[str, float]:
    """Each of PERCENTILES; NaN without samples."""
    if not len(seconds):
        return dict.fromkeys(PERCENTILES, math.nan)
    return dict(zip(PERCENTILES, quantiles(seconds, tuple(PERCENTILES.values())), strict=True))


def _of_successes(seconds: Floats) -> dict[str, Any]:
    mean = float(seconds.mean()) if len(seconds) else None
    return {**_nullable(_percentiles(seconds)), "mean": mean, "samples": len(seconds)}


def _lateness(seconds: Floats) -> dict[str, float | None]:
    figures = _nullable(_percentiles(seconds))
    return {name: figures[name] for name in ("p50", "p99", "max")}


def _why_null(measured: Samples, latency: Mapping[str, float]) -> dict[str, str]:
    if not len(measured):
        return dict.fromkeys(latency, "no arrival was measured")
    lost = [
        f"{sum(measured.by_end[end] for end in ends):,} {what}"
        for what, ends in _LOST.items()
        if any(measured.by_end[end] for end in ends)
    ]
    count = len(measured) - measured.by_end[End.OK]
    why = f"{count:,} of {len(measured):,} arrivals ({count / len(measured):.3%}) got no good answer: {', '.join(lost)}"
    return {name: why for name, value in latency.items() if value == math.inf}


def _kept(slo: Slo, judgement: Judgement) -> dict[str, Any]:
    counted = judgement.good + judgement.bad
    return {
        "threshold_seconds": slo.threshold_seconds,
        "objective": slo.objective,
        "good": judgement.good,
        "bad": judgement.bad,
        "ratio": judgement.good / counted if counted else None,
    }


def _cut(samples: Samples, excluded: Excluded) -> dict[str, Any]:
    return {
        "from_seconds": excluded.from_seconds,
        "to_seconds": excluded.to_seconds,
        "samples": len(samples.between(excluded.from_seconds, excluded.to_seconds)),
        "why": excluded.why,
    }


def _most_first(counts: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
