"""Windows from /metrics pages, rendered here by the same client library that the programs use."""

import math
from collections.abc import Iterable

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from slo import names
from slo.buckets import batch_row_edges, duration_edges
from slo.config import Profile, Service
from stack.demo.measure import MeasureError, Reading, between, read

SLO = Service("inference", 0.99, 0.05, 30, Profile("local", (), 100, 15, 30))
EDGES = duration_edges(0.05)


class Pages:
    """A generator's and a service's metrics, to be moved by hand."""

    def __init__(self, edges: Iterable[float] = EDGES) -> None:
        self.client, self.server = CollectorRegistry(), CollectorRegistry()
        self.latency = Histogram(
            names.LOADGEN_REQUEST_DURATION, "d", ["name", "outcome"], buckets=tuple(edges), registry=self.client
        )
        for name in ("/predict", "other"):
            for outcome in names.OUTCOMES:
                self.latency.labels(name, outcome)
        self.lateness = Histogram(names.LOADGEN_DISPATCH_LATENESS, "d", buckets=tuple(edges), registry=self.client)
        self.arrivals = Counter(names.LOADGEN_ARRIVALS, "d", ["state"], registry=self.client)
        for state in names.ARRIVAL_STATES:
            self.arrivals.labels(state)
        self.in_flight = Gauge(names.LOADGEN_IN_FLIGHT, "d", registry=self.client)
        self.target = Gauge(names.LOADGEN_TARGET_RATE, "d", registry=self.client)
        self.requests = Histogram(
            names.REQUEST_DURATION, "d", ["model", "route", "outcome"], buckets=EDGES, registry=self.server
        )
        for route in (*names.INFERENCE_ROUTES, names.ROUTE_OTHER):
            for outcome in names.OUTCOMES:
                self.requests.labels("digits", route, outcome)
        self.batches = Histogram(
            names.BATCH_ROWS, "d", ["model", "trigger"], buckets=batch_row_edges(128), registry=self.server
        )
        self.batches.labels("digits", "full")
        self.model = Histogram(names.MODEL_DURATION, "d", ["model"], buckets=EDGES, registry=self.server)
        self.model.labels("digits")
        self.max_rows = Gauge(names.MAX_BATCH_ROWS, "d", registry=self.server)
        self.max_rows.set(128)
        self.cost_fixed = Gauge(names.COST_FIXED_SECONDS, "d", registry=self.server)
        self.cost_per_row = Gauge(names.COST_PER_ROW_SECONDS, "d", registry=self.server)
        self.cost_fixed.set(math.nan)
        self.cost_per_row.set(math.nan)

    def answer(self, seconds: float, outcome: str = "ok", name: str = "/predict", times: int = 1) -> None:
        for _ in range(times):
            self.arrivals.labels("offered").inc()
            self.arrivals.labels("started").inc()
            self.latency.labels(name, outcome).observe(seconds)
            self.requests.labels("digits", "/predict", outcome).observe(seconds)

    def drop(self, times: int) -> None:
        self.arrivals.labels("offered").inc(times)
        self.arrivals.labels("dropped").inc(times)

    def read(self, at: float) -> Reading:
        return read(at, generate_latest(self.client).decode(), generate_latest(self.server).decode())


def test_a_window_holds_only_what_came_between() -> None:
    pages = Pages()
    pages.answer(9.0, times=50)  # before the window: must not show
    pages.batches.labels("digits", "full").observe(100)
    start = pages.read(10.0)
    pages.answer(0.01, times=90)
    pages.answer(0.03, name="other", times=10)
    pages.batches.labels("digits", "full").observe(30)
    pages.batches.labels("digits", "full").observe(70)
    pages.model.labels("digits").observe(0.016)
    pages.requests.labels("digits", names.ROUTE_OTHER, "ok").observe(0.001)  # a page for people: not inference
    pages.in_flight.set(7)
    pages.target.set(25)
    window = between(start, pages.read(14.0))
    assert (window.seconds, window.offered_rps, window.served_rps, window.reached_rps) == (4, 25, 25, 25)
    assert window.mean_batch_rows == pytest.approx(50)
    assert window.mean_model_seconds == pytest.approx(0.008)
    assert window.latency.mean == pytest.approx(0.012)
    assert window.quantile(0.99) == pytest.approx(0.0313, abs=0.002)
    assert (window.in_flight, window.target_rate, window.max_batch_rows) == (7, 25, 128)
    assert window.meets(SLO)


@pytest.mark.parametrize("outcome", [outcome for outcome in names.OUTCOMES if outcome != "ok"])
def test_an_arrival_that_was_not_answered_well_is_lost_however_fast(outcome: str) -> None:
    pages = Pages()
    start = pages.read(0.0)
    pages.answer(0.002, times=95)
    pages.answer(0.0001, outcome, times=5)
    window = between(start, pages.read(1.0))
    assert window.quantile(0.99) == math.inf
    assert window.latency.lost_share == pytest.approx(0.05)
    assert window.served_rps == 95
    assert not window.meets(SLO)


def test_a_dropped_arrival_is_lost_and_the_allowed_share_is_allowed() -> None:
    pages = Pages()
    start = pages.read(0.0)
    pages.answer(0.002, times=99)
    pages.drop(1)
    assert between(start, pages.read(1.0)).meets(SLO)
    pages.drop(1)
    window = between(start, pages.read(1.0))
    assert (window.dropped, window.quantile(0.99), window.meets(SLO)) == (2, math.inf, False)


def test_slow_answers_break_the_slo_too() -> None:
    pages = Pages()
    start = pages.read(0.0)
    pages.answer(0.01, times=98)
    pages.answer(0.0501, times=2)
    assert not between(start, pages.read(1.0)).meets(SLO)


def test_without_traffic_there_is_no_quantile_and_a_frozen_service_is_infinitely_slow() -> None:
    pages = Pages()
    start = pages.read(0.0)
    quiet = between(start, pages.read(1.0))
    assert (quiet.quantile(0.99), quiet.meets(SLO)) == (None, False)
    assert (quiet.mean_batch_rows, quiet.mean_model_seconds) == (None, None)
    pages.arrivals.labels("offered").inc(10)
    assert between(start, pages.read(1.0)).quantile(0.99) == math.inf


def test_a_restart_in_between_is_said() -> None:
    pages = Pages()
    pages.answer(0.01, times=5)
    with pytest.raises(MeasureError, match="restarted"):
        between(pages.read(0.0), Pages().read(1.0))
    served = Pages()
    served.batches.labels("digits", "full").observe(3)
    with pytest.raises(MeasureError, match="batches, batch_rows ran backwards"):
        between(served.read(0.0), Pages().read(1.0))
    with pytest.raises(MeasureError, match="different bucket edges"):
        between(Pages().read(0.0), Pages(EDGES[:-1]).read(1.0))


def test_a_page_of_something_else_is_named() -> None:
    with pytest.raises(MeasureError, match="no metric loadgen_arrivals_total"):
        read(0.0, "up 1\n", "up 1\n")


def test_a_cost_that_the_service_has_not_learned_yet_is_none() -> None:
    pages = Pages()
    assert (pages.read(0.0).cost_fixed_seconds, pages.read(0.0).cost_per_row_seconds) == (None, None)
    pages.cost_fixed.set(0.005)
    pages.cost_per_row.set(0.0)
    assert (pages.read(0.0).cost_fixed_seconds, pages.read(0.0).cost_per_row_seconds) == (0.005, 0.0)
