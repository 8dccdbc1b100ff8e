"""Metrics by value: what one record, one batch and one scrape do to each."""

import math
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import generate_latest

from service import metrics, web
from service.batching.cost import CostModel
from service.batching.errors import ModelFailed
from service.batching.policy import Knobs
from service.batching.records import BatchRecord
from service.records import RequestRecord
from slo import names
from slo.buckets import duration_edges

EDGES = duration_edges(0.03)


class Shown:
    """Stands for the batcher and the handler at scrape time."""

    depth_rows = 17
    capacity_rows = 1024
    knobs = Knobs("fixed", 64, 0.01)
    cost: CostModel | None = None
    in_flight = 5


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def ledger() -> metrics.Ledger:
    return metrics.Ledger(web.ROUTES, EDGES, 1024)


@pytest.fixture
def registry(ledger: metrics.Ledger, shown: Any) -> CollectorRegistry:
    return metrics.registry(
        metrics.ServiceCollector(ledger, shown, shown, metrics.Facts("m", "synthetic", "0.1.0", 0.03, 0.99))
    )


def request_labels(outcome: str, route: str = "/predict", **more: str) -> dict[str, str]:
    return {"model": "m", "route": route, "outcome": outcome, **more}


def test_a_request_is_counted_once_in_its_bucket(ledger: metrics.Ledger, registry: CollectorRegistry) -> None:
    for seconds in (0.0012, 0.03, 0.0300001, 99.0):
        ledger.on_request(RequestRecord("/predict", "ok", 200, seconds))
    value = registry.get_sample_value
    name = names.REQUEST_DURATION
    assert value(f"{name}_count", request_labels("ok")) == 4
    assert value(f"{name}_sum", request_labels("ok")) == pytest.approx(99.0612001)
    at = {
        le: value(f"{name}_bucket", request_labels("ok", le=le)) for le in ("0.001", "0.00125", "0.03", "0.032", "10.0")
    }
    assert at == {"0.001": 0, "0.00125": 1, "0.03": 2, "0.032": 3, "10.0": 3}
    assert value(f"{name}_bucket", request_labels("ok", le="+Inf")) == 4
    assert value(f"{name}_count", request_labels("failed")) == 0


def test_rejections_are_counted_by_reason(ledger: metrics.Ledger, registry: CollectorRegistry) -> None:
    ledger.on_request(RequestRecord("/predict", "shed", 429, 0.001, "queue_full"))
    ledger.on_request(RequestRecord("/predict", "failed", 500, 0.001))
    assert registry.get_sample_value(names.REJECTED, {"reason": "queue_full"}) == 1
    assert registry.get_sample_value(names.REJECTED, {"reason": "deadline"}) == 0
    assert registry.get_sample_value(f"{names.REQUEST_DURATION}_count", request_labels("shed")) == 1
    assert registry.get_sample_value(f"{names.REQUEST_DURATION}_count", request_labels("failed")) == 1


def test_a_batch_is_counted_by_its_trigger(ledger: metrics.Ledger, registry: CollectorRegistry) -> None:
    ledger.on_batch(BatchRecord(("predict",), "wait", 3, (0.004, 0.002), 0.0015))
    value = registry.get_sample_value
    labels = {"model": "m", "trigger": "wait"}
    assert value(f"{names.BATCH_ROWS}_sum", labels) == 3
    assert value(f"{names.BATCH_ROWS}_bucket", {**labels, "le": "2.0"}) == 0
    assert value(f"{names.BATCH_ROWS}_bucket", {**labels, "le": "4.0"}) == 1
    assert value(f"{names.BATCH_ROWS}_count", {"model": "m", "trigger": "full"}) == 0
    assert value(f"{names.QUEUE_WAIT}_count", {"model": "m"}) == 2
    assert value(f"{names.QUEUE_WAIT}_sum", {"model": "m"}) == pytest.approx(0.006)
    assert value(f"{names.MODEL_DURATION}_count", {"model": "m"}) == 1
    assert value(f"{names.MODEL_DURATION}_bucket", {"model": "m", "le": "0.0016"}) == 1


def test_a_batch_that_failed_says_nothing_about_the_models_speed(
    ledger: metrics.Ledger, registry: CollectorRegistry
) -> None:
    ledger.on_batch(BatchRecord(("predict",), "full", 8, (0.001,) * 8, 0.0, ModelFailed("no")))
    assert registry.get_sample_value(f"{names.MODEL_DURATION}_count", {"model": "m"}) == 0
    assert registry.get_sample_value(f"{names.BATCH_ROWS}_count", {"model": "m", "trigger": "full"}) == 1


def test_gauges_are_read_at_scrape_time(registry: CollectorRegistry, shown: Any) -> None:
    value = registry.get_sample_value
    assert value(names.QUEUE_DEPTH_ROWS) == 17
    assert value(names.QUEUE_CAPACITY_ROWS) == 1024
    assert value(names.REQUESTS_IN_FLIGHT) == 5
    assert value(names.MAX_BATCH_ROWS) == 64
    assert value(names.MAX_WAIT_SECONDS) == 0.01
    shown.knobs = Knobs("adaptive", 8, 0.001)
    assert value(names.MAX_BATCH_ROWS) == 8


def test_the_learned_cost_is_nan_until_learned(registry: CollectorRegistry, shown: Any) -> None:
    assert math.isnan(registry.get_sample_value(names.COST_FIXED_SECONDS) or 0.0)
    shown.cost = CostModel(0.004, 0.0001)
    assert registry.get_sample_value(names.COST_FIXED_SECONDS) == 0.004
    assert registry.get_sample_value(names.COST_PER_ROW_SECONDS) == 0.0001


def test_constants(registry: CollectorRegistry) -> None:
    text = generate_latest(registry).decode()
    assert registry.get_sample_value(names.SLO_THRESHOLD_SECONDS) == 0.03
    assert registry.get_sample_value(names.SLO_OBJECTIVE_RATIO) == 0.99
    assert 'inference_build_info{model="m",python="3.' in text
    assert "_created" not in text


def test_worker_restarts(ledger: metrics.Ledger, registry: CollectorRegistry) -> None:
    assert registry.get_sample_value(names.WORKER_RESTARTS) == 0
    ledger.on_worker_restart()
    assert registry.get_sample_value(names.WORKER_RESTARTS) == 1


def test_every_child_exists_from_the_start(registry: CollectorRegistry) -> None:
    value = registry.get_sample_value
    for route in web.ROUTES:
        for outcome in names.OUTCOMES:
            assert value(f"{names.REQUEST_DURATION}_count", request_labels(outcome, route)) == 0
    for reason in names.REJECT_REASONS:
        assert value(names.REJECTED, {"reason": reason}) == 0
    for trigger in names.TRIGGERS:
        assert value(f"{names.BATCH_ROWS}_count", {"model": "m", "trigger": trigger}) == 0


def test_every_name_of_the_service_is_exported_and_no_other(registry: CollectorRegistry) -> None:
    exported = {family.name for family in registry.collect() if family.name.startswith("inference_")}
    listed = {
        value.removesuffix("_total")
        for value in vars(names).values()
        if isinstance(value, str) and value.startswith("inference_")
    }
    assert exported == listed


def test_a_child_of_prometheus_clients_own_says_the_same(ledger: metrics.Ledger, registry: CollectorRegistry) -> None:
    """The text is what the client library's own histogram would write for the same values."""
    own = CollectorRegistry()
    help_text = "Seconds inside the model, one run each."
    histogram = Histogram(names.MODEL_DURATION, help_text, ["model"], buckets=EDGES, registry=own)
    for seconds in (0.001, 0.0011, 0.5, 20.0):
        histogram.labels("m").observe(seconds)
        ledger.on_batch(BatchRecord((), "full", 1, (), seconds))
    expected = [line for line in generate_latest(own).decode().splitlines() if names.MODEL_DURATION in line]
    got = [line for line in generate_latest(registry).decode().splitlines() if names.MODEL_DURATION in line]
    assert sorted(got) == sorted(expected)
