"""The service's metrics: a ledger that counts records cheaply, and a collector that shows them to Prometheus.

A record costs about a microsecond: one lock, one bisection, three additions. All text is made at scrape time, on the
admin port's thread. Every child exists from the start, so that the first error is an increase and not a new series.
"""

import math
import platform
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from service.batching.cost import CostModel
from service.batching.policy import Knobs
from service.batching.records import BatchRecord
from service.records import RequestRecord
from slo import names
from slo.buckets import batch_row_edges, edge_text


class Distribution:
    """A histogram's state: counts per bucket (the last is +Inf) and the sum. Guarded by the ledger's lock."""

    __slots__ = ("counts", "edges", "sum")

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges: Final = tuple(edges)
        self.counts = [0] * (len(self.edges) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """`value` falls into the first bucket whose edge is not below it."""
        self.counts[bisect_left(self.edges, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative, as Prometheus has them: (le, count)."""
        total = 0
        cumulative: list[tuple[str, float]] = []
        for text, count in zip((*map(edge_text, self.edges), "+Inf"), self.counts, strict=True):
            total += count
            cumulative.append((text, total))
        return cumulative

    def copy(self) -> "Distribution":
        other = Distribution(self.edges)
        other.counts = self.counts.copy()
        other.sum = self.sum
        return other


class Ledger:
    """Counts every record once. Any thread may call it."""

    def __init__(self, routes: Sequence[str], duration_edges: Sequence[float], capacity_rows: int) -> None:
        self._lock = threading.Lock()
        self._requests = {
            (route, outcome): Distribution(duration_edges) for route in routes for outcome in names.OUTCOMES
        }
        self._queue_waits = Distribution(duration_edges)
        self._model_durations = Distribution(duration_edges)
        self._batch_rows = {trigger: Distribution(batch_row_edges(capacity_rows)) for trigger in names.TRIGGERS}
        self._rejected = dict.fromkeys(names.REJECT_REASONS, 0)
        self._worker_restarts = 0

    def on_request(self, record: RequestRecord) -> None:
        """One request has ended, whatever its end."""
        with self._lock:
            self._requests[record.route, record.outcome].add(record.seconds)
            if record.reason is not None:
                self._rejected[record.reason] += 1

    def on_batch(self, record: BatchRecord) -> None:
        """One run of the model has ended."""
        with self._lock:
            self._batch_rows[record.trigger].add(record.rows)
            if record.error is None:
                self._model_durations.add(record.model_seconds)
            for wait in record.queue_waits:
                self._queue_waits.add(wait)

    def on_worker_restart(self) -> None:
        """A model worker has been replaced."""
        with self._lock:
            self._worker_restarts += 1

    def snapshot(self) -> "Snapshot":
        """A consistent copy, made under the lock; the text is made from it outside."""
        with self._lock:
            return Snapshot(
                requests={key: distribution.copy() for key, distribution in self._requests.items()},
                queue_waits=self._queue_waits.copy(),
                model_durations=self._model_durations.copy(),
                batch_rows={key: distribution.copy() for key, distribution in self._batch_rows.items()},
                rejected=self._rejected.copy(),
                worker_restarts=self._worker_restarts,
            )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The ledger at one instant."""

    requests: dict[tuple[str, str], Distribution]
    queue_waits: Distribution
    model_durations: Distribution
    batch_rows: dict[str, Distribution]
    rejected: dict[str, int]
    worker_restarts: int


class Gauged(Protocol):
    """What is read of the batcher at scrape time."""

    @property
    def depth_rows(self) -> int: ...

    @property
    def capacity_rows(self) -> int: ...

    @property
    def knobs(self) -> Knobs: ...

    @property
    def cost(self) -> CostModel | None: ...


class InFlight(Protocol):
    """What is read of the handler at scrape time."""

    @property
    def in_flight(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Facts:
    """What does not change while the service runs."""

    model: str
    runtime: str
    version: str
    slo_threshold_seconds: float
    slo_objective: float


class ServiceCollector(Collector):
    """The ledger and the gauges as metric families."""

    def __init__(self, ledger: Ledger, batcher: Gauged, handler: InFlight, facts: Facts) -> None:
        self._ledger = ledger
        self._batcher = batcher
        self._handler = handler
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        """Families in the order of DESIGN's list."""
        snapshot = self._ledger.snapshot()
        model = self._facts.model
        requests = HistogramMetricFamily(
            names.REQUEST_DURATION,
            "Seconds from a request's arrival to its reply, by URL rule and outcome.",
            labels=("model", "route", "outcome"),
        )
        for (route, outcome), seconds in snapshot.requests.items():
            requests.add_metric((model, route, outcome), seconds.buckets(), seconds.sum)
        yield requests
        yield _gauge(names.REQUESTS_IN_FLIGHT, "Accepted inference requests without a reply.", self._handler.in_flight)
        yield _histogram(
            names.QUEUE_WAIT, "Seconds a request waited from enqueue to its batch.", model, snapshot.queue_waits
        )
        yield _gauge(names.QUEUE_DEPTH_ROWS, "Rows that wait for a model worker.", self._batcher.depth_rows)
        yield _gauge(names.QUEUE_CAPACITY_ROWS, "Rows that may wait; beyond that 429.", self._batcher.capacity_rows)
        batches = HistogramMetricFamily(
            names.BATCH_ROWS, "Rows in one run of the model, by what set it off.", labels=("model", "trigger")
        )
        for trigger, rows in snapshot.batch_rows.items():
            batches.add_metric((model, trigger), rows.buckets(), rows.sum)
        yield batches
        yield _histogram(
            names.MODEL_DURATION, "Seconds inside the model, one run each.", model, snapshot.model_durations
        )
        rejected = CounterMetricFamily(
            names.REJECTED, "Inference requests that got no result, by reason.", labels=("reason",)
        )
        for reason, count in snapshot.rejected.items():
            rejected.add_metric((reason,), count)
        yield rejected
        yield CounterMetricFamily(
            names.WORKER_RESTARTS, "Model workers that died or hung and were replaced.", snapshot.worker_restarts
        )
        yield from self._knobs()
        yield from self._constants()

    def _knobs(self) -> Iterator[Metric]:
        knobs, cost = self._batcher.knobs, self._batcher.cost
        yield _gauge(names.MAX_BATCH_ROWS, "The knob max_batch_rows.", knobs.max_batch_rows)
        yield _gauge(names.MAX_WAIT_SECONDS, "The knob max_wait_seconds.", knobs.max_wait_seconds)
        yield _gauge(
            names.COST_FIXED_SECONDS,
            "Learned model seconds that a batch costs whatever its size; NaN until learned.",
            cost.fixed_seconds if cost else math.nan,
        )
        yield _gauge(
            names.COST_PER_ROW_SECONDS,
            "Learned model seconds that each row adds; NaN until learned.",
            cost.per_row_seconds if cost else math.nan,
        )

    def _constants(self) -> Iterator[Metric]:
        facts = self._facts
        yield _gauge(names.SLO_THRESHOLD_SECONDS, "A request is good within this.", facts.slo_threshold_seconds)
        yield _gauge(names.SLO_OBJECTIVE_RATIO, "Share of requests that must be good.", facts.slo_objective)
        build = GaugeMetricFamily(
            names.BUILD_INFO, "Always 1; versions as labels.", labels=("version", "python", "model", "runtime")
        )
        build.add_metric((facts.version, platform.python_version(), facts.model, facts.runtime), 1)
        yield build


def registry(collector: Collector) -> CollectorRegistry:
    """The process's only registry: the service's collector and the process's own memory, CPU and descriptors."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    ProcessCollector(registry=registry)
    return registry


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value)


def _histogram(name: str, meaning: str, model: str, distribution: Distribution) -> Metric:
    family = HistogramMetricFamily(name, meaning, labels=("model",))
    family.add_metric((model,), distribution.buckets(), distribution.sum)
    return family
