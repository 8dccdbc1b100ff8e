"""PromQL is put together as it is meant: operators, routes, no NaN."""

import re
from pathlib import Path

import pytest

from slo import names
from slo.config import load
from slo.expressions import ROUTES_REGEX, good_requests, job_requests, mean, quantile, ratio, selector, total_rate


def test_selectors_and_their_operators() -> None:
    assert selector("up") == "up"
    assert (
        selector("up", job="a", le="=~b|c", route="!=d", state="!~e") == 'up{job="a",le=~"b|c",route!="d",state!~"e"}'
    )


@pytest.mark.parametrize(
    ("route", "counts"),
    [
        (names.ROUTE_PREDICT, True),
        (names.ROUTE_V2_INFER, True),
        ("/v2/models/<name>/infer", True),
        ("/v2/models/<name>/ready", False),
        ("/v2/models/a/b/infer", False),
        ("/predict/", False),
        ("/healthz", False),
        (names.ROUTE_OTHER, False),
    ],
)
def test_only_inference_routes_count(route: str, counts: bool) -> None:
    """Prometheus anchors regular expressions at both ends."""
    assert bool(re.fullmatch(ROUTES_REGEX, route)) is counts


def test_good_is_ok_within_the_edge_and_what_counts_is_all_but_client_errors(root: Path) -> None:
    service = load(root / "slo.yaml").services[0]
    assert good_requests(service).endswith(',outcome="ok",le="0.05"}')
    assert job_requests(service, "_count").endswith(',outcome!="client_error"}')


def test_nothing_divides_by_zero() -> None:
    assert ratio("a", "b") == "a / (b > 0)"
    assert mean("m", "1m", by="").endswith(" / (sum(rate(m_count[1m])) > 0)")


def test_a_quantile_keeps_le() -> None:
    assert quantile(0.99, "h_bucket", "30s") == "histogram_quantile(0.99, sum by (job, le) (rate(h_bucket[30s])))"
    assert quantile(0.5, "h_bucket", "30s", by="") == "histogram_quantile(0.5, sum by (le) (rate(h_bucket[30s])))"
    assert total_rate("c", "30s", by="job, instance") == "sum by (job, instance) (rate(c[30s]))"
