"""Latency from bucketed counts: merged, differenced, and asked for quantiles over *all* arrivals.

An arrival that was dropped, shed or failed has no latency to put in a bucket; it counts as +∞, so that a service cannot
look fast by refusing work.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

_ROUNDING = 1e-9  # 0.07 * 100 is 7.000000000000001, which must not spill into the next bucket


@dataclass(frozen=True, slots=True)
class Histogram:
    """Latencies of answered requests by bucket, and how many arrivals never got a good answer.

    `edges` are finite upper edges in seconds, ascending; `counts` has one more entry than `edges`, the last one for
    what lies beyond the last edge, and is *not* cumulative. Counts may be any non-negative numbers.
    """

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    sum_seconds: float = 0.0
    lost: float = 0.0

    def __post_init__(self) -> None:
        if not self.edges or any(a >= b for a, b in pairwise(self.edges)):
            raise ValueError("bucket edges must be ascending and at least one")
        if len(self.counts) != len(self.edges) + 1:
            raise ValueError(f"{len(self.counts)} counts for {len(self.edges)} edges; expected one more than edges")
        if self.lost < 0 or any(count < 0 for count in self.counts):
            raise ValueError("a count is negative; was the counting process restarted?")

    @classmethod
    def from_cumulative(
        cls, edges: Sequence[float], cumulative: Sequence[float], sum_seconds: float = 0.0, lost: float = 0.0
    ) -> "Histogram":
        """From counts "at most this edge", as Prometheus exports them: finite `edges`, then one total for +Inf."""
        steps = (0.0, *cumulative)
        counts = tuple(high - low for low, high in pairwise(steps))
        return cls(tuple(edges), counts, sum_seconds, lost)

    @property
    def answered(self) -> float:
        return sum(self.counts)

    @property
    def total(self) -> float:
        """All arrivals: answered and lost."""
        return self.answered + self.lost

    @property
    def lost_share(self) -> float:
        return self.lost / self.total if self.total else 0.0

    @property
    def mean(self) -> float | None:
        """Mean seconds of the *answered*: the flattering figure that hides the rest. None when nothing was answered."""
        return self.sum_seconds / self.answered if self.answered else None

    def quantile(self, q: float) -> float | None:
        """Seconds within which the share `q` of all arrivals was answered.

        Interpolates linearly inside a bucket, as Prometheus's histogram_quantile does. `math.inf` when the quantile
        lies beyond the last edge or among the lost; None when nothing arrived.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"quantile {q} is not between 0 and 1")
        if not self.total:
            return None
        rank = q * self.total
        below = 0.0
        for index, (edge, count) in enumerate(zip(self.edges, self.counts, strict=False)):
            if count and below + count >= rank - _ROUNDING * self.total:
                lower = self.edges[index - 1] if index else 0.0
                return lower + (edge - lower) * min(max((rank - below) / count, 0.0), 1.0)
            below += count
        return math.inf

    def beyond_last_edge(self, q: float) -> bool:
        """Whether the quantile is an answer slower than the last edge (True) rather than no answer at all (False)."""
        inf = self.quantile(q) == math.inf
        return inf and self.answered >= q * self.total - _ROUNDING * self.total and self.answered > 0

    def share_within(self, edge_seconds: float) -> float | None:
        """Share of all arrivals answered within `edge_seconds`, counted, not interpolated: it must be an edge."""
        if edge_seconds not in self.edges:
            raise ValueError(f"{edge_seconds:g} s is no bucket edge, so requests within it were not counted")
        if not self.total:
            return None
        return list(accumulate(self.counts))[self.edges.index(edge_seconds)] / self.total

    def __add__(self, other: "Histogram") -> "Histogram":
        return self._combine(other, 1)

    def __sub__(self, earlier: "Histogram") -> "Histogram":
        """What came between two looks at the same running counts; ValueError when they ran backwards."""
        return self._combine(earlier, -1)

    def _combine(self, other: "Histogram", sign: int) -> "Histogram":
        if self.edges != other.edges:
            raise ValueError("histograms with different bucket edges cannot be combined")
        return Histogram(
            self.edges,
            tuple(mine + sign * theirs for mine, theirs in zip(self.counts, other.counts, strict=True)),
            self.sum_seconds + sign * other.sum_seconds,
            self.lost + sign * other.lost,
        )
