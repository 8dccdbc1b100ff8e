"""Recording rules: request rates, the share of bad requests, the p99 and what is left of the error budget, per job.

Where two sides of an operator are matched by job, only one of them names it: a second matcher would change nothing.
"""

from collections.abc import Iterable
from typing import Any, Final

from slo import names
from slo.config import Service
from slo.durations import duration_text
from slo.expressions import good_requests, job_requests, quantile, ratio, selector, total_rate

# Operational alerts look back this far in every profile.
RECENT_SECONDS: Final = 30
STEADY_SECONDS: Final = 120
# Windows this long change slowly and cost much to compute: once a minute will do.
_SLOW_WINDOW_SECONDS: Final = 1800
_SLOW_INTERVAL: Final = "1m"
# Requests are summed up in steps of this size over the SLO's window: 86,400 samples for 30 days.
_BUDGET_STEP: Final = "30s"

LOADGEN_RATE: Final = f"job:loadgen_requests:rate{duration_text(RECENT_SECONDS)}"
LOADGEN_P99: Final = f"job:{names.LOADGEN_REQUEST_DURATION}:p99_rate{duration_text(RECENT_SECONDS)}"
SERVER_P99: Final = f"job:{names.REQUEST_DURATION}:p99_rate{duration_text(RECENT_SECONDS)}"
BUDGET_REQUESTS: Final = f"job:slo_requests:increase{_BUDGET_STEP}"
BUDGET_BAD: Final = f"job:slo_bad_requests:increase{_BUDGET_STEP}"


def requests_name(window_seconds: int) -> str:
    """Requests that count, per second."""
    return f"job:slo_requests:rate{duration_text(window_seconds)}"


def bad_ratio_name(window_seconds: int) -> str:
    """Share of them that was bad: failed, shed, or slower than the threshold. Absent while nothing arrives."""
    return f"job:slo_bad:ratio_rate{duration_text(window_seconds)}"


def outcome_ratio_name(outcome: str, window_seconds: int) -> str:
    """Share of them that had that outcome. Absent while nothing arrives."""
    return f"job:slo_{outcome}:ratio_rate{duration_text(window_seconds)}"


def budget_remaining_name(service: Service) -> str:
    """Share of the error budget that is left over the SLO's window: 1 untouched, 0 spent, negative overspent."""
    return f"job:slo_error_budget_remaining:ratio{duration_text(service.window_days * 86400)}"


def window_rules(service: Service) -> list[dict[str, str]]:
    """Rates and bad ratios over every short window, outcomes, the p99; in the order in which they need each other."""
    rates = _rate_rules(service, (w for w in windows(service) if w < _SLOW_WINDOW_SECONDS))
    return [*rates, *_outcome_rules(service), _p99_rule(service)]


def slow_groups(service: Service) -> list[dict[str, Any]]:
    """Groups of their own for what is too much to compute every few seconds: long windows, and the error budget."""
    groups: list[dict[str, Any]] = []
    if slow := [w for w in windows(service) if w >= _SLOW_WINDOW_SECONDS]:
        rules = list(_rate_rules(service, slow))
        groups.append({"name": f"{service.job}-long-windows", "interval": _SLOW_INTERVAL, "rules": rules})
    groups.append({"name": f"{service.job}-budget", "interval": _BUDGET_STEP, "rules": _budget_rules(service)})
    return groups


def loadgen_rules() -> list[dict[str, str]]:
    """What the client saw, counted from the scheduled instant."""
    recent = duration_text(RECENT_SECONDS)
    job = {"job": "loadgen"}
    count = selector(f"{names.LOADGEN_REQUEST_DURATION}_count", **job)
    p99 = quantile(0.99, selector(f"{names.LOADGEN_REQUEST_DURATION}_bucket", **job), recent)
    return [
        {"record": LOADGEN_RATE, "expr": total_rate(count, recent)},
        {"record": LOADGEN_P99, "expr": f"{p99}\nand on (job) {LOADGEN_RATE} > 0"},
    ]


def windows(service: Service) -> list[int]:
    """Every window in seconds over which a service's requests are recorded."""
    burning = {seconds for burn in service.profile.burn_rates for seconds in (burn.short_seconds, burn.long_seconds)}
    return sorted(burning | {RECENT_SECONDS, STEADY_SECONDS})


def _rate_rules(service: Service, windows: Iterable[int]) -> Iterable[dict[str, str]]:
    for seconds in windows:
        window = duration_text(seconds)
        counted = total_rate(job_requests(service, "_count"), window)
        yield {"record": requests_name(seconds), "expr": counted}
        good = total_rate(good_requests(service), window)
        # Float sums may land a hair above 1, which would show as a ratio of -1e-16.
        yield {
            "record": bad_ratio_name(seconds),
            "expr": f"clamp_min(\n  1 - {ratio(good, requests_name(seconds))},\n  0\n)",
        }


def _outcome_rules(service: Service) -> Iterable[dict[str, str]]:
    for outcome in ("failed", "shed"):
        for seconds in (RECENT_SECONDS, STEADY_SECONDS):
            of_that = total_rate(job_requests(service, "_count", outcome=outcome), duration_text(seconds))
            yield {"record": outcome_ratio_name(outcome, seconds), "expr": ratio(of_that, requests_name(seconds))}


def _p99_rule(service: Service) -> dict[str, str]:
    p99 = quantile(0.99, job_requests(service, "_bucket"), duration_text(RECENT_SECONDS))
    return {"record": SERVER_P99, "expr": f"{p99}\nand on (job) {requests_name(RECENT_SECONDS)} > 0"}


def _budget_rules(service: Service) -> list[dict[str, str]]:
    job = {"job": service.job}
    counted = f"sum by (job) (increase({job_requests(service, '_count')}[{_BUDGET_STEP}]))"
    good = f"sum by (job) (increase({good_requests(service)}[{_BUDGET_STEP}]))"
    window = f"{service.window_days}d"
    bad_share = ratio(
        f"sum_over_time({selector(BUDGET_BAD, **job)}[{window}])",
        f"sum_over_time({selector(BUDGET_REQUESTS, **job)}[{window}])",
    )
    return [
        {"record": BUDGET_REQUESTS, "expr": counted},
        {"record": BUDGET_BAD, "expr": f"clamp_min(\n  {BUDGET_REQUESTS} - {good},\n  0\n)"},
        {"record": budget_remaining_name(service), "expr": f"1 - (\n  {bad_share}\n) / {service.budget:g}"},
    ]
