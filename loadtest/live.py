"""What a run says while it goes on: its figures so far, and the verdict as it stands. Pure.

The rules and thresholds are those of `analysis.verdict`, which judges the finished run from every single arrival.
Here they are applied to histograms, and a request that waits for longer than the threshold is bad already.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from loadtest.analysis.hdr import Hdr
from loadtest.analysis.needed import samples_needed, told
from loadtest.analysis.order import percentile_name, rank
from loadtest.analysis.verdict import (
    FULL_CORE,
    LATENESS_QUANTILE,
    WRONG_LOAD_SHARE,
    Slo,
    allowed_bad,
    lateness_limit_seconds,
)
from loadtest.analysis.words import INFINITE, setting_text, share_text
from loadtest.worker_report import Report

NOTHING: Final = "NOTHING YET"
TOO_EARLY: Final = "TOO EARLY"
_LATENCIES: Final[Mapping[str, float]] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands. `verdict` is PASS, FAIL or INVALID so far, or that it is too early for one."""

    verdict: str
    reasons: list[str]  # whole sentences, the first one says why the verdict is what it is
    punctual: bool  # the generator's own part: whether its figures can be trusted so far
    good: int
    bad: int
    overdue: int  # among the bad: in flight for longer than the threshold
    p: float | None  # seconds of the objective's percentile over all arrivals; None before the first


def standing(report: Report, slo: Slo) -> Standing:
    """The verdict as it stands."""
    run, threshold = report.run, slo.threshold_seconds
    late = report.ages.beyond(threshold)
    overdue = late.total
    count = run.total.total + overdue
    good = run.total.within(threshold)
    bad = count - good
    everything = Hdr()
    everything.add(run.total)
    everything.add(late)  # each is at least as slow as it is old
    p = everything.quantile(slo.objective)
    faults = _generator_faults(report, slo, count)
    if not count:
        return Standing(NOTHING, ["No arrival has had its outcome yet."], not faults, 0, 0, 0, None)
    name = percentile_name(slo.objective)
    allowed = allowed_bad(slo, count)
    least = samples_needed(slo.objective)
    words = _words(name, p, good, bad, count, allowed, overdue, slo)
    if faults:
        verdict, reasons = "INVALID", [*faults, words]
    elif bad > allowed and (count >= least or bad > allowed_bad(slo, least)):
        verdict, reasons = "FAIL", [words, *_where(report, bad, overdue)]
    elif count < least:
        verdict, reasons = TOO_EARLY, [f"{count:,} arrivals so far; {told(slo.objective, report.rate)}.", words]
    else:
        verdict, reasons = "PASS", [words]
    return Standing(verdict, reasons, not faults, good, bad, overdue, p)


def as_json(report: Report, slo: Slo) -> dict[str, Any]:
    """All of it for a page or a program, named as in result.json. A latency is null where it is +∞ or there is none."""
    run, stands = report.run, standing(report, slo)
    count = stands.good + stands.bad
    return {
        **report.as_json(),
        "run": run.counts,
        "verdict": stands.verdict,
        "reasons": stands.reasons,
        "punctual": stands.punctual,
        "outcomes": run.outcomes,
        "overdue": stands.overdue,
        "latency_seconds": _latencies(run.total, _LATENCIES),
        "success_latency_seconds": {**_latencies(run.total.answered(), _LATENCIES), "mean": run.total.mean},
        "service_seconds": _latencies(run.service, _LATENCIES),
        "dispatch_lateness_seconds": _latencies(run.lateness, {"p50": 0.5, "p99": 0.99, "max": 1.0}),
        "lateness_limit_seconds": lateness_limit_seconds(slo),
        "slo": {
            "threshold_seconds": slo.threshold_seconds,
            "objective": slo.objective,
            "good": stands.good,
            "bad": stands.bad,
            "allowed_bad": allowed_bad(slo, count),
            "ratio": stands.good / count if count else None,
            "percentile": percentile_name(slo.objective),
            "percentile_seconds": _finite(stands.p),
        },
        "generator": {
            "cpu_share": report.cpu_share,
            "starved": report.cpu_share >= FULL_CORE,
            "workers_lost": report.workers_lost,
        },
    }


def _latencies(histogram: Hdr, qs: Mapping[str, float]) -> dict[str, float | None]:
    found = dict(zip(qs, histogram.quantiles(list(qs.values())), strict=True))
    found["max"] = histogram.max  # exact
    return {name: _finite(seconds) for name, seconds in found.items()}


def _finite(seconds: float | None) -> float | None:
    return None if seconds is None or math.isinf(seconds) else seconds


def _generator_faults(report: Report, slo: Slo, count: int) -> list[str]:
    """What the generator did wrong, in whole sentences."""
    found = []
    limit, lateness = lateness_limit_seconds(slo), report.run.lateness.quantile(LATENESS_QUANTILE)
    if report.workers_lost:
        lost = "a worker was" if report.workers_lost == 1 else f"{report.workers_lost} workers were"
        found.append(f"The generator lost part of its load: {lost} lost.")
    # As with bad arrivals: few samples accuse nobody, unless more are late than enough samples would forgive.
    least = samples_needed(LATENESS_QUANTILE)
    forgiven = least - rank(LATENESS_QUANTILE, least)
    if lateness is not None and lateness > limit and report.run.lateness.beyond(limit).total > forgiven:
        starved = (
            f"; its busiest process uses {share_text(report.cpu_share)} of a core, so give it more processes or cores"
            if report.cpu_share >= FULL_CORE
            else ""
        )
        found.append(
            f"The generator is late: 1% of the requests left {setting_text(lateness)} or more after their instant, "
            f"where {setting_text(limit)} is the most that leaves the figures true{starved}."
        )
    wrong = report.run.outcomes["client_error"]
    if wrong > WRONG_LOAD_SHARE * count:
        found.append(
            f"The service refuses {share_text(wrong / count)} of the requests as the client's mistake (4xx): look at "
            "the path, the headers and the rows."
        )
    return found


def _words(name: str, p: float | None, good: int, bad: int, count: int, allowed: int, overdue: int, slo: Slo) -> str:
    holds = "holds" if bad <= allowed else "does not hold"
    least = "at least " if overdue and p is not None and p < math.inf else ""
    return (
        f"{name} {holds} so far: {good:,} of {count:,} arrivals ({share_text(good / count)}) were answered within "
        f"{setting_text(slo.threshold_seconds)} of their scheduled instant, where the objective is "
        f"{share_text(slo.objective)}; {name} over all arrivals is {least}{INFINITE if p is None else setting_text(p)}."
    )


def _where(report: Report, bad: int, overdue: int) -> Sequence[str]:
    """Which way the bad ones are bad."""
    counts, outcomes = report.run.counts, report.run.outcomes
    parts = {
        "dropped because every user was waiting": counts["dropped"],
        "turned away (429 or 503)": outcomes["shed"],
        "refused (4xx)": outcomes["client_error"],
        "failed or timed out": outcomes["failed"],
        "given up when the run was stopped": counts["unfinished"],
        "waiting for longer than the threshold right now": overdue,
    }
    parts = {"answered too late": bad - sum(parts.values()), **parts}
    listed = [f"{number:,} {what}" for what, number in sorted(parts.items(), key=lambda part: -part[1]) if number > 0]
    return [f"Of the {bad:,} bad ones: {', '.join(listed)}."]
