"""The metrics as Prometheus reads them: the text format, version 0.0.4.

A scrape runs beside inference and shares the interpreter with it. Through the client library's collectors these two
thousand lines cost 27 ms; here every line's name and labels are written once, and a scrape only appends the numbers,
in about 1 ms. Every child exists from the start, so that the first error is an increase and not a new series.
"""

import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest

from service.batching.cost import CostModel
from service.batching.policy import Knobs
from service.ledger import Distribution, Ledger
from slo import names
from slo.buckets import batch_row_edges, edge_text

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


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
    model_workers: int = 1  # that run the model at once
    tuned_rate: float | None = None  # requests per second that were confirmed for the knobs of the start


class Exposition:
    """Renders the ledger, the gauges and the process's own numbers."""

    def __init__(self, ledger: Ledger, batcher: Gauged, handler: InFlight, facts: Facts) -> None:
        self._ledger = ledger
        self._batcher = batcher
        self._handler = handler
        self._process = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._process)
        model = {"model": facts.model}
        empty = ledger.snapshot()
        self._requests = _Histograms(
            names.REQUEST_DURATION,
            "Seconds from a request's arrival to its reply, by URL rule and outcome.",
            [{**model, "route": route, "outcome": outcome} for route, outcome in empty.requests],
            ledger.duration_edges,
        )
        self._queue_waits = _Histograms(
            names.QUEUE_WAIT, "Seconds a request waited from enqueue to its batch.", [model], ledger.duration_edges
        )
        self._model_durations = _Histograms(
            names.MODEL_DURATION, "Seconds inside the model, one run each.", [model], ledger.duration_edges
        )
        self._batch_rows = _Histograms(
            names.BATCH_ROWS,
            "Rows in one run of the model, by what set it off.",
            [{**model, "trigger": trigger} for trigger in empty.batch_rows],
            batch_row_edges(batcher.capacity_rows),
        )
        self._constants = list(_constants(facts))
        self._tuned_rate, self._tuned_knobs = facts.tuned_rate, batcher.knobs

    def render(self) -> bytes:
        """One scrape."""
        return "\n".join([*self._lines(), ""]).encode() + generate_latest(self._process)

    def _lines(self) -> Iterator[str]:
        snapshot = self._ledger.snapshot()
        yield from self._requests.lines(list(snapshot.requests.values()))
        yield from _gauge(names.REQUESTS_IN_FLIGHT, "Accepted requests without a reply.", self._handler.in_flight)
        yield from self._queue_waits.lines([snapshot.queue_waits])
        yield from _gauge(names.QUEUE_DEPTH_ROWS, "Rows that wait for a model worker.", self._batcher.depth_rows)
        yield from _gauge(names.QUEUE_CAPACITY_ROWS, "Rows that may wait, then 429.", self._batcher.capacity_rows)
        yield from self._batch_rows.lines(list(snapshot.batch_rows.values()))
        yield from self._model_durations.lines([snapshot.model_durations])
        yield from _head(names.REJECTED, "counter", "Inference requests that got no result, by reason.")
        for reason, count in snapshot.rejected.items():
            yield _sample(names.REJECTED, {"reason": reason}, count)
        yield from _head(names.WORKER_RESTARTS, "counter", "Model workers that died or hung and were replaced.")
        yield _sample(names.WORKER_RESTARTS, {}, snapshot.worker_restarts)
        yield from _knobs(self._batcher.knobs, self._batcher.cost)
        yield from _gauge(
            names.TUNED_RATE,
            "What the tuner confirmed inside the objective for the knobs in force; NaN where it did not.",
            self._tuned_rate if self._tuned_rate and self._batcher.knobs == self._tuned_knobs else math.nan,
        )
        yield from self._constants


class _Histograms:
    """One histogram family: the text of every line but its number, made once."""

    def __init__(self, name: str, meaning: str, children: Sequence[Labels], edges: Sequence[float]) -> None:
        self._head = list(_head(name, "histogram", meaning))
        les = (*map(edge_text, edges), "+Inf")
        self._children = [
            (
                [f"{_series(f'{name}_bucket', {**labels, 'le': le})} " for le in les],
                f"{_series(f'{name}_count', labels)} ",
                f"{_series(f'{name}_sum', labels)} ",
            )
            for labels in children
        ]

    def lines(self, distributions: Sequence[Distribution]) -> Iterator[str]:
        """With the numbers of one distribution per child, in the order of the children."""
        yield from self._head
        for (buckets, count, total), distribution in zip(self._children, distributions, strict=True):
            seen = 0
            for bucket, number in zip(buckets, distribution.counts, strict=True):
                seen += number
                yield f"{bucket}{seen}"
            yield f"{count}{seen}"
            yield f"{total}{distribution.sum!r}"


def _knobs(knobs: Knobs, cost: CostModel | None) -> Iterator[str]:
    yield from _gauge(names.MAX_BATCH_ROWS, "The knob max_batch_rows.", knobs.max_batch_rows)
    yield from _gauge(names.MAX_WAIT_SECONDS, "The knob max_wait_seconds.", knobs.max_wait_seconds)
    yield from _gauge(
        names.COST_FIXED_SECONDS,
        "Learned model seconds that a batch costs whatever its size; NaN until learned.",
        cost.fixed_seconds if cost else math.nan,
    )
    yield from _gauge(
        names.COST_PER_ROW_SECONDS,
        "Learned model seconds that each row adds; NaN until learned.",
        cost.per_row_seconds if cost else math.nan,
    )


def _constants(facts: Facts) -> Iterator[str]:
    yield from _gauge(names.SLO_THRESHOLD_SECONDS, "A request is good within this.", facts.slo_threshold_seconds)
    yield from _gauge(names.MODEL_WORKERS, "How many batches the model can run at once.", facts.model_workers)
    yield from _gauge(names.SLO_OBJECTIVE_RATIO, "Share of requests that must be good.", facts.slo_objective)
    yield from _head(names.BUILD_INFO, "gauge", "Always 1; versions as labels.")
    versions = {
        "version": facts.version,
        "python": platform.python_version(),
        "model": facts.model,
        "runtime": facts.runtime,
    }
    yield _sample(names.BUILD_INFO, versions, 1)


def _gauge(name: str, meaning: str, value: float) -> Iterator[str]:
    yield from _head(name, "gauge", meaning)
    yield _sample(name, {}, value)


def _head(name: str, kind: str, meaning: str) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"


def _sample(name: str, labels: Labels, value: float) -> str:
    return f"{_series(name, labels)} {'NaN' if math.isnan(value) else value}"


def _series(name: str, labels: Labels) -> str:
    if not labels:
        return name
    written = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(labels.items()))
    return f"{name}{{{written}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
