"""Exact order statistics: the quantile is a value that was measured, or +inf, never one in between."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

_DIGITS: Final = 6  # 0.07 * 100 is 7.000000000000001 in binary, which must not become the 8th smallest


def rank(q: float, count: int) -> int:
    """The nearest rank ⌈q·count⌉, from 1; ValueError for a quantile outside 0…1 or without samples."""
    if not 0 <= q <= 1:
        raise ValueError(f"quantile {q} is not between 0 and 1")
    if count < 1:
        raise ValueError("there are no samples to take a quantile of")
    return min(count, max(1, math.ceil(round(q * count, _DIGITS))))


def quantiles(values: npt.ArrayLike, qs: Sequence[float]) -> list[float]:
    """For each of `qs` the ⌈q·n⌉-th smallest of `values`, which may hold +inf but not NaN; in one pass.

    q = 1 is the maximum, so no quantile is above it.
    """
    array = np.asarray(values, dtype=np.float64)
    places = [rank(q, len(array)) - 1 for q in qs]
    parted = np.partition(array, [*sorted(set(places)), len(array) - 1])  # NaN sorts last: the last place shows it
    if math.isnan(parted[-1]):
        raise ValueError("a sample is NaN; lost arrivals are +inf")
    return [float(parted[place]) for place in places]


def quantile(values: npt.ArrayLike, q: float) -> float:
    """The ⌈q·n⌉-th smallest of `values`."""
    return quantiles(values, (q,))[0]


def percentile_name(q: float) -> str:
    """0.99 as "p99", 0.999 as "p99.9"."""
    return f"p{100 * q:.10g}"
