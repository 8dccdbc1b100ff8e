"""promtool tests of the alerts around the services: other targets, client against server, the generator, Watchdog."""

from typing import Any, Final

from slo import names
from slo.alerts import CLIENT_MIN_REQUESTS, LATENESS_SHARE_OF_THRESHOLD, STEADY_FOR_SECONDS, stack_alerts
from slo.buckets import edge_text
from slo.config import SCRAPE_SECONDS, SloFile
from slo.durations import duration_text
from slo.recording import RECENT_SECONDS, STEADY_SECONDS
from slo.rule_tests.series import INSTANCE, Phase, case, counter, edges_at, gauge, is_firing, requests
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
        )
    ]


def _gap(slo: SloFile) -> list[dict[str, Any]]:
    service = slo.services[0]
    alert = _named(slo, "ClientServerGap")
    at_threshold = service.threshold_seconds
    near, far = at_threshold, 20 * at_threshold
    _, next_edge = edges_at(service, slo)
    server = requests(service, slo, [Phase(_LONG, good=_BUSY)])
    # All in one bucket: 99 hundredths of the way through it. The server's first bucket here starts at 0.
    gap = near + 0.99 * (far - near) - 0.99 * near

    def client(per_scrape: int, slow: int, far: float = far) -> list[dict[str, str]]:
        labels = {**_LOADGEN, "name": names.ROUTE_PREDICT, "outcome": "ok"}
        counts = {edge_text(near): per_scrape - slow, edge_text(far): per_scrape, "+Inf": per_scrape}
        buckets = [
            counter(f"{names.LOADGEN_REQUEST_DURATION}_bucket", labels | {"le": edge}, [(count, _LONG)])
            for edge, count in counts.items()
        ]
        return [*buckets, counter(f"{names.LOADGEN_REQUEST_DURATION}_count", labels, [(per_scrape, _LONG)])]

    few = CLIENT_MIN_REQUESTS // 2 // _RECENT
    return [
        case(
            "clients wait far longer than the service measures",
            SCRAPE_SECONDS,
            [*server, *client(_BUSY, _BUSY)],
            [is_firing(alert.name, (_FOR - 1) * SCRAPE_SECONDS, 0), is_firing(alert.name, _AT, 1)],
            [says(alert, _AT, humanized(gap), {"job": "loadgen"})],
        ),
        case(
            "client and server agree",
            SCRAPE_SECONDS,
            [*server, *client(_BUSY, 0)],
            [is_firing(alert.name, _AT, 0)],
        ),
        case(
            "the service is as slow as its clients see it",
            SCRAPE_SECONDS,
            [*requests(service, slo, [Phase(_LONG, slow=_BUSY)]), *client(_BUSY, _BUSY, next_edge)],
            [is_firing(alert.name, _AT, 0)],
        ),
        case(
            "a handful of slow requests", SCRAPE_SECONDS, [*server, *client(few, few)], [is_firing(alert.name, _AT, 0)]
        ),
        case("no load at all", SCRAPE_SECONDS, [*server, *client(0, 0)], [is_firing(alert.name, _AT, 0)]),
    ]


def _invalid(slo: SloFile) -> list[dict[str, Any]]:
    alert = _named(slo, "LoadGeneratorInvalid")
    allowed = LATENESS_SHARE_OF_THRESHOLD * min(service.threshold_seconds for service in slo.services)

    def lateness(low: float, high: float, per_scrape: int) -> list[dict[str, str]]:
        counts = {low: 0, high: per_scrape}
        name = f"{names.LOADGEN_DISPATCH_LATENESS}_bucket"
        series = [counter(name, _LOADGEN | {"le": f"{le!r}"}, [(count, _LONG)]) for le, count in counts.items()]
        return [*series, counter(name, _LOADGEN | {"le": "+Inf"}, [(per_scrape, _LONG)])]

    return [
        case(
            "requests are sent late",
            SCRAPE_SECONDS,
            lateness(allowed, 3 * allowed, _BUSY),
            [is_firing(alert.name, (_FOR - 1) * SCRAPE_SECONDS, 0), is_firing(alert.name, _AT, 1)],
            [says(alert, _AT, humanized(allowed + 0.99 * 2 * allowed), {"job": "loadgen"})],
        ),
        case(
            "requests are sent in time",
            SCRAPE_SECONDS,
            lateness(0.1 * allowed, 0.5 * allowed, _BUSY),
            [is_firing(alert.name, _AT, 0)],
        ),
        case("no load: no NaN", SCRAPE_SECONDS, lateness(allowed, 3 * allowed, 0), [is_firing(alert.name, _AT, 0)]),
    ]


def _watchdog(slo: SloFile) -> dict[str, Any]:
    alert = _named(slo, "Watchdog")
    return case("always", SCRAPE_SECONDS, [], [is_firing(alert.name, 0, 1)], [says(alert, 0, "1", {})])


def _named(slo: SloFile, name: str) -> Any:
    return next(alert for alert in stack_alerts(slo.services) if alert.name == name)
