"""The load generator's Prometheus metrics, made at each scrape from a report: nothing is counted twice."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from loadtest.recorder import Histogram
from loadtest.worker_report import Report
from slo import names
from slo.buckets import edge_text


class LoadCollector(Collector):
    """Reads the report of this process, or of all workers together."""

    def __init__(self, report: Callable[[], Report]) -> None:
        self._report = report

    def collect(self) -> Iterator[Metric]:
        """All families, with all children from the start."""
        report = self._report()
        total = HistogramMetricFamily(
            names.LOADGEN_REQUEST_DURATION,
            "Latency from the scheduled instant to the end of the reply",
            labels=("name", "outcome"),
        )
        service = HistogramMetricFamily(
            names.LOADGEN_SERVICE_DURATION,
            "Latency from the actual send to the end of the reply",
            labels=("name", "outcome"),
        )
        for family, histograms in ((total, report.recorder.totals), (service, report.recorder.services)):
            for labels, histogram in histograms.items():
                family.add_metric(labels, *_samples(histogram))
            yield family
        lateness = HistogramMetricFamily(
            names.LOADGEN_DISPATCH_LATENESS, "From the scheduled instant to the actual send"
        )
        lateness.add_metric((), *_samples(report.recorder.lateness))
        yield lateness
        arrivals = CounterMetricFamily(
            names.LOADGEN_ARRIVALS, "Arrivals of the schedule: offered = started + dropped", labels=("state",)
        )
        for state in names.ARRIVAL_STATES:
            arrivals.add_metric((state,), report.counts[state])
        yield arrivals
        yield GaugeMetricFamily(names.LOADGEN_IN_FLIGHT, "Requests without an outcome yet", report.in_flight)
        yield GaugeMetricFamily(
            names.LOADGEN_OLDEST_IN_FLIGHT,
            "Age of the oldest of them, from its scheduled instant",
            report.oldest_seconds,
        )
        yield GaugeMetricFamily(
            names.LOADGEN_TARGET_RATE, "Arrivals per second that the schedule asks for now", report.rate
        )


def registry(report: Callable[[], Report]) -> CollectorRegistry:
    """A registry of its own with these metrics and nothing else."""
    made = CollectorRegistry()
    made.register(LoadCollector(report))
    return made


def _samples(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    edges = [*(edge_text(edge) for edge in histogram.edges), "+Inf"]
    return [(edge, float(count)) for edge, count in zip(edges, histogram.cumulative(), strict=True)], histogram.sum
