"""The SLO itself: how fast the budget burns, what is left of it, and which alerts fire."""

from typing import Any

from slo import names
from slo.config import Service
from slo.dashboards.frame import framed
from slo.dashboards.panels import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    PER_SECOND,
    RATIO,
    RED,
    ROWS,
    SECONDS,
    VIOLET,
    WINDOW,
    Query,
    figure,
    lines,
    listing,
)
from slo.durations import duration_text
from slo.expressions import good_requests, job_requests, selector, total_rate
from slo.recording import bad_ratio_name, budget_remaining_name, requests_name, windows
from slo.text import percent, seconds

_WINDOW_COLORS = (VIOLET, BLUE, AMBER, GREEN, GREY, RED)


def objective_dashboard(service: Service, uid: str) -> dict[str, Any]:
    """For whoever answers for the objective, or has been paged on it."""
    job = {"job": service.job}
    profile = service.profile
    first = profile.burn_rates[0]
    threshold = seconds(service.threshold_seconds)
    short, long = duration_text(first.short_seconds), duration_text(first.long_seconds)

    def outcome(value: str) -> str:
        return total_rate(job_requests(service, "_count", outcome=value), WINDOW, by="")

    good = total_rate(good_requests(service), WINDOW, by="")
    limits = sorted({round(burn.factor * service.budget, 12) for burn in profile.burn_rates})
    firing = selector(names.ALERTS, alertstate="firing", severity="=~page|ticket")
    panels = [
        figure(
            "Objective",
            f"Share of requests that must be answered 2xx within {threshold}, as the service itself was told.",
            Query(f"max({selector(names.SLO_OBJECTIVE_RATIO, **job)})", "objective"),
            RATIO,
            [(None, BLUE)],
            decimals=2,
            no_value="no service",
        ),
        figure(
            "Threshold",
            f"A request is good within this; the rules were generated for {threshold}.",
            Query(f"max({selector(names.SLO_THRESHOLD_SECONDS, **job)})", "threshold"),
            SECONDS,
            [(None, BLUE)],
            no_value="no service",
        ),
        *(
            figure(
                f"Burn rate, {text}",
                f"How many times faster than bearable the error budget burnt over the last {text}: 1 uses it up in "
                f"exactly {service.window_days} days. Red from {first.factor:g} on, where the alert looks.",
                Query(f"{selector(bad_ratio_name(window), **job)} / {service.budget:g}", "burn rate"),
                ROWS,
                [(None, GREEN), (0.8 * first.factor, AMBER), (first.factor, RED)],
                decimals=1,
            )
            for text, window in ((short, first.short_seconds), (long, first.long_seconds))
        ),
        figure(
            f"Error budget left, {service.window_days} d",
            f"Share of the {service.window_days}-day error budget that is left, over the requests that Prometheus has "
            "seen: a young stack has seen few, so one bad minute may overspend it many times. Below 0 the objective "
            "is missed. Updated every 30 s.",
            Query(selector(budget_remaining_name(service), **job), "left"),
            RATIO,
            [(None, RED), (0, AMBER), (0.25, GREEN)],
            decimals=0,
            no_value="no data yet",
        ),
        figure(
            "Alerts firing",
            "Pages and tickets that fire now, of every job.",
            Query(f"count({firing}) or vector(0)", "firing"),
            ROWS,
            [(None, GREEN), (1, RED)],
            decimals=0,
            no_value="0",
        ),
        lines(
            "Requests that are not good",
            f"Share of requests that failed, were shed or took longer than {threshold}, over every window that an "
            f"alert looks at, against what it allows. An alert takes both windows and {profile.min_requests} requests.",
            [
                *(
                    Query(selector(bad_ratio_name(window), **job), duration_text(window), color)
                    for window, color in zip(windows(service), _WINDOW_COLORS * 3, strict=False)
                ),
                *(Query(f"vector({limit:g})", f"limit {percent(limit)}", RED, dashed=True) for limit in limits),
            ],
            RATIO,
        ),
        lines(
            "Error budget left",
            f"What is left of the budget of {percent(service.budget)} over {service.window_days} days. Steps down are "
            "incidents; a slope is a service that is slightly too slow.",
            [
                Query(selector(budget_remaining_name(service), **job), "left", BLUE, fill=True),
                Query("vector(0)", "spent", RED, dashed=True),
            ],
            RATIO,
            below_zero=True,
            maximum=1,
        ),
        lines(
            "What became of requests",
            "Good, answered too late, shed and failed, per second. Client errors and probes are not among them.",
            [
                Query(good, "good", GREEN),
                Query(f"clamp_min({outcome('ok')} - {good}, 0)", "too slow", VIOLET),
                Query(outcome("shed"), "shed", AMBER),
                Query(outcome("failed"), "failed", RED),
            ],
            PER_SECOND,
            stacked=True,
        ),
        lines(
            "Traffic in the alert's window",
            f"Requests in the last {long}; below {profile.min_requests} no alert on a share of them is raised.",
            [
                Query(f"{selector(requests_name(first.long_seconds), **job)} * {first.long_seconds}", "requests", BLUE),
                Query(f"vector({profile.min_requests})", "fewest", GREY, dashed=True),
            ],
            ROWS,
        ),
        listing(
            "Alerts now",
            "Pages and tickets that are pending or fire, of every job. The runbook has a section for each.",
            Query(
                "max by (alertname, alertstate, severity, job) ("
                f"(time() - {selector(names.ALERTS_FOR_STATE, severity='=~page|ticket')}) "
                f"* ignoring (alertstate) group_right () {selector(names.ALERTS, severity='=~page|ticket')})",
                "active",
            ),
            {"alertname": "Alert", "alertstate": "State", "severity": "Severity", "job": "Job", "Value": "Active for"},
            SECONDS,
            no_value="No alert is pending or firing",
        ),
        lines(
            "Alerts",
            "Alerts that are pending or fire, by name and state; each band is one alert.",
            [
                Query(
                    f"count by (alertname, alertstate) ({selector(names.ALERTS, severity='=~page|ticket')})",
                    "{{alertname}} {{alertstate}}",
                )
            ],
            ROWS,
            stacked=True,
        ),
    ]
    return framed(uid, "SLO", f"Burn rate, error budget and alerts of {service.job}.", panels, span="now-1h")
