"""A result in a few lines for a terminal. Pure."""

from collections.abc import Mapping
from typing import Any

from loadtest.analysis.words import INFINITE, NOTHING, count_text, latency_text, rate_text, share_text


def told(result: Mapping[str, Any]) -> str:
    """The verdict first, then why, then the figures."""
    slo, measured = result["slo"], result["measured"]
    lines = [result["verdict"]]
    lines += [f"  {reason}" for reason in result["reasons"]]
    lines += [f"  Note: {note}" for note in result["notes"]]
    lines.append("")
    lines += [
        _row("", *(name for name in ("p50", "p90", "p95", "p99", "p99.9", "max"))),
        _latencies("latency, all arrivals", result["latency_seconds"], INFINITE if measured["offered"] else NOTHING),
        _latencies("latency, successes only", result["success_latency_seconds"], NOTHING),
        _latencies("service time", result["service_seconds"], NOTHING),
    ]
    lines.append("")
    planned = result["planned_rate"]
    lines.append(
        f"measured: {count_text(measured['offered'])} offered = {count_text(measured['completed'])} completed + "
        f"{count_text(measured['failed'])} failed + {count_text(measured['dropped'])} dropped + "
        f"{count_text(measured['in_flight_at_end'])} in flight at the end"
    )
    rates = f"started {rate_text(result['achieved_rate'])}, completed {rate_text(result['throughput'])}"
    lines.append(f"rate: {rates}" + ("" if planned is None else f", planned {rate_text(planned)}"))
    good = "–" if slo["ratio"] is None else share_text(slo["ratio"])
    lines.append(
        f"SLO: {share_text(slo['objective'])} within {latency_text(slo['threshold_seconds'])}; good {good} "
        f"({count_text(slo['good'])} good, {count_text(slo['bad'])} bad)"
    )
    lines += [f"failures: {count_text(each['count'])} × {each['what']}" for each in result["failures"][:5]]
    return "\n".join(lines)


def _latencies(name: str, seconds: Mapping[str, float | None], none: str) -> str:
    """A row; `none` is what a missing figure means."""
    figures = [seconds[key] for key in ("p50", "p90", "p95", "p99", "p999", "max")]
    return _row(name, *(none if each is None else latency_text(each) for each in figures))


def _row(name: str, *cells: str) -> str:
    return f"{name:<24}" + "".join(f"{cell:>10}" for cell in cells)
