"""How sure a quantile is when its samples are correlated, as latencies are: one slow request has slow neighbours."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from loadtest.analysis.order import quantiles
from loadtest.analysis.samples import Floats

BATCHES: Final = 20


@dataclass(frozen=True, slots=True)
class Interval:
    """95% interval of a quantile in the samples' unit; `high` is +inf when the samples do not bound it."""

    low: float
    high: float
    effective_samples: float  # independent samples that would say as much

    def holds(self, value: float) -> bool:
        """Whether `value` lies inside."""
        return self.low <= value <= self.high


def quantile_interval(values: Floats, q: float) -> Interval:
    """Interval of the quantile `q` of `values`, which are in time order and may hold +inf."""
    point = quantiles(values, (q,))[0]
    effective = effective_samples(np.asarray(values) > point if point < math.inf else np.isinf(values))
    half = 1.96 * math.sqrt(q * (1 - q) / effective)
    low = quantiles(values, (max(0.0, q - half),))[0]
    high = quantiles(values, (q + half,))[0] if q + half < 1 else math.inf
    return Interval(low, high, effective)


def effective_samples(flags: "np.typing.NDArray[np.bool_]") -> float:
    """How many independent flags would estimate their share as well as these correlated ones, by batch means."""
    count = len(flags)
    batches = min(BATCHES, count)
    share = float(flags.mean())
    means = np.array([part.mean() for part in np.array_split(flags, batches)])
    variance = float(means.var(ddof=1)) / batches if batches > 1 else 0.0
    return min(float(count), share * (1 - share) / variance) if variance > 0 else float(count)
