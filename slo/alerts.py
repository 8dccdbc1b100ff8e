"""Alert rules: the page on requests that are not good, and the alerts that say why, or that the pager itself is blind.

Page on the ratio and show the quantile. Every threshold says when one would change it; every alert has a heading in
docs/runbook.md.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

from slo import names
from slo.buckets import duration_edges, edge_text
from slo.config import BurnRate, Service
from slo.durations import duration_text
from slo.expressions import good_requests, job_requests, quantile, ratio, selector
from slo.recording import (
    LOADGEN_P99,
    LOADGEN_RATE,
    RECENT_SECONDS,
    SERVER_P99,
    STEADY_SECONDS,
    bad_ratio_name,
    outcome_ratio_name,
    requests_name,
)
from slo.text import percent, seconds

RUNBOOK: Final = "docs/runbook.md"

# Three evaluations: one lost scrape is no alarm. Raise it where scrapes are rarer than every 5 s.
STEADY_FOR_SECONDS: Final = 15
# Failures (5xx, deadlines) eat the budget like slowness does; this many mean that something is broken rather than
# slow. Lower it for a service whose callers cannot retry.
ERROR_RATIO: Final = 0.05
# Shedding is how overload is survived, not a fault; a share worth a look. Raise it where bursts are expected.
SHED_RATIO: Final = 0.01
# Above this a burst of ordinary size finds the queue full. Raise it for queues much larger than a burst.
QUEUE_RATIO: Final = 0.8
# The client may see this many times the server's p99 before the difference is worth a look.
CLIENT_SERVER_FACTOR: Final = 2
# Requests sent later than this share of the SLO threshold blur the very thing that is measured.
LATENESS_SHARE_OF_THRESHOLD: Final = 0.2
# A client-side p99 of fewer requests in 30 s is one odd request.
CLIENT_MIN_REQUESTS: Final = 100

_VALUE_PERCENT: Final = "{{ $value | humanizePercentage }}"
_VALUE_DURATION: Final = "{{ $value | humanizeDuration }}"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert rule."""

    name: str
    expr: str
    severity: str  # page | ticket | none
    summary: str
    description: str
    for_seconds: int = STEADY_FOR_SECONDS
    keep_firing_for_seconds: int = 0
    labels: tuple[tuple[str, str], ...] = ()  # beside severity
    when: str = ""  # what it takes, for `python -m slo explain`; no templates

    def rule(self) -> dict[str, Any]:
        """As Prometheus reads it."""
        rule: dict[str, Any] = {"alert": self.name, "expr": self.expr}
        if self.for_seconds:
            rule["for"] = duration_text(self.for_seconds)
        if self.keep_firing_for_seconds:
            rule["keep_firing_for"] = duration_text(self.keep_firing_for_seconds)
        rule["labels"] = {"severity": self.severity, **dict(self.labels)}
        rule["annotations"] = {
            "summary": self.summary,
            "description": self.description,
            "runbook_url": f"{RUNBOOK}#{self.name.lower()}",
        }
        return rule


def slo_alerts(service: Service) -> list[Alert]:
    """The pages and tickets on the SLO itself, one per burn rate of the service's profile."""
    return [_breach(service, burn) for burn in service.profile.burn_rates]


def service_alerts(service: Service) -> list[Alert]:
    """What else can be wrong with one service, most of all that nobody measures it."""
    job = service.job
    steady = duration_text(STEADY_SECONDS)
    recent = duration_text(RECENT_SECONDS)
    keep = service.profile.keep_firing_for_seconds
    threshold = edge_text(service.threshold_seconds)

    def too_many(outcome: str, limit: float) -> str:
        # As with the SLO: the longer window says that it matters, the shorter one that it still goes on.
        return (
            f"{selector(outcome_ratio_name(outcome, RECENT_SECONDS), job=job)} > {limit:g}\n"
            f"and on (job) {outcome_ratio_name(outcome, STEADY_SECONDS)} > {limit:g}\n"
            f"and on (job) {_enough_requests(service, STEADY_SECONDS, limit)}"
        )

    def per_instance(metric: str, function: str, **matchers: str) -> str:
        return f"sum by (job, instance) ({function}({selector(metric, job=job, **matchers)}[{recent}]))"

    depth = per_instance(names.QUEUE_DEPTH_ROWS, "avg_over_time")
    capacity = f"sum by (job, instance) ({names.QUEUE_CAPACITY_ROWS})"
    waiting = per_instance(names.QUEUE_DEPTH_ROWS, "min_over_time")
    expired = per_instance(names.REJECTED, "increase", reason="deadline")
    batches = f"sum by (job, instance) (increase({names.BATCH_ROWS}_count[{recent}]))"
    return [
        Alert(
            "SLOBucketMissing",
            f"count by (job, instance) ({job_requests(service, '_count')})\n"
            f"unless on (job, instance) count by (job, instance) ({good_requests(service)})",
            severity="page",
            when=f"a replica exports requests, but no bucket at {seconds(service.threshold_seconds)}: blind",
            summary=f"{{{{ $labels.instance }}}} has no bucket at le={threshold}: the SLO alert is blind",
            description="{{ $labels.instance }} exports {{ $value }} request series, but none of outcome ok with "
            f"le={threshold}, the SLO threshold, so that good requests cannot be counted.",
        ),
        Alert(
            "InferenceTargetAbsent",
            f"absent({selector('up', job=job)})",
            severity="page",
            when="Prometheus knows no target of this job",
            summary=f"Prometheus knows no target of job {job}",
            description=f"No target of job {job} is configured or discovered, so nothing about it can alert.",
            labels=(("job", job),),
        ),
        Alert(
            "TargetDown",
            f"{selector('up', job=job)} == 0",
            severity="page",
            when="a replica cannot be scraped",
            summary="{{ $labels.instance }} of job {{ $labels.job }} cannot be scraped",
            description="Prometheus has failed to scrape {{ $labels.instance }} (job {{ $labels.job }}) "
            f"for {duration_text(STEADY_FOR_SECONDS)}.",
        ),
        Alert(
            "ErrorRatioHigh",
            too_many("failed", ERROR_RATIO),
            severity="page",
            when=f"over {percent(ERROR_RATIO)} of requests fail in {recent} and {steady}",
            summary=f"{{{{ $labels.job }}}}: {_VALUE_PERCENT} of requests fail",
            description=f"{_VALUE_PERCENT} of the requests of the last {recent} failed: the model raised, its worker "
            f"died, or the deadline passed. In {recent} and {steady} that is over {percent(ERROR_RATIO)}.",
            keep_firing_for_seconds=keep,
        ),
        Alert(
            "LoadShed",
            too_many("shed", SHED_RATIO),
            severity="ticket",
            when=f"over {percent(SHED_RATIO)} of requests are shed in {recent} and {steady}",
            summary=f"{{{{ $labels.job }}}} sheds {_VALUE_PERCENT} of requests",
            description=f"{_VALUE_PERCENT} of the requests of the last {recent} were refused "
            "(queue full, unlikely to make their deadline, or draining): more is offered than it can serve.",
            keep_firing_for_seconds=keep,
        ),
        Alert(
            "QueueSaturated",
            f"{ratio(depth, capacity)} > {QUEUE_RATIO:g}",
            severity="ticket",
            when=f"the queue is over {percent(QUEUE_RATIO)} full, on average over {recent}",
            summary=f"{{{{ $labels.instance }}}}: the queue is {_VALUE_PERCENT} full",
            description=f"Over the last {recent} the queue of {{{{ $labels.instance }}}} held on average "
            f"{_VALUE_PERCENT} of its capacity in rows; the next burst is answered with 429.",
            keep_firing_for_seconds=keep,
        ),
        Alert(
            "BatcherStalled",
            f"(\n  {waiting} > 0\n  or\n  {expired} > 0\n)\nand on (job, instance) {batches} == 0",
            severity="page",
            when=f"requests wait, or pass their deadline, and no batch has run for {recent}",
            summary="{{ $labels.instance }}: requests wait and no batch runs",
            description=f"{{{{ $labels.instance }}}} has had work for {recent} (rows waiting, or requests past their "
            "deadline: {{ $value }}) and has run no batch.",
        ),
    ]


def stack_alerts(services: tuple[Service, ...]) -> list[Alert]:
    """The load generator, the other targets, and the alert that proves the pager's own path."""
    slo_jobs = "|".join(service.job for service in services)
    threshold = min(service.threshold_seconds for service in services)
    recent = duration_text(RECENT_SECONDS)
    lateness = quantile(0.99, selector(f"{names.LOADGEN_DISPATCH_LATENESS}_bucket", job="loadgen"), recent)
    allowed = LATENESS_SHARE_OF_THRESHOLD * threshold
    server = f"scalar(max({SERVER_P99}))"
    return [
        Alert(
            "TargetDown",
            f"{selector('up', job=f'!~{slo_jobs}')} == 0",
            severity="ticket",
            when="another target cannot be scraped",
            summary="{{ $labels.instance }} of job {{ $labels.job }} cannot be scraped",
            description="Prometheus has failed to scrape {{ $labels.instance }} (job {{ $labels.job }}) "
            f"for {duration_text(STEADY_FOR_SECONDS)}.",
        ),
        Alert(
            "ClientServerGap",
            f"{LOADGEN_P99} - {server} > {threshold:g}\n"
            f"and on (job) {LOADGEN_P99} > {CLIENT_SERVER_FACTOR} * {server}\n"
            f"and on (job) {LOADGEN_RATE} * {RECENT_SECONDS} >= {CLIENT_MIN_REQUESTS}",
            severity="ticket",
            when=f"p99 at the client is {CLIENT_SERVER_FACTOR} times the server's, and {seconds(threshold)} above it",
            summary=f"Clients wait {_VALUE_DURATION} longer at p99 than the service measures",
            description=f"Over the last {recent} the client's p99 was {_VALUE_DURATION} above the "
            f"server's and more than {CLIENT_SERVER_FACTOR} times as high: time passes before a request reaches the "
            "service, or after its reply has left.",
        ),
        Alert(
            "LoadGeneratorInvalid",
            f"{lateness} > {allowed:g}",
            severity="ticket",
            when=f"it sends more than {seconds(allowed)} late at p99",
            summary=f"The load generator is {_VALUE_DURATION} late at p99: its figures are not the service's",
            description=f"Over the last {recent} the 99th percentile of dispatch lateness was "
            f"{_VALUE_DURATION}; above {seconds(allowed)} "
            f"({percent(LATENESS_SHARE_OF_THRESHOLD)} of the SLO threshold) latencies are the generator's own.",
        ),
        Alert(
            "Watchdog",
            "vector(1)",
            severity="none",
            when="always; its silence is the alarm",
            summary="Alerting works",
            description="Always firing. Whoever expects it and does not hear it knows that alerts no longer arrive.",
            for_seconds=0,
            labels=(("job", "prometheus"),),
        ),
    ]


def _breach(service: Service, burn: BurnRate) -> Alert:
    limit = round(burn.factor * service.budget, 12)
    short, long = duration_text(burn.short_seconds), duration_text(burn.long_seconds)
    budget = f"the budget of {percent(service.budget)}"
    allowed = budget if burn.factor == 1 else f"{percent(limit)}, {burn.factor:g} times {budget}"
    job = {"job": service.job}
    p99 = selector(SERVER_P99, **job).replace('"', "'")
    # Prometheus gives the last edge for any quantile beyond it.
    beyond = f"{{{{ if ge . {duration_edges()[-1]:.1f} }}}}over {{{{ end }}}}"
    shown = f"{{{{ with . | first | value }}}}{beyond}{{{{ . | humanizeDuration }}}}{{{{ end }}}}"
    with_p99 = f'{{{{ with query "{p99}" }}}} (p99 {shown}){{{{ end }}}}'
    return Alert(
        "LatencySLOBreach",
        f"{selector(bad_ratio_name(burn.short_seconds), **job)} > {limit:g}\n"
        f"and on (job) {bad_ratio_name(burn.long_seconds)} > {limit:g}\n"
        f"and on (job) {_enough_requests(service, burn.long_seconds, limit)}",
        severity=burn.severity,
        summary=f"{{{{ $labels.job }}}}: {_VALUE_PERCENT} of requests are not good, over {allowed}",
        description=f"{_VALUE_PERCENT} of the requests of the last {short} failed, were shed or took longer than "
        f"{seconds(service.threshold_seconds)}{with_p99}. Both {short} and {long} are over {allowed}.",
        for_seconds=service.profile.for_seconds,
        keep_firing_for_seconds=service.profile.keep_firing_for_seconds,
        # Two burn rates of one severity would otherwise be one alert to Alertmanager, resolved by whichever ends first.
        labels=(("window", long),),
    )


def _enough_requests(service: Service, window_seconds: int, limit: float) -> str:
    """A percentile of a handful of requests says nothing: one slow request of fifty at night is no page."""
    return f"{requests_name(window_seconds)} * {window_seconds} >= {fewest_requests(service, limit)}"


def fewest_requests(service: Service, limit: float) -> int:
    """Requests in a window below which it says nothing: the profile's, and never so few that one is over the limit."""
    return max(service.profile.min_requests, math.ceil(round(1 / limit, 6)))
