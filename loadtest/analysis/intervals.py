"""How sure a figure is when its samples are correlated, as latencies are: one slow request has slow neighbours.

The variance of a mean comes from batch means (Law, Simulation Modeling and Analysis, ch. 9), corrected for what the
batches still have in common: their lag-1 correlation, taken as that of an AR(1) process. Independent samples with the
same variance would be fewer: the effective samples (n_eff).

A quantile's interval inverts a test: x is inside when the share of samples above x is within t·√(q(1−q)/n_eff) of 1−q.
That needs no model of the latencies, but nothing above the largest sample can be excluded unless about 4/(1−q)
effective samples are there, and at 80% load a queue gives one for some 80 arrivals. So with fewer than 10 effective
samples beyond the quantile a second interval is taken, and the hull of both is told: that of a tail that decays
exponentially beyond a high sample (a queue's waiting times do, by Cramér and Lundberg), as the mean excess gives it. It
is symmetric in the *reciprocal* of the quantile: a queue's latency is the reciprocal of its slack, the spare capacity,
and it is the slack whose estimate is nearly normal. Without an upper end the slack may be none. A service whose tail is
heavier than exponential may lie above the second interval's upper end; more effective samples make it unnecessary.

Constants without a formula are set by simulation of M/M/1 queues; the tests repeat it.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from loadtest.analysis.order import quantile, quantiles
from loadtest.analysis.samples import Floats

BATCHES: Final = 10
LEAST_SAMPLES: Final = 2 * BATCHES  # below it there is no telling how they hang together
ENOUGH_BEYOND: Final = 10  # effective samples beyond a quantile for which order statistics alone are trusted

_CONFIDENCE: Final = 0.95
_TAIL_SAMPLES: Final = 100  # effective samples in the fitted tail, which starts at the median at the lowest
_DEGREES: Final = BATCHES - 2  # a mean and a correlation were estimated
_TAIL_DEGREES: Final = BATCHES // 2 - 1  # and a tail, whose few bursts make its own variance uncertain
_MOST_CORRELATED: Final = 0.8


@dataclass(frozen=True, slots=True)
class Interval:
    """95% interval of a quantile in the samples' unit; `high` is +inf when the samples do not bound it."""

    low: float
    high: float
    effective_samples: float  # independent samples that would say as much

    def holds(self, value: float) -> bool:
        """Whether `value` lies inside."""
        return self.low <= value <= self.high


def quantile_interval(values: npt.ArrayLike, q: float) -> Interval:
    """95% interval of the quantile `q` of `values`: at least one, in time order, +inf where an arrival was lost."""
    array = np.asarray(values, dtype=np.float64)
    point, largest = quantiles(array, (q, 1.0))
    if len(array) < LEAST_SAMPLES:
        return Interval(float(array.min()), math.inf, float(len(array)))
    effective = effective_samples(array > point if point < math.inf else np.isinf(array))
    if effective * (1 - q) >= ENOUGH_BEYOND:
        low, high = _by_order(array, q, effective, _DEGREES)
    else:
        low, high = _by_order(array, q, effective, _TAIL_DEGREES)
        if point < math.inf:
            tail_low, tail_high = _by_tail(array, q, min(0.5, _TAIL_SAMPLES / effective))
            low = min(low, tail_low)
            high = max(largest if high == math.inf else high, tail_high)
    return Interval(low, high, effective)


def effective_samples(flags: npt.NDArray[np.bool_]) -> float:
    """How many independent flags would tell their share as well as these, which are in time order, do."""
    share = float(flags.mean())
    variance = variance_of_mean(flags.astype(np.float64))
    count = float(len(flags))
    return min(count, share * (1 - share) / variance) if variance > 0 else count


def variance_of_mean(values: Floats) -> float:
    """Variance of the mean of `values`, which are in time order and at least BATCHES; a short rest stays out."""
    size = len(values) // BATCHES
    means = values[: size * BATCHES].reshape(BATCHES, size).mean(axis=1)
    return variance_of_correlated(means)


def variance_of_correlated(means: Floats) -> float:
    """Variance of the mean of at least two values in time order that may follow an AR(1) process."""
    around = means - means.mean()
    squares = float(around @ around)
    if squares == 0:
        return 0.0
    lag = float(around[1:] @ around[:-1]) / squares
    lag += (1 + 3 * lag) / len(means)  # Kendall 1954: what so few values underestimate it by
    lag = min(max(lag, 0.0), _MOST_CORRELATED)
    return squares / (len(means) - 1) / len(means) * (1 + lag) / (1 - lag)


def _by_order(values: Floats, q: float, effective: float, degrees: int) -> tuple[float, float]:
    half = student_t((1 + _CONFIDENCE) / 2, degrees) * math.sqrt(q * (1 - q) / effective)
    low = quantile(values, max(q - half, 0.0))
    return low, quantile(values, q + half) if q + half < 1 else math.inf


def _by_tail(values: Floats, q: float, beyond: float) -> tuple[float, float]:
    """From the share `beyond` of all samples, as if their tail were exponential; lost ones as the slowest answer."""
    beyond = max(beyond, 1 - q)
    start = quantile(values, 1 - beyond)
    above = values > start
    if not above.any() or start == math.inf:
        return math.inf, -math.inf  # all samples of the tail are equal: it adds nothing
    slowest = float(values.max(initial=start, where=np.isfinite(values)))
    excess = np.where(above, np.minimum(values, slowest) - start, 0.0)
    share = float(above.mean())
    mean_excess = float(excess.sum()) / int(above.sum())
    if mean_excess == 0:
        return math.inf, -math.inf
    steps = math.log(share / (1 - q))
    point = start + mean_excess * steps
    # What each sample adds to the estimate (its influence function): through the share above, through the mean excess.
    influence = mean_excess / share * (above - share) + steps / share * np.where(above, excess - mean_excess, 0.0)
    half = student_t((1 + _CONFIDENCE) / 2, _TAIL_DEGREES) * math.sqrt(variance_of_mean(influence)) / point
    return point / (1 + half), point / (1 - half) if half < 1 else math.inf


def student_t(share: float, degrees: float) -> float:
    """Quantile of Student's t for at least three degrees of freedom, to 0.5%: Abramowitz and Stegun 26.7.5."""
    z = NormalDist().inv_cdf(share)
    return (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )
