"""Metrics by value: what one record, one batch and one scrape do to each."""

import math
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from service import web
from service.batching.cost import CostModel
from service.batching.errors import ModelFailed
from service.batching.policy import Knobs
from service.batching.records import BatchRecord
from service.exposition import Exposition, Facts
from service.ledger import Ledger
from service.records import RequestRecord
from slo import names
from slo.buckets import duration_edges

EDGES = duration_edges(0.03)
MODEL = 'm"1\\'  # text that must be escaped


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
def ledger() -> Ledger:
    return Ledger(web.ROUTES, EDGES, 1024)


class Scrape:
    """What Prometheus would read."""

    def __init__(self, exposition: Exposition) -> None:
        self._exposition = exposition

    @property
    def text(self) -> str:
        return self._exposition.render().decode()

    def families(self) -> list[Metric]:
        return list(text_string_to_metric_families(self.text))

    def get_sample_value(self, name: str, labels: dict[str, str] | None = None) -> float | None:
        found = [
            sample.value
            for family in self.families()
            for sample in family.samples
            if sample.name == name and sample.labels == (labels or {})
        ]
        assert len(found) <= 1, f"{name} {labels} is there {len(found)} times"
        return found[0] if found else None


@pytest.fixture
def scrape(ledger: Ledger, shown: Any) -> Scrape:
    return Scrape(Exposition(ledger, shown, shown, Facts(MODEL, "synthetic", "0.1.0", 0.03, 0.99)))


def request_labels(outcome: str, route: str = "/predict", **more: str) -> dict[str, str]:
    return {"model": MODEL, "route": route, "outcome": outcome, **more}


def test_a_request_is_counted_once_in_its_bucket(ledger: Ledger, scrape: Scrape) -> None:
    for seconds in (0.0012, 0.03, 0.0300001, 99.0):
        ledger.on_request(RequestRecord("/predict", "ok", 200, seconds))
    value = scrape.get_sample_value
    name = names.REQUEST_DURATION
    assert value(f"{name}_count", request_labels("ok")) == 4
    assert value(f"{name}_sum", request_labels("ok")) == pytest.approx(99.0612001)
    at = {
        le: value(f"{name}_bucket", request_labels("ok", le=le)) for le in ("0.001", "0.00125", "0.03", "0.032", "10.0")
    }
    assert at == {"0.001": 0, "0.00125": 1, "0.03": 2, "0.032": 3, "10.0": 3}
    assert value(f"{name}_bucket", request_labels("ok", le="+Inf")) == 4
    assert value(f"{name}_count", request_labels("failed")) == 0


def test_rejections_are_counted_by_reason(ledger: Ledger, scrape: Scrape) -> None:
    ledger.on_request(RequestRecord("/predict", "shed", 429, 0.001, "queue_full"))
    ledger.on_request(RequestRecord("/predict", "failed", 500, 0.001))
    assert scrape.get_sample_value(names.REJECTED, {"reason": "queue_full"}) == 1
    assert scrape.get_sample_value(names.REJECTED, {"reason": "deadline"}) == 0
    assert scrape.get_sample_value(f"{names.REQUEST_DURATION}_count", request_labels("shed")) == 1
    assert scrape.get_sample_value(f"{names.REQUEST_DURATION}_count", request_labels("failed")) == 1


def test_a_batch_is_counted_by_its_trigger(ledger: Ledger, scrape: Scrape) -> None:
    ledger.on_batch(BatchRecord(("predict",), "wait", 3, (0.004, 0.002), 0.0015))
    value = scrape.get_sample_value
    labels = {"model": MODEL, "trigger": "wait"}
    assert value(f"{names.BATCH_ROWS}_sum", labels) == 3
    assert value(f"{names.BATCH_ROWS}_bucket", {**labels, "le": "2.0"}) == 0
    assert value(f"{names.BATCH_ROWS}_bucket", {**labels, "le": "4.0"}) == 1
    assert value(f"{names.BATCH_ROWS}_count", {"model": MODEL, "trigger": "full"}) == 0
    assert value(f"{names.QUEUE_WAIT}_count", {"model": MODEL}) == 2
    assert value(f"{names.QUEUE_WAIT}_sum", {"model": MODEL}) == pytest.approx(0.006)
    assert value(f"{names.MODEL_DURATION}_count", {"model": MODEL}) == 1
    assert value(f"{names.MODEL_DURATION}_bucket", {"model": MODEL, "le": "0.0016"}) == 1


def test_a_batch_that_failed_says_nothing_about_the_models_speed(ledger: Ledger, scrape: Scrape) -> None:
    ledger.on_batch(BatchRecord(("predict",), "full", 8, (0.001,) * 8, 0.0, ModelFailed("no")))
    assert scrape.get_sample_value(f"{names.MODEL_DURATION}_count", {"model": MODEL}) == 0
    assert scrape.get_sample_value(f"{names.BATCH_ROWS}_count", {"model": MODEL, "trigger": "full"}) == 1


def test_gauges_are_read_at_scrape_time(scrape: Scrape, shown: Any) -> None:
    value = scrape.get_sample_value
    assert value(names.QUEUE_DEPTH_ROWS) == 17
    assert value(names.QUEUE_CAPACITY_ROWS) == 1024
    assert value(names.REQUESTS_IN_FLIGHT) == 5
    assert value(names.MAX_BATCH_ROWS) == 64
    assert value(names.MAX_WAIT_SECONDS) == 0.01
    shown.knobs = Knobs("adaptive", 8, 0.001)
    assert value(names.MAX_BATCH_ROWS) == 8


def test_the_tuned_rate_is_that_of_the_knobs_in_force(ledger: Ledger, shown: Any, scrape: Scrape) -> None:
    assert math.isnan(scrape.get_sample_value(names.TUNED_RATE) or 0.0)
    tuned = Scrape(Exposition(ledger, shown, shown, Facts(MODEL, "synthetic", "0.1.0", 0.03, 0.99, tuned_rate=1480.5)))
    assert tuned.get_sample_value(names.TUNED_RATE) == 1480.5
    before, shown.knobs = shown.knobs, Knobs("adaptive", 8, 0.001)
    assert math.isnan(tuned.get_sample_value(names.TUNED_RATE) or 0.0)
    shown.knobs = before
    assert tuned.get_sample_value(names.TUNED_RATE) == 1480.5


def test_the_learned_cost_is_nan_until_learned(scrape: Scrape, shown: Any) -> None:
    assert math.isnan(scrape.get_sample_value(names.COST_FIXED_SECONDS) or 0.0)
    shown.cost = CostModel(0.004, 0.0001)
    assert scrape.get_sample_value(names.COST_FIXED_SECONDS) == 0.004
    assert scrape.get_sample_value(names.COST_PER_ROW_SECONDS) == 0.0001


def test_constants(scrape: Scrape) -> None:
    text = scrape.text
    assert scrape.get_sample_value(names.SLO_THRESHOLD_SECONDS) == 0.03
    assert scrape.get_sample_value(names.SLO_OBJECTIVE_RATIO) == 0.99
    assert r'inference_build_info{model="m\"1\\",python="3.' in text
    assert "_created" not in text


def test_worker_restarts(ledger: Ledger, scrape: Scrape) -> None:
    assert scrape.get_sample_value(names.WORKER_RESTARTS) == 0
    ledger.on_worker_restart()
    assert scrape.get_sample_value(names.WORKER_RESTARTS) == 1


def test_every_child_exists_from_the_start(scrape: Scrape) -> None:
    value = scrape.get_sample_value
    for route in web.ROUTES:
        for outcome in names.OUTCOMES:
            assert value(f"{names.REQUEST_DURATION}_count", request_labels(outcome, route)) == 0
    for reason in names.REJECT_REASONS:
        assert value(names.REJECTED, {"reason": reason}) == 0
    for trigger in names.TRIGGERS:
        assert value(f"{names.BATCH_ROWS}_count", {"model": MODEL, "trigger": trigger}) == 0


def test_every_name_of_the_service_is_exported_and_no_other(scrape: Scrape) -> None:
    exported = {family.name for family in scrape.families() if family.name.startswith("inference_")}
    listed = {
        value.removesuffix("_total")
        for value in vars(names).values()
        if isinstance(value, str) and value.startswith("inference_")
    }
    assert exported == listed


def test_a_child_of_prometheus_clients_own_says_the_same(ledger: Ledger, scrape: Scrape) -> None:
    """The text is what the client library's own histogram would write for the same values."""
    own = CollectorRegistry()
    help_text = "Seconds inside the model, one run each."
    histogram = Histogram(names.MODEL_DURATION, help_text, ["model"], buckets=EDGES, registry=own)
    for seconds in (0.001, 0.0011, 0.5, 20.0):
        histogram.labels(MODEL).observe(seconds)
        ledger.on_batch(BatchRecord((), "full", 1, (), seconds))
    theirs = text_string_to_metric_families(generate_latest(own).decode())
    expected = {(s.name, *sorted(s.labels.items())): s.value for family in theirs for s in family.samples}
    got = {
        (s.name, *sorted(s.labels.items())): s.value
        for family in scrape.families()
        for s in family.samples
        if s.name.startswith(names.MODEL_DURATION)
    }
    assert got == {key: value for key, value in expected.items() if "_created" not in key[0]}
