"""Input for promtool: counters and gauges as phases, and what is expected of an alert at an instant."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slo import names
from slo.buckets import duration_edges, edge_text
from slo.config import Service, SloFile
from slo.durations import duration_text
from slo.expressions import selector

INSTANCE = "replica-1"


@dataclass(frozen=True, slots=True)
class Phase:
    """Requests per scrape over `scrapes` scrapes, by what became of them.

    `slow` ones are answered 2xx, but land in the bucket after the threshold's. Failed, shed and refused ones are
    quick: a rule that looks at the speed alone takes them for good.
    """

    scrapes: int
    good: int = 0
    slow: int = 0
    failed: int = 0
    shed: int = 0
    client_error: int = 0
    beyond: int = 0  # answered 2xx, but later than the last edge

    def within(self, outcome: str) -> int:
        """Requests of that outcome in the threshold's bucket."""
        return {"ok": self.good, "client_error": self.client_error, "shed": self.shed, "failed": self.failed}[outcome]

    def total(self, outcome: str) -> int:
        """All of that outcome."""
        return self.within(outcome) + (self.slow + self.beyond if outcome == "ok" else 0)


def counter(name: str, labels: Mapping[str, str], increments: Sequence[tuple[int, int]]) -> dict[str, str]:
    """A counter that starts at 0 and grows by (increment) at each of (scrapes) scrapes."""
    value, segments = 0, []
    for index, (increment, scrapes) in enumerate(increments):
        if index == 0:
            segments.append(f"0+{increment}x{scrapes}")
        else:
            segments.append(f"{value + increment}+{increment}x{scrapes - 1}")
        value += increment * scrapes
    return {"series": selector(name, **labels), "values": " ".join(segments)}


def gauge(name: str, labels: Mapping[str, str], *values: tuple[float | str, int]) -> dict[str, str]:
    """A gauge that holds each (value) for (scrapes) scrapes; "_" is a gap, "stale" a target that has gone."""
    segments = [str(value) if scrapes == 1 else f"{value:g}x{scrapes - 1}" for value, scrapes in values if scrapes]
    return {"series": selector(name, **labels), "values": " ".join(segments)}


def up(job: str, scrapes: int) -> dict[str, str]:
    return gauge(names.UP, {"job": job, "instance": INSTANCE}, (1, scrapes + 1))


def requests(
    service: Service,
    slo: SloFile,
    phases: Sequence[Phase],
    *,
    route: str = names.ROUTE_PREDICT,
    without_edge: bool = False,
    only: Sequence[str] = names.OUTCOMES,
    job: str | None = None,
) -> list[dict[str, str]]:
    """The request histogram of a service: every outcome with its buckets around the threshold, +Inf and the count."""
    threshold, after = edges_at(service, slo)
    series = []
    for outcome in only:
        labels = {
            "job": job or service.job,
            "instance": INSTANCE,
            "model": "digits",
            "route": route,
            "outcome": outcome,
        }
        inside = [(phase.within(outcome), phase.scrapes) for phase in phases]
        everything = [(phase.total(outcome), phase.scrapes) for phase in phases]
        if not without_edge:
            series.append(counter(f"{names.REQUEST_DURATION}_bucket", labels | {"le": edge_text(threshold)}, inside))
        late = [(phase.beyond if outcome == "ok" else 0) for phase in phases]
        finite = [(count - beyond, scrapes) for (count, scrapes), beyond in zip(everything, late, strict=True)]
        edges = {after, duration_edges()[-1]} if any(late) else {after}
        for edge in sorted(edges - {threshold, math.inf}):
            series.append(counter(f"{names.REQUEST_DURATION}_bucket", labels | {"le": edge_text(edge)}, finite))
        series.append(counter(f"{names.REQUEST_DURATION}_bucket", labels | {"le": "+Inf"}, everything))
        series.append(counter(f"{names.REQUEST_DURATION}_count", labels, everything))
    return series


def edges_at(service: Service, slo: SloFile) -> tuple[float, float]:
    """The bucket edge at the threshold, and the one after it: infinity where the threshold is the last one."""
    edges = slo.duration_edges
    at = edges.index(service.threshold_seconds)
    return edges[at], edges[at + 1] if at + 1 < len(edges) else math.inf


def is_firing(alert: str, at_seconds: int, count: int, **labels: str) -> dict[str, Any]:
    """`count` alerts of that name fire at that instant (0: none, which is not the same as pending)."""
    alerts = selector(names.ALERTS, alertname=alert, alertstate="firing", **labels)
    samples = [{"labels": "{}", "value": count}] if count else []
    return {"expr": f"count({alerts})", "eval_time": duration_text(at_seconds), "exp_samples": samples}


def has_no_value(expr: str, at_seconds: int) -> dict[str, Any]:
    return {"expr": expr, "eval_time": duration_text(at_seconds), "exp_samples": []}


def case(
    name: str,
    step_seconds: int,
    series: Sequence[dict[str, str]],
    expected: Sequence[dict[str, Any]],
    texts: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """One promtool test. `texts` are whole alerts with their rendered annotations."""
    test: dict[str, Any] = {"name": name, "interval": duration_text(step_seconds), "input_series": list(series)}
    if texts:
        test["alert_rule_test"] = list(texts)
    test["promql_expr_test"] = list(expected)
    return test
