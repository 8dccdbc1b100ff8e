import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.batching.cost import (
    FORGET_AFTER,
    NEEDED_PER_CLASS,
    CostEstimator,
    CostModel,
    fit_line,
    upper_quantile,
)


def learned(samples: list[tuple[int, float]]) -> CostModel | None:
    estimator = CostEstimator()
    for rows, seconds in samples:
        estimator.observe(rows, seconds)
    return estimator.current


def line(rows: int, fixed: float = 0.005, per_row: float = 0.0001) -> tuple[int, float]:
    return rows, fixed + per_row * rows


def test_learns_the_line() -> None:
    cost = learned([line(rows) for rows in (1, 8, 32, 128) for _ in range(16)])
    assert cost is not None
    assert cost.fixed_seconds == pytest.approx(0.005)
    assert cost.per_row_seconds == pytest.approx(0.0001)
    assert cost.seconds(100) == pytest.approx(0.015)


def test_says_nothing_of_few_samples_or_of_one_size() -> None:
    few = NEEDED_PER_CLASS - 1
    assert learned([line(1)] * 100 + [line(32)] * few) is None
    assert learned([line(1)] * 100) is None
    assert learned([line(1)] * 100 + [line(32)] * NEEDED_PER_CLASS) is not None


def test_one_wild_sample_in_ten_does_not_matter() -> None:
    random.seed(1)
    samples = [line(rows) if random.random() > 0.1 else (rows, 0.5) for rows in (1, 32) for _ in range(200)]
    cost = learned(samples)
    assert cost is not None
    assert cost.fixed_seconds == pytest.approx(0.005, rel=0.01)


def test_follows_the_upper_quarter_rather_than_the_middle() -> None:
    samples = [(rows, 0.004 if i % 2 else 0.006) for rows in (1, 32) for i in range(32)]
    cost = learned(samples)
    assert cost is not None
    assert cost.seconds(1) == pytest.approx(0.006)


def test_a_model_that_became_slower_is_followed() -> None:
    estimator = CostEstimator()
    for slow in (1, 3):
        for _ in range(40):
            for rows in (1, 32):
                estimator.observe(rows, slow * line(rows)[1])
    assert estimator.current is not None
    assert estimator.current.fixed_seconds == pytest.approx(0.015)


def test_one_size_alone_scales_the_line_and_keeps_its_shape() -> None:
    estimator = CostEstimator()
    for rows in (1, 32):
        for _ in range(10):
            estimator.observe(*line(rows))
    for _ in range(FORGET_AFTER + 40):  # only single rows from now on, ten times slower
        estimator.observe(1, 0.051)
    assert estimator.current is not None
    assert estimator.current.seconds(1) == pytest.approx(0.051)
    assert estimator.current.fixed_seconds / estimator.current.per_row_seconds == pytest.approx(50)


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(1e-6, 10)), min_size=2, max_size=8))
def test_costs_are_never_negative(points: list[tuple[int, float]]) -> None:
    cost = fit_line([(float(rows), seconds) for rows, seconds in points])
    assert cost.fixed_seconds >= 0
    assert cost.per_row_seconds >= 0


def test_fit_through_zero_when_there_is_no_fixed_cost() -> None:
    assert fit_line([(1.0, 0.001), (8.0, 0.010), (64.0, 0.080)]).fixed_seconds == 0.0


def test_falling_times_make_a_flat_line() -> None:
    cost = fit_line([(1.0, 0.010), (32.0, 0.005)])
    assert cost.per_row_seconds == 0.0
    assert 0.005 <= cost.fixed_seconds <= 0.010


@pytest.mark.parametrize(
    ("values", "q", "expected"), [([3.0], 0.75, 3.0), ([1.0, 2.0, 3.0, 4.0], 0.75, 3.0), ([2.0, 1.0], 0.5, 1.0)]
)
def test_upper_quantile(values: list[float], q: float, expected: float) -> None:
    assert upper_quantile(values, q) == expected
