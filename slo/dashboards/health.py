"""Whether what is seen can be believed: targets, the load generator, the alert path, and what they cost."""

from typing import Any

from slo import names
from slo.alerts import LATENESS_SHARE_OF_THRESHOLD
from slo.config import SCRAPE_SECONDS, SloFile
from slo.dashboards.frame import framed
from slo.dashboards.panels import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
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
from slo.expressions import quantile, selector, total_rate

UID = "stack-health"


def health_dashboard(slo: SloFile) -> dict[str, Any]:
    """For whoever doubts a figure on another dashboard."""
    threshold = min(service.threshold_seconds for service in slo.services)
    late = LATENESS_SHARE_OF_THRESHOLD * threshold
    lateness = selector(f"{names.LOADGEN_DISPATCH_LATENESS}_bucket", job="loadgen")
    lateness_p99 = quantile(0.99, lateness, WINDOW, by="")
    sent = total_rate(selector(f"{names.LOADGEN_DISPATCH_LATENESS}_count", job="loadgen"), WINDOW, by="")
    dropped = total_rate(selector(names.LOADGEN_ARRIVALS, job="loadgen", state="dropped"), WINDOW, by="")
    # Prometheus names a group by its file's path and its own name.
    seconds = selector(names.RULE_GROUP_DURATION, job="prometheus")
    group = f'label_replace({seconds}, "group", "$1", "rule_group", ".*;(.*)")'
    panels = [
        figure(
            "Targets down",
            "Targets that Prometheus cannot scrape.",
            Query(f"count({names.UP} == 0) or vector(0)", "down"),
            ROWS,
            [(None, GREEN), (1, RED)],
            decimals=0,
            no_value="0",
        ),
        figure(
            "Generator lateness, p99",
            "How late the load generator sends what its schedule asks for. Red: the latencies it reports are its own.",
            Query(f"{lateness_p99} and on () {sent} > 0", "p99"),
            SECONDS,
            [(None, GREEN), (0.5 * late, AMBER), (late, RED)],
            no_value="no load",
        ),
        figure(
            "Dropped arrivals",
            "Arrivals that found no free user: the cap on requests in flight was reached.",
            Query(f"{dropped} and on () {sent} > 0", "dropped"),
            "reqps",
            [(None, GREEN), (0.01, AMBER)],
            no_value="no load",
        ),
        figure(
            "Watchdog",
            "The alert that always fires. 0: Prometheus evaluates no rules, so nothing else would fire either.",
            Query(f"count({selector(names.ALERTS, alertname='Watchdog', alertstate='firing')}) or vector(0)", "fires"),
            ROWS,
            [(None, RED), (1, GREEN)],
            decimals=0,
            no_value="0",
        ),
        figure(
            "Rule failures",
            "Evaluations of rules that failed in the last hour.",
            Query(f"sum(increase({selector(names.RULE_EVALUATION_FAILURES, job='prometheus')}[1h]))", "failures"),
            ROWS,
            [(None, GREEN), (0.5, RED)],
            decimals=0,
            no_value="no data yet",
        ),
        figure(
            "Alerts not delivered",
            "Notifications that Alertmanager could not deliver in the last hour.",
            Query(f"sum(increase({selector(names.NOTIFICATIONS_FAILED, job='alertmanager')}[1h]))", "failed"),
            ROWS,
            [(None, GREEN), (0.5, RED)],
            decimals=0,
            no_value="no data yet",
        ),
        lines(
            "Targets",
            "1: Prometheus can scrape it.",
            [Query(f"min by (job) ({names.UP})", "{{job}}")],
            ROWS,
            maximum=1.1,
        ),
        lines(
            "Scrape duration",
            f"How long a target takes to answer a scrape; {SCRAPE_SECONDS} s is the scrape interval.",
            [Query(f"max by (job) ({names.SCRAPE_DURATION})", "{{job}}")],
            SECONDS,
        ),
        lines(
            "In flight",
            "Requests without a reply, as the client and as the service count them.",
            [
                Query(f"sum({selector(names.LOADGEN_IN_FLIGHT, job='loadgen')})", "client", VIOLET),
                Query(f"sum({names.REQUESTS_IN_FLIGHT})", "service", BLUE),
            ],
            ROWS,
        ),
        lines(
            "Oldest request in flight",
            "Age of the oldest request without a reply. It rises at once when the service freezes, while percentiles "
            "of finished requests still look well.",
            [Query(f"max({selector(names.LOADGEN_OLDEST_IN_FLIGHT, job='loadgen')})", "oldest", VIOLET, fill=True)],
            SECONDS,
        ),
        lines(
            "Load generator",
            "The rate that was asked for, what the schedule offers and what is actually sent.",
            [
                Query(f"max({selector(names.LOADGEN_TARGET_RATE, job='loadgen')})", "target", GREY, dashed=True),
                *(
                    Query(
                        total_rate(selector(names.LOADGEN_ARRIVALS, job="loadgen", state=state), WINDOW, by=""),
                        state,
                        color,
                    )
                    for state, color in zip(names.ARRIVAL_STATES, (BLUE, GREEN, RED), strict=True)
                ),
            ],
            "reqps",
        ),
        lines(
            "Generator lateness",
            "From the scheduled instant to the actual send.",
            [
                Query(lateness_p99, "p99", VIOLET),
                Query(quantile(0.5, lateness, WINDOW, by=""), "p50", BLUE),
                Query(f"vector({late:g})", "limit", RED, dashed=True),
            ],
            SECONDS,
            logarithmic=True,
        ),
        lines(
            "Alerts in the inbox",
            "Alerts that have arrived at the inbox, by name and status.",
            [
                Query(
                    f"sum by (alertname, status) ({selector(names.INBOX_ALERTS, job='inbox')})",
                    "{{alertname}} {{status}}",
                )
            ],
            ROWS,
        ),
        lines(
            "Notifications",
            "What Alertmanager sends, and what of it fails.",
            [
                Query(total_rate(selector(names.NOTIFICATIONS, job="alertmanager"), WINDOW, by=""), "sent", GREEN),
                Query(
                    total_rate(selector(names.NOTIFICATIONS_FAILED, job="alertmanager"), WINDOW, by=""), "failed", RED
                ),
            ],
            "ops",
        ),
        lines(
            "CPU",
            "Cores in use by the process of each target that says so; model workers are processes of their own.",
            [Query(f"sum by (job) (rate({names.PROCESS_CPU}[{WINDOW}]))", "{{job}}")],
            "short",
            axis_label="cores",
        ),
        lines(
            "Memory",
            "Resident memory of the process of each target that says so; model workers are not among them.",
            [Query(f"sum by (job) ({names.PROCESS_MEMORY})", "{{job}}")],
            "bytes",
        ),
        lines(
            "Rule evaluation",
            "How long the slowest rule group took; it must stay far below its interval.",
            [Query(f"max by (group) ({group})", "{{group}}")],
            SECONDS,
        ),
        listing(
            "What runs",
            "Version of the service and its model, one line per replica.",
            Query(f"max by (instance, version, model, runtime) ({names.BUILD_INFO})", "replica"),
            {"instance": "Replica", "version": "Version", "model": "Model", "runtime": "Runtime"},
            no_value="No service runs",
        ),
    ]
    return framed(UID, "Stack health", "Targets, load generator and the path of an alert.", panels)
