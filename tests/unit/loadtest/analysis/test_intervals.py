"""Intervals of quantiles: how often they hold the truth when the samples come from a queue."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loadtest.analysis.intervals import Interval, effective_samples, quantile_interval, student_t, variance_of_mean

Q = 0.99


def told(queues: Any, q: float = Q) -> tuple[float, float]:
    """Share of the queues whose interval holds the true quantile, and share of those without an upper end."""
    intervals = [quantile_interval(row, q) for row in queues.sojourns]
    truth = queues.quantile(q)
    return float(np.mean([each.holds(truth) for each in intervals])), float(
        np.mean([each.high == math.inf for each in intervals])
    )


@pytest.mark.parametrize(
    ("load", "arrivals", "runs"),
    [
        (0.8, 2_000, 500),  # 100/s for 20 s: some 25 effective samples
        (0.8, 6_000, 400),
        (0.8, 20_000, 200),
        (0.8, 60_000, 100),  # 1,000/s for 60 s
        (0.5, 2_000, 300),
        (0.5, 20_000, 100),
    ],
)
def test_an_interval_holds_the_p99_of_a_queue(
    queues: Callable[..., Any], load: float, arrivals: int, runs: int
) -> None:
    coverage, endless = told(queues(load, runs, arrivals, seed=20))
    assert coverage >= 0.90
    assert endless <= 0.20


def test_independent_samples_would_be_believed_far_too_much(queues: Callable[..., Any]) -> None:
    # The same order statistics as if the samples were independent: why effective samples are needed at all.
    simulated = queues(0.8, 300, 6_000, seed=3)
    half = 1.96 * math.sqrt(Q * (1 - Q) / 6_000)
    lows, highs = np.quantile(simulated.sojourns, [Q - half, Q + half], axis=1)
    truth = simulated.quantile(Q)
    assert np.mean((lows <= truth) & (truth <= highs)) < 0.6


def test_independent_samples_of_a_heavier_tail() -> None:
    random = np.random.default_rng(4)
    truth = math.exp(2.3263478740408408)  # the normal's 0.99 quantile
    intervals = [quantile_interval(random.lognormal(0, 1, 2_000), Q) for _ in range(200)]
    assert np.mean([each.holds(truth) for each in intervals]) >= 0.90
    assert np.median([each.high - each.low for each in intervals]) < truth


def test_effective_samples_of_a_queue_are_about_one_for_eighty_arrivals(queues: Callable[..., Any]) -> None:
    simulated = queues(0.8, 20, 60_000, seed=5)
    truth = simulated.quantile(Q)
    found = np.median([effective_samples(row > truth) for row in simulated.sojourns])
    assert 60_000 / 80 / 2 < found < 60_000 / 80 * 2


def test_effective_samples_of_independent_ones_are_about_as_many_as_there_are() -> None:
    flags = np.random.default_rng(6).random((100, 5_000)) < 0.01
    assert np.median([effective_samples(row) for row in flags]) > 2_500
    assert effective_samples(np.zeros(100, dtype=bool)) == 100


def test_neighbours_that_are_alike_count_once() -> None:
    values = np.random.default_rng(7).exponential(1, 2_000)
    alone, tenfold = variance_of_mean(values), variance_of_mean(np.repeat(values, 10))
    assert tenfold == pytest.approx(alone)


def test_an_interval_holds_its_own_quantile() -> None:
    random = np.random.default_rng(8)
    for count in (20, 21, 99, 1_000, 10_000):
        values = random.lognormal(0, 2, count)
        for q in (0.5, 0.9, 0.99, 0.999):
            assert quantile_interval(values, q).holds(np.quantile(values, q, method="inverted_cdf"))


def test_a_stall_is_not_smoothed_away() -> None:
    # 20 s at 100/s, 5 ms each, and one stall of 1 s in the middle whose arrivals wait for its end.
    values = np.full(2_000, 0.005)
    values[1_000:1_100] += np.linspace(1, 0, 100)
    interval = quantile_interval(values, Q)
    assert interval.high >= 1.0


def test_lost_arrivals_have_no_upper_end() -> None:
    values = np.random.default_rng(9).exponential(1, 10_000)
    values[::90] = math.inf  # 1.1%: the quantile itself is a lost arrival
    interval = quantile_interval(values, Q)
    assert (interval.low < math.inf, interval.high) == (True, math.inf)
    values[:] = math.inf
    assert quantile_interval(values, Q) == Interval(math.inf, math.inf, 10_000)


def test_a_few_lost_arrivals_leave_a_finite_interval() -> None:
    values = np.random.default_rng(10).exponential(1, 100_000)
    values[::5_000] = math.inf
    assert quantile_interval(values, Q).high < 6


def test_equal_samples_have_no_width() -> None:
    interval = quantile_interval(np.full(5_000, 0.25), Q)
    assert (interval.low, interval.high) == (0.25, 0.25)


def test_very_few_samples_bound_nothing_from_above() -> None:
    assert quantile_interval([1.0, 2.0, 3.0], Q) == Interval(1.0, math.inf, 3)
    with pytest.raises(ValueError, match="no samples"):
        quantile_interval([], Q)


@pytest.mark.parametrize(
    ("share", "degrees", "expected"),
    [(0.975, 4, 2.776), (0.975, 8, 2.306), (0.975, 30, 2.042), (0.99, 8, 2.896), (0.95, 10, 1.812)],
)
def test_students_t_as_tables_have_it(share: float, degrees: int, expected: float) -> None:
    assert student_t(share, degrees) == pytest.approx(expected, rel=0.005)
