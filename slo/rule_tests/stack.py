"""promtool tests of the alerts around the services: other targets, client against server, the generator, Watchdog."""

from typing import Any, Final

from slo import names
from slo.alerts import CLIENT_MIN_REQUESTS, LATENESS_SHARE_OF_THRESHOLD, STEADY_FOR_SECONDS, stack_alerts
from slo.buckets import edge_text
from slo.config import SCRAPE_SECONDS, SloFile
from slo.durations import duration_text
from slo.recording import LOADGEN_P99, LOADGEN_RATE, RECENT_SECONDS, STEADY_SECONDS
from slo.rule_tests.series import INSTANCE, Phase, case, counter, gauge, has_no_value, is_firing, requests
from slo.rule_tests.texts import humanized, says

_BUSY: Final = 1_000
_FOR: Final = STEADY_FOR_SECONDS // SCRAPE_SECONDS
_RECENT: Final = RECENT_SECONDS // SCRAPE_SECONDS
_LONG: Final = 2 * STEADY_SECONDS // SCRAPE_SECONDS
_AT: Final = _LONG * SCRAPE_SECONDS
_LOADGEN: Final = {"job": "loadgen", "instance": INSTANCE}


def stack_tests(slo: SloFile) -> dict[str, Any]:
    """A promtool test file, without its rule_files."""
    return {
        "evaluation_interval": duration_text(SCRAPE_SECONDS),
        "tests": [*_down(slo), *_gap(slo), *_invalid(slo), _watchdog(slo)],
    }


def _down(slo: SloFile) -> list[dict[str, Any]]:
    alert = next(alert for alert in stack_alerts(slo.services) if alert.name == "TargetDown")
    down = gauge(names.UP, _LOADGEN, (1, _RECENT), (0, _LONG))
    return [
        case(
            "the load generator is down: a ticket, not a page",
            SCRAPE_SECONDS,
            [down],
            [
                is_firing(alert.name, (_RECENT + _FOR - 1) * SCRAPE_SECONDS, 0, job="loadgen"),
                is_firing(alert.name, (_RECENT + _FOR + 1) * SCRAPE_SECONDS, 1, job="loadgen", severity="ticket"),
                is_firing(alert.name, _AT, 0, severity="page"),
            ],
            [says(alert, _AT, "0", _LOADGEN)],
        ),
        case(
            "a service that is down is not told twice",
            SCRAPE_SECONDS,
            [
                gauge(names.UP, {"job": service.job, "instance": INSTANCE}, (1, _RECENT), (0, _LONG))
                for service in slo.services
            ],
            [is_firing(alert.name, _AT, 0, severity="ticket")],
        ),
    ]


def _gap(slo: SloFile) -> list[dict[str, Any]]:
    alert = _named(slo, "ClientServerGap")
    # The gap must be more than the smallest threshold of all services.
    near = min(service.threshold_seconds for service in slo.services)
    service = next(service for service in slo.services if service.threshold_seconds == near)
    server = requests(service, slo, [Phase(_LONG, good=_BUSY)])
    # All in one bucket: 99 hundredths of the way through it. The server's first bucket here starts at 0. The client's
    # p99 is between 2 and 4 times the server's, and the gap between 1 and 2 thresholds.
    far = 2.5 * near
    gap = near + 0.99 * (far - near) - 0.99 * near

    def client(
        per_scrape: int, *, edges: tuple[float, float] = (near, far), job: str = "loadgen"
    ) -> list[dict[str, str]]:
        """All its requests between the two edges."""
        labels = {"job": job, "instance": INSTANCE, "name": names.ROUTE_PREDICT, "outcome": "ok"}
        name = names.LOADGEN_REQUEST_DURATION
        return [*_within(name, labels, edges, per_scrape), counter(f"{name}_count", labels, [(per_scrape, _LONG)])]

    def served(edges: tuple[float, float]) -> list[dict[str, str]]:
        labels = {"job": service.job, "instance": INSTANCE, "model": "digits", "route": names.ROUTE_PREDICT}
        labels["outcome"] = "ok"
        name = names.REQUEST_DURATION
        return [*_within(name, labels, edges, _BUSY), counter(f"{name}_count", labels, [(_BUSY, _LONG)])]

    def quiet(name: str, series: list[dict[str, str]]) -> dict[str, Any]:
        return case(name, SCRAPE_SECONDS, series, [is_firing(alert.name, _AT, 0)])

    few, enough = CLIENT_MIN_REQUESTS // 2 // _RECENT, -int(-1.5 * CLIENT_MIN_REQUESTS // _RECENT)
    return [
        case(
            "clients wait far longer than the service measures",
            SCRAPE_SECONDS,
            [*server, *client(enough)],
            # After four scrapes it has seen enough requests, and fires three later.
            [is_firing(alert.name, 5 * SCRAPE_SECONDS, 0), is_firing(alert.name, _AT, 1)],
            [says(alert, _AT, humanized(gap), {"job": "loadgen"})],
        ),
        quiet("client and server agree", [*server, *client(_BUSY, edges=(0.0, near))]),
        quiet(
            "a fast service: many times as long for its clients, and nobody would notice",
            [*served((0.0, 0.02 * near)), *client(_BUSY, edges=(0.0, 0.5 * near))],
        ),
        quiet(
            "the service is nearly as slow as its clients see it",
            [*served((5 * near, 6 * near)), *client(_BUSY, edges=(8 * near, 9 * near))],
        ),
        quiet("M2: a handful of slow requests", [*server, *client(few)]),
        case(
            "M1: no load at all: no alert, no NaN",
            SCRAPE_SECONDS,
            [*server, *client(0)],
            [is_firing(alert.name, _AT, 0), has_no_value(LOADGEN_P99, _AT)],
        ),
        case(
            "another job that calls itself a load generator is not ours",
            SCRAPE_SECONDS,
            [*server, *client(_BUSY, job="another")],
            [
                is_firing(alert.name, _AT, 0),
                has_no_value(LOADGEN_RATE, _AT),
            ],
        ),
        # As its own Prometheus would record it, under the same name.
        case(
            "another job's buckets are not ours, whatever is recorded about it",
            SCRAPE_SECONDS,
            [*server, *client(_BUSY, job="another"), gauge(LOADGEN_RATE, {"job": "another"}, (_BUSY, _LONG))],
            [has_no_value(LOADGEN_P99, _AT)],
        ),
    ]


def _within(metric: str, labels: dict[str, str], edges: tuple[float, float], per_scrape: int) -> list[dict[str, str]]:
    """Buckets of a histogram of which everything is between two edges; a first edge of 0 has no bucket."""
    counts = {edge_text(edges[0]): 0, edge_text(edges[1]): per_scrape, "+Inf": per_scrape}
    return [
        counter(f"{metric}_bucket", labels | {"le": edge}, [(count, _LONG)])
        for edge, count in counts.items()
        if edge != edge_text(0)
    ]


def _invalid(slo: SloFile) -> list[dict[str, Any]]:
    alert = _named(slo, "LoadGeneratorInvalid")
    allowed = LATENESS_SHARE_OF_THRESHOLD * min(service.threshold_seconds for service in slo.services)

    def lateness(low: float, high: float, per_scrape: int, job: str = "loadgen") -> list[dict[str, str]]:
        labels = {"job": job, "instance": INSTANCE}
        return _within(names.LOADGEN_DISPATCH_LATENESS, labels, (low, high), per_scrape)

    return [
        case(
            "requests are sent late",
            SCRAPE_SECONDS,
            [*lateness(allowed, 1.5 * allowed, _BUSY), *lateness(allowed, 3 * allowed, _BUSY, job="another")],
            [is_firing(alert.name, (_FOR - 1) * SCRAPE_SECONDS, 0), is_firing(alert.name, _AT, 1)],
            [says(alert, _AT, humanized(allowed + 0.99 * 0.5 * allowed), {"job": "loadgen"})],
        ),
        case(
            "requests are sent in time",
            SCRAPE_SECONDS,
            lateness(0.1 * allowed, 0.5 * allowed, _BUSY),
            [is_firing(alert.name, _AT, 0)],
        ),
        case("M1: no load: no NaN", SCRAPE_SECONDS, lateness(allowed, 3 * allowed, 0), [is_firing(alert.name, _AT, 0)]),
    ]


def _watchdog(slo: SloFile) -> dict[str, Any]:
    alert = _named(slo, "Watchdog")
    return case("always", SCRAPE_SECONDS, [], [is_firing(alert.name, 0, 1)], [says(alert, 0, "1", {})])


def _named(slo: SloFile, name: str) -> Any:
    return next(alert for alert in stack_alerts(slo.services) if alert.name == name)
