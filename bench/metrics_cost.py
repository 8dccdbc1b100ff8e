"""The service with all its metrics, scraped, beside the same service that records nothing: loaded in turns, many times.

Both run all the while and only one is loaded. The model is the fastest there is, so that recording weighs most.
"""

import math
import statistics
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Final

from bench.forest import FILES
from bench.options import Options
from bench.rig import NotMeasured, Rig, Served, start_seconds
from bench.servers import OURS, OURS_REQUEST

CONNECTIONS: Final = 64
SLICE_SECONDS: Final = 1  # short, so that a busy moment spoils few of many
_PAIRS: Final = 12
_QUICK_PAIRS: Final = 5
_SCRAPE_AFTER_SECONDS: Final = 0.5  # one scrape in each slice, five times as often as Prometheus does here
_COVERAGE: Final = 0.9  # of the interval for the median


@dataclass(slots=True)
class MetricsCost:
    """Requests a second with and without, pair by pair."""

    pairs: list[tuple[float, float]] = field(default_factory=list)

    @property
    def cost(self) -> float | None:
        """The share of requests a second that metrics take: the median over the pairs."""
        return 1 - statistics.median(on / off for on, off in self.pairs) if self.pairs else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the true median lies with a probability of 90% or more; None where the pairs are too few to say.

        Between the k-th smallest and the k-th largest pair: a pair falls on either side of the median as a coin does,
        whatever the distribution of the noise.
        """
        costs = sorted(1 - on / off for on, off in self.pairs)
        count = len(costs)
        outside, rank = 0.0, 0
        while (more := outside + 2 * math.comb(count, rank) / 2**count) <= 1 - _COVERAGE:
            outside, rank = more, rank + 1
        return (costs[rank - 1], costs[-rank]) if rank else None


def pairs(options: Options) -> int:
    return _QUICK_PAIRS if options.quick else _PAIRS


def estimate(options: Options) -> float:
    return 2 * start_seconds(OURS, options) + 2 * pairs(options) * SLICE_SECONDS


def measure(rig: Rig, found: MetricsCost) -> None:
    model = str(rig.forest / FILES["onnx"])
    with (
        rig.ours(model, OURS_REQUEST, model_workers="0") as metered,
        rig.ours(model, OURS_REQUEST, "bench.unmetered", model_workers="0") as unmetered,
    ):
        for served in (metered, unmetered):
            rig.warm_up(served)
        rig.progress.done(2 * start_seconds(OURS, rig.options), "metrics on and off started")
        for number in range(pairs(rig.options)):
            rig.calibrate("metrics")
            order = (metered, unmetered) if number % 2 == 0 else (unmetered, metered)
            rates = {id(served): _rate(rig, served, scraped=served is metered) for served in order}
            found.pairs.append((rates[id(metered)], rates[id(unmetered)]))
            rig.progress.done(2 * SLICE_SECONDS, "metrics on {:>9,.0f}/s, off {:>9,.0f}/s".format(*found.pairs[-1]))


def _rate(rig: Rig, served: Served, scraped: bool) -> float:
    scrape = threading.Timer(_SCRAPE_AFTER_SECONDS, _scrape, (f"{served.admin_url}/metrics",))
    if scraped:
        scrape.start()
    try:
        reading = rig.load(served, CONNECTIONS, SLICE_SECONDS)
    finally:
        if scraped:
            scrape.join()
    if reading.errors or reading.good_per_second == 0:
        raise NotMeasured(f"{reading.errors} errors in a slice, with metrics {'on' if scraped else 'off'}")
    return reading.good_per_second


def _scrape(url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=5) as reply:
        reply.read()
