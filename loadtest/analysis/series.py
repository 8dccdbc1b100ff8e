"""What a report draws: the run in bins of time, the whole distribution as a curve, and a histogram.

In: the arrivals of a run. Out: plain numbers that go into result.json, so that a report needs no samples. A latency
that is +∞ (an arrival without a good answer) is `None`, here as everywhere in a result.
"""

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from loadtest.analysis.order import rank
from loadtest.analysis.samples import DROPPED, FAILED, End, Floats, Rows, Samples

MAX_BINS: Final = 300
BIN_SECONDS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
CURVE_POINTS: Final = 100
NINES: Final = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999)  # points that people look for on a curve
MAX_BARS: Final = 48
SHORTEST_SECONDS: Final = 1e-6  # a logarithmic axis has no zero
_BLOCK: Final = 1_000_000  # rows looked at together, so that memory does not grow with the run


def series(run: Samples, measured: Samples, duration_seconds: float) -> dict[str, Any]:
    """All that a report draws: `over_time` of the whole run, `curve` and `histogram` of the measured part."""
    return {
        "over_time": over_time(run, duration_seconds),
        "curve": curve(measured),
        "histogram": histogram(measured),
    }


def over_time(run: Samples, duration_seconds: float) -> dict[str, list[float | None]]:
    """The run in bins of time, as columns with one entry per bin, but `edges_seconds` with one more.

    `offered_per_second` and the latencies `p50`, `p95`, `p99` (of all arrivals), `mean` (of successes) and
    `lateness_p99`, all in seconds, belong to the arrivals *scheduled* in the bin. The other rates count what happened
    in it: requests `started`, `completed` with success, `failed`, and arrivals `dropped`. `in_flight` and
    `oldest_in_flight_seconds` (age since the scheduled instant, 0 when nothing is in flight) are those at its end.
    A percentile is None where it is +∞ or where nothing was offered. What happens after the end is in no bin.
    """
    edges = bin_edges(duration_seconds)
    flow = _Flow(edges)
    for first in range(0, len(run.rows), _BLOCK):
        flow.add(run.rows[first : first + _BLOCK])
    starts = np.searchsorted(run.rows["scheduled"], edges[:-1], side="left")
    ends = [*starts[1:], np.searchsorted(run.rows["scheduled"], edges[-1], side="right")]
    told: dict[str, list[float | None]] = {"p50": [], "p95": [], "p99": [], "mean": [], "lateness_p99": []}
    for first, end in zip(starts, ends, strict=True):
        arrivals = Samples(run.rows[first:end])
        total = np.sort(arrivals.total_seconds)
        for name, q in (("p50", 0.50), ("p95", 0.95), ("p99", 0.99)):
            told[name].append(_quantile(total, q))
        successes = total[np.isfinite(total)]
        told["mean"].append(float(successes.mean()) if successes.size else None)
        late = arrivals.lateness_seconds
        told["lateness_p99"].append(_quantile(np.sort(late[~np.isnan(late)]), 0.99))
    widths = np.diff(edges)
    return {
        "edges_seconds": _listed(edges),
        "offered_per_second": _listed((np.array(ends) - starts) / widths),
        **{f"{name}_per_second": _listed(counts / widths) for name, counts in flow.happened.items()},
        **told,
        "in_flight": _listed(flow.in_flight),
        "oldest_in_flight_seconds": _listed(flow.oldest_seconds),
    }


def bin_edges(duration_seconds: float) -> Floats:
    """Edges of at most `MAX_BINS` bins of one round width from 0 to the end; a short rest joins the last bin."""
    most = duration_seconds / MAX_BINS
    width = next((width for width in BIN_SECONDS if width >= most), math.ceil(most / 3600) * 3600)
    whole = max(int(duration_seconds / width + 0.5), 1)
    return np.append(np.arange(whole) * float(width), duration_seconds)


class _Flow:
    """Counts, bin by bin, what happened to arrivals; fed with blocks of rows in any order."""

    def __init__(self, edges: Floats) -> None:
        self._edges = edges
        bins = len(edges) - 1
        self.happened = {name: np.zeros(bins) for name in ("started", "completed", "failed", "dropped")}
        self._finished = np.zeros(bins)
        self._oldest = np.full(bins, np.inf)

    def add(self, rows: Rows) -> None:
        end, scheduled, sent, done = rows["end"], rows["scheduled"], rows["sent"], rows["done"]
        dropped = np.isin(end, DROPPED)
        self._count("started", sent)
        self._count("completed", done[end == End.OK])
        self._count("failed", done[np.isin(end, FAILED)])
        self._count("dropped", np.where(np.isnan(done), scheduled, done)[dropped])
        flown = ~np.isnan(sent) & ~dropped
        self._finished += self._histogram(done[flown])
        self._see_oldest(scheduled[flown], sent[flown], done[flown])

    @property
    def in_flight(self) -> Floats:
        """Requests sent and not answered at each bin's end."""
        return np.cumsum(self.happened["started"] - self._finished)

    @property
    def oldest_seconds(self) -> Floats:
        """Age at each bin's end of the oldest request in flight, from its scheduled instant."""
        return np.where(np.isinf(self._oldest), 0.0, self._edges[1:] - self._oldest)

    def _count(self, name: str, instants: Floats) -> None:
        self.happened[name] += self._histogram(instants)

    def _histogram(self, instants: Floats) -> NDArray[np.int64]:
        return np.histogram(instants[~np.isnan(instants)], self._edges)[0]

    def _see_oldest(self, scheduled: Floats, sent: Floats, done: Floats) -> None:
        """A request is in flight at each bin's end from its sending to its answer (a NaN answer never comes)."""
        first = np.searchsorted(self._edges[1:], sent, side="left")
        after = np.searchsorted(self._edges[1:], done, side="left")
        crossing = first < after
        first, after, scheduled = first[crossing], after[crossing], scheduled[crossing]
        while first.size:
            np.minimum.at(self._oldest, first, scheduled)
            first = first + 1
            longer = first < after
            first, after, scheduled = first[longer], after[longer], scheduled[longer]


def curve(measured: Samples) -> list[list[float | None]]:
    """`[q, total, service]` from the median's side to the largest sample, evenly spaced in log(1−q).

    `total` (from the scheduled instant, over all arrivals) is None where it is +∞. `service` (from the actual send) is
    over the requests that got a reply, because only those have one; None when there is none. Seconds.
    """
    total = np.sort(measured.total_seconds)
    if not total.size:
        return []
    service = measured.service_seconds
    service = np.sort(service[~np.isnan(service)])
    last = math.log10(2 * total.size)  # half a sample from the end, so that the last point is the maximum
    spaced = 1 - 10 ** -np.linspace(0, last, CURVE_POINTS)
    points = np.union1d(spaced, [q for q in NINES if q < spaced[-1]])
    return [[float(q), _quantile(total, q), _quantile(service, q)] for q in points]


def histogram(measured: Samples) -> dict[str, Any]:
    """Counts of successes between log-spaced `edges_seconds` (one more than `counts`), and how many were `lost`.

    Every success is in a bar. Without any success both lists are empty.
    """
    total = measured.total_seconds
    successes = np.maximum(total[np.isfinite(total)], SHORTEST_SECONDS)
    lost = int(total.size - successes.size)
    if not successes.size:
        return {"edges_seconds": [], "counts": [], "lost": lost}
    lowest, highest = math.log10(successes.min()), math.log10(successes.max())
    per_decade = next((n for n in (160, 80, 40, 20, 10) if (highest - lowest) * n <= MAX_BARS - 2), 5)
    first, last = math.floor(lowest * per_decade), math.floor(highest * per_decade) + 1
    edges = 10 ** (np.arange(first, last + 1) / per_decade)
    edges[0], edges[-1] = min(edges[0], successes.min()), max(edges[-1], successes.max())  # whatever rounding did
    return {"edges_seconds": _listed(edges), "counts": np.histogram(successes, edges)[0].tolist(), "lost": lost}


def _quantile(ordered: Floats, q: float) -> float | None:
    """The ⌈q·n⌉-th smallest; None when it is +∞ or when there are none."""
    if not ordered.size:
        return None
    value = float(ordered[rank(q, ordered.size) - 1])
    return value if math.isfinite(value) else None


def _listed(values: NDArray[Any]) -> list[float | None]:
    """As plain numbers, whole ones without a fraction and the others with the six digits that a drawing can use."""
    rounded = (float(f"{value:.6g}") for value in values.tolist())
    return [int(value) if value.is_integer() else value for value in rounded]
