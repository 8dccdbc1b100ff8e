"""Figures for a stretch of time, from two looks at the generator's and the service's /metrics.

Latencies are the generator's, from the instant each request was scheduled; batches are the service's. Both export
running counts, so a window is the difference between its end and its start and depends on no scrape interval.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from loadtest.analysis.histogram import Histogram
from slo import names
from slo.config import Service

# All that is read. The pages are ten times as long, and parsing them whole each second costs a tenth of a CPU.
_READ: Final = (
    f"{names.LOADGEN_REQUEST_DURATION}_",
    names.LOADGEN_DISPATCH_LATENESS,
    names.LOADGEN_ARRIVALS,
    names.LOADGEN_IN_FLIGHT,
    names.LOADGEN_TARGET_RATE,
    f"{names.REQUEST_DURATION}_count",
    f"{names.BATCH_ROWS}_count",
    f"{names.BATCH_ROWS}_sum",
    f"{names.MODEL_DURATION}_sum",
    names.MAX_BATCH_ROWS,
    names.COST_FIXED_SECONDS,
    names.COST_PER_ROW_SECONDS,
)
_LATENCY_BUCKETS: Final = f"{names.LOADGEN_REQUEST_DURATION}_bucket"
_Samples = Mapping[str, list[tuple[Mapping[str, str], float]]]


class MeasureError(Exception):
    """A /metrics page lacks what the demo reads, or its counts ran backwards; one sentence."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Both pages at one instant. Everything but the gauges only ever grows."""

    at: float  # seconds on the demo's clock
    latency: Histogram  # answered well; everything else that was offered and is over counts as lost
    lateness: Histogram  # how late the generator itself was in sending
    offered: float
    dropped: float  # arrivals for which no connection was free
    in_flight: float
    target_rate: float
    reached: float  # requests the *service* counted, however they ended
    batches: float
    batch_rows: float
    model_seconds: float  # spent in the model
    max_batch_rows: int
    cost_fixed_seconds: float | None  # of one run of the model, as the service has learned it; None: not yet
    cost_per_row_seconds: float | None


@dataclass(frozen=True, slots=True)
class Window:
    """What happened between two readings."""

    start: float
    end: float
    latency: Histogram
    lateness: Histogram
    offered: float
    dropped: float
    reached: float
    batches: float
    batch_rows: float
    model_seconds: float
    in_flight: float  # at its end
    target_rate: float
    max_batch_rows: int  # at its start

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def offered_rps(self) -> float:
        return self.offered / self.seconds

    @property
    def served_rps(self) -> float:
        """Requests answered well per second, fast or slow."""
        return self.latency.answered / self.seconds

    @property
    def reached_rps(self) -> float:
        return self.reached / self.seconds

    @property
    def mean_batch_rows(self) -> float | None:
        return self.batch_rows / self.batches if self.batches else None

    @property
    def mean_model_seconds(self) -> float | None:
        """Per batch."""
        return self.model_seconds / self.batches if self.batches else None

    def quantile(self, q: float) -> float | None:
        """Seconds; inf when more than 1 - q of the arrivals were lost; inf too when work came and nothing went out."""
        if not self.latency.total:
            return math.inf if self.offered else None
        return self.latency.quantile(q)

    def meets(self, slo: Service) -> bool:
        """Whether the objective's share of all arrivals was answered well within the threshold; never without any."""
        share = self.latency.share_within(slo.threshold_seconds)
        return share is not None and share >= slo.objective


def read(at: float, loadgen_page: str, service_page: str) -> Reading:
    """A reading from the text of both /metrics pages."""
    client, server = _samples(loadgen_page), _samples(service_page)
    arrivals = {state: _sum(client, names.LOADGEN_ARRIVALS, state=state) for state in names.ARRIVAL_STATES}
    not_ok = tuple(outcome for outcome in names.OUTCOMES if outcome != "ok")
    failed = sum(_sum(client, f"{names.LOADGEN_REQUEST_DURATION}_count", outcome=outcome) for outcome in not_ok)
    return Reading(
        at=at,
        latency=_histogram(client, names.LOADGEN_REQUEST_DURATION, lost=failed + arrivals["dropped"], outcome="ok"),
        lateness=_histogram(client, names.LOADGEN_DISPATCH_LATENESS),
        offered=arrivals["offered"],
        dropped=arrivals["dropped"],
        in_flight=_sum(client, names.LOADGEN_IN_FLIGHT),
        target_rate=_sum(client, names.LOADGEN_TARGET_RATE),
        reached=sum(_sum(server, f"{names.REQUEST_DURATION}_count", route=route) for route in names.INFERENCE_ROUTES),
        batches=_sum(server, f"{names.BATCH_ROWS}_count"),
        batch_rows=_sum(server, f"{names.BATCH_ROWS}_sum"),
        model_seconds=_sum(server, f"{names.MODEL_DURATION}_sum"),
        max_batch_rows=int(_sum(server, names.MAX_BATCH_ROWS)),
        cost_fixed_seconds=_learned(server, names.COST_FIXED_SECONDS),
        cost_per_row_seconds=_learned(server, names.COST_PER_ROW_SECONDS),
    )


def between(start: Reading, end: Reading) -> Window:
    """The window from `start` to `end`; MeasureError if a program was restarted in between."""
    if end.at <= start.at:
        raise ValueError("a window needs time to pass")
    grown = {
        field: getattr(end, field) - getattr(start, field)
        for field in ("offered", "dropped", "reached", "batches", "batch_rows", "model_seconds")
    }
    try:
        latency, lateness = end.latency - start.latency, end.lateness - start.lateness
    except ValueError as error:
        raise MeasureError(f"the load generator's counts cannot be compared: {error}") from error
    backwards = [field for field, value in grown.items() if value < 0]
    if backwards:
        raise MeasureError(
            f"counts of {', '.join(backwards)} ran backwards: the generator or the service was restarted"
        )
    return Window(
        start=start.at,
        end=end.at,
        latency=latency,
        lateness=lateness,
        in_flight=end.in_flight,
        target_rate=end.target_rate,
        max_batch_rows=start.max_batch_rows,
        **grown,
    )


def _samples(page: str) -> _Samples:
    by_name: dict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
    wanted = "\n".join(line for line in page.splitlines() if line.startswith(_READ) and _is_read(line)) + "\n"
    for family in text_string_to_metric_families(wanted):
        for sample in family.samples:
            by_name[sample.name].append((sample.labels, float(sample.value)))
    return by_name


def _is_read(line: str) -> bool:
    """Of request latencies only the buckets of those that were answered well; three in four lines are others."""
    return not line.startswith(_LATENCY_BUCKETS) or 'outcome="ok"' in line


def _find(samples: _Samples, name: str, wanted: Mapping[str, str]) -> list[tuple[Mapping[str, str], float]]:
    if name not in samples:
        raise MeasureError(f"no metric {name} on the page; expected one of this version of Tailboard")
    return [(labels, value) for labels, value in samples[name] if wanted.items() <= labels.items()]


def _sum(samples: _Samples, name: str, **wanted: str) -> float:
    return sum(value for _, value in _find(samples, name, wanted))


def _learned(samples: _Samples, name: str) -> float | None:
    """A gauge that is NaN while the service does not know it."""
    value = _sum(samples, name)
    return None if math.isnan(value) else value


def _histogram(samples: _Samples, name: str, lost: float = 0.0, **wanted: str) -> Histogram:
    cumulative: dict[float, float] = defaultdict(float)
    for labels, value in _find(samples, f"{name}_bucket", wanted):
        cumulative[float(labels["le"])] += value
    edges = sorted(edge for edge in cumulative if edge != math.inf)
    return Histogram.from_cumulative(
        edges, [cumulative[edge] for edge in [*edges, math.inf]], _sum(samples, f"{name}_sum", **wanted), lost
    )
