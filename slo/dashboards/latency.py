"""The main dashboard: latency percentiles and throughput side by side, and one against the other."""

from typing import Any, Final

from slo import names
from slo.buckets import duration_edges
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
    SECONDS,
    VIOLET,
    WINDOW,
    Query,
    against,
    beyond,
    density,
    figure,
    lines,
)
from slo.expressions import good_requests, job_requests, quantile, ratio, selector, total_rate
from slo.recording import budget_remaining_name
from slo.text import percent, seconds

_NEAR: Final = 0.8  # share of a limit from which a figure turns amber


def latency_dashboard(service: Service, uid: str) -> dict[str, Any]:
    """The first dashboard, for one service of slo.yaml."""
    threshold = seconds(service.threshold_seconds)
    buckets = job_requests(service, "_bucket")
    counted = total_rate(job_requests(service, "_count"), WINDOW, by="")
    answered = total_rate(job_requests(service, "_count", outcome="ok"), WINDOW, by="")
    good = total_rate(good_requests(service), WINDOW, by="")
    bad_share = f"clamp_min(1 - {ratio(good, counted)}, 0)"
    mean = ratio(total_rate(job_requests(service, "_sum"), WINDOW, by=""), counted)
    slo_line = Query(f"vector({service.threshold_seconds:g})", f"SLO {threshold}", RED, dashed=True)

    # Beyond the last bucket edge a quantile stays at that edge, whatever the truth: a line of its own says so.
    last = duration_edges()[-1]
    known, unknown = f"< {last:g}", f">= {last:g}"

    def server(q: float, where: str = "") -> str:
        return f"{quantile(q, buckets, WINDOW, by='')} {where} and on () {counted} > 0".replace("  ", " ")

    def loadgen(metric: str, where: str) -> str:
        series = f"{metric}_bucket", f"{metric}_count"
        bucket, count = (selector(name, job="loadgen") for name in series)
        return f"{quantile(0.99, bucket, WINDOW, by='')} {where} and on () {total_rate(count, WINDOW, by='')} > 0"

    def arrivals(state: str) -> str:
        return total_rate(selector(names.LOADGEN_ARRIVALS, job="loadgen", state=state), WINDOW, by="")

    def outcome(value: str) -> str:
        return total_rate(job_requests(service, "_count", outcome=value), WINDOW, by="")

    def percentile_figure(q: float) -> Any:
        name = f"p{q * 100:g}"
        return figure(
            name,
            f"{percent(q)} of the requests that count were answered within this, as the service measures it. "
            f"Red from the SLO threshold of {threshold} on. Shed requests count, and are refused at once: while many "
            "are shed this falls, and only the share that is not good tells the truth.",
            Query(server(q), name),
            SECONDS,
            [(None, GREEN), (_NEAR * service.threshold_seconds, AMBER), (service.threshold_seconds, RED)],
            mappings=[beyond(last)],
        )

    panels = [
        percentile_figure(0.5),
        percentile_figure(0.95),
        percentile_figure(0.99),
        figure(
            "Throughput",
            "Requests per second that were answered 2xx.",
            Query(f"{answered} > 0", "served"),
            PER_SECOND,
            [(None, BLUE)],
        ),
        figure(
            "Not good",
            f"Share of requests that failed, were shed or took longer than {threshold}. The objective of "
            f"{percent(service.objective)} allows {percent(service.budget)}.",
            Query(bad_share, "not good"),
            RATIO,
            [(None, GREEN), (_NEAR * service.budget, AMBER), (service.budget, RED)],
            decimals=2,
        ),
        figure(
            f"Error budget left, {service.window_days} d",
            f"Share of the {service.window_days}-day error budget that is left, over the requests that Prometheus has "
            "seen: a young stack has seen few, so one bad minute may overspend it many times. Below 0 the objective "
            "is missed. Updated every 30 s.",
            Query(selector(budget_remaining_name(service), job=service.job), "left"),
            RATIO,
            [(None, RED), (0, AMBER), (0.25, GREEN)],
            decimals=0,
            no_value="no data yet",
        ),
        lines(
            "Latency",
            "Percentiles of the requests that count, as the service measures them, with the SLO threshold. The mean "
            "is there to be distrusted: it stays low while one request in a hundred waits far too long.",
            [
                Query(server(0.99, known), "p99", VIOLET),
                Query(server(0.95, known), "p95", BLUE),
                Query(mean, "mean", GREY, dashed=True),
                slo_line,
                Query(server(0.99, unknown), f"p99 is beyond {seconds(last)}", RED),
            ],
            SECONDS,
            logarithmic=True,
        ),
        lines(
            "Throughput",
            "What the schedule of Locust's page offers against what the service answers 2xx, sheds (429, 503) and "
            "fails. Dropped arrivals found no free user: the cap on requests in flight was reached. A load of "
            "`loadtest run` is only seen as what the service does with it. Of a service that was started with the "
            "tuner's tuned.env, the rate that it confirmed, times the replicas, is a line.",
            [
                Query(arrivals("offered"), "offered", GREY, dashed=True),
                Query(outcome("ok"), "served", GREEN, fill=True),
                Query(outcome("shed"), "shed", AMBER),
                Query(outcome("failed"), "failed", RED),
                Query(arrivals("dropped"), "dropped by the client", VIOLET),
                Query(
                    f"sum({selector(names.TUNED_RATE, job=service.job)} > 0)",
                    "confirmed by the tuner",
                    BLUE,
                    dashed=True,
                ),
            ],
            PER_SECOND,
        ),
        against(
            "p99 against throughput",
            "One point per instant: how high p99 was at the throughput served then. Where the points turn upward is "
            "the knee; the highest throughput below the SLO line is what this configuration can carry.",
            Query(answered, "requests/s served"),
            [Query(server(0.99, known), "p99", VIOLET), slo_line],
            x_unit=PER_SECOND,
            y_unit=SECONDS,
            logarithmic=True,
        ),
        lines(
            "p99: client against server",
            "The client counts from the instant at which a request was scheduled, and from its actual send. Far above "
            "the server's own figure means that time passes before requests reach the service.",
            [
                Query(loadgen(names.LOADGEN_REQUEST_DURATION, known), "client, from schedule", VIOLET),
                Query(loadgen(names.LOADGEN_SERVICE_DURATION, known), "client, from send", AMBER),
                Query(server(0.99, known), "server", BLUE),
                slo_line,
                Query(loadgen(names.LOADGEN_REQUEST_DURATION, unknown), f"client is beyond {seconds(last)}", RED),
            ],
            SECONDS,
            logarithmic=True,
        ),
        density(
            "Latency distribution",
            "Where the requests that count fell, per bucket. Two bands are two kinds of request; a band that rises is "
            "a queue that grows.",
            f"sum by (le) (rate({buckets}[{WINDOW}]))",
            SECONDS,
            span=24,
        ),
    ]
    return framed(
        uid,
        "Latency vs throughput",
        f"How much traffic {service.job} takes while p99 stays inside its SLO "
        f"({percent(service.objective)} of requests good within {threshold}).",
        panels,
    )
