"""Exact order statistics."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.analysis.order import percentile_name, quantile, quantiles, rank

times = st.floats(min_value=0, allow_nan=False, allow_infinity=True)


@pytest.mark.parametrize(
    ("q", "count", "expected"),
    [
        (0.99, 100, 99),  # one of a hundred may be worse
        (0.99, 101, 100),  # not two of 101
        (0.99, 99, 99),  # nor one of 99
        (0.07, 100, 7),  # 0.07 * 100 is a little over 7 in binary
        (0.999, 10_000_000, 9_990_000),
        (0, 5, 1),
        (1, 5, 5),
    ],
)
def test_nearest_rank(q: float, count: int, expected: int) -> None:
    assert rank(q, count) == expected


@given(st.lists(times, min_size=1, max_size=200), st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_quantiles_are_what_sorting_gives(values: list[float], qs: list[float]) -> None:
    assert quantiles(values, qs) == [sorted(values)[rank(q, len(values)) - 1] for q in qs]


@given(st.lists(times, min_size=1, max_size=200))
def test_p99_is_never_above_the_maximum(values: list[float]) -> None:
    p50, p99, highest = quantiles(values, (0.5, 0.99, 1.0))
    assert p50 <= p99 <= highest == max(values)


def test_lost_arrivals_are_the_slowest() -> None:
    values = np.array([math.inf] + [0.01] * 99)
    assert quantile(values, 0.99) == 0.01
    assert quantile(np.array([math.inf] * 2 + [0.01] * 98), 0.99) == math.inf


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        quantile([], 0.5)
    with pytest.raises(ValueError, match="NaN"):
        quantile([1.0, math.nan], 0.5)
    with pytest.raises(ValueError, match="not between 0 and 1"):
        quantile([1.0], 1.01)


def test_names() -> None:
    assert [percentile_name(q) for q in (0.5, 0.95, 0.99, 0.999, 0.9999)] == ["p50", "p95", "p99", "p99.9", "p99.99"]
