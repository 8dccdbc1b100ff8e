"""Quantiles of bucketed counts, in which what was never answered counts as +∞."""

import math
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.analysis.histogram import Histogram
from slo.buckets import duration_edges

EDGES = (0.01, 0.02, 0.05, 0.1)


@pytest.mark.parametrize(
    ("counts", "lost", "q", "expected"),
    [
        ((0, 0, 0, 0, 0), 0, 0.99, None),  # nothing arrived: no figure, not zero
        ((100, 0, 0, 0, 0), 0, 0.5, 0.005),  # the first bucket starts at zero
        ((50, 50, 0, 0, 0), 0, 0.5, 0.01),  # exactly at an edge
        ((0, 100, 0, 0, 0), 0, 0.0, 0.01),  # the lowest: the lower edge of the first filled bucket
        ((0, 0, 100, 0, 0), 0, 1.0, 0.05),  # the highest: an upper edge
        ((0, 0, 50, 50, 0), 0, 0.75, 0.075),  # in the middle of a bucket
        ((99, 0, 0, 0, 0), 1, 0.99, 0.01),  # exactly the allowed share is lost
        ((98, 0, 0, 0, 0), 2, 0.99, math.inf),  # one more: the quantile is a lost arrival
        ((98, 0, 0, 0, 0), 2, 0.95, 0.95 * 100 / 98 * 0.01),  # ... which moves the lower ones up, no more
        ((90, 0, 0, 0, 10), 0, 0.99, math.inf),  # slower than the last edge
        ((0, 0, 0, 0, 0), 5, 0.5, math.inf),  # everything was lost
        ((7, 93, 0, 0, 0), 0, 0.07, 0.01),  # 0.07 * 100 is a little over 7 in binary
    ],
)
def test_quantile(counts: tuple[float, ...], lost: float, q: float, expected: float | None) -> None:
    assert Histogram(EDGES, counts, lost=lost).quantile(q) == (None if expected is None else pytest.approx(expected))


def test_an_answer_beyond_the_last_edge_is_told_apart_from_no_answer() -> None:
    assert Histogram(EDGES, (90, 0, 0, 0, 10)).beyond_last_edge(0.99)
    assert not Histogram(EDGES, (90, 0, 0, 0, 0), lost=10).beyond_last_edge(0.99)
    assert not Histogram(EDGES, (100, 0, 0, 0, 0)).beyond_last_edge(0.99)
    assert not Histogram(EDGES, (0, 0, 0, 0, 0), lost=3).beyond_last_edge(0.0)


def test_the_mean_is_of_the_answered_and_hides_the_lost() -> None:
    histogram = Histogram(EDGES, (10, 0, 0, 0, 0), sum_seconds=0.05, lost=90)
    assert histogram.mean == pytest.approx(0.005)
    assert histogram.lost_share == pytest.approx(0.9)
    assert Histogram(EDGES, (0, 0, 0, 0, 0), lost=1).mean is None


def test_share_within_is_counted_at_an_edge() -> None:
    histogram = Histogram(EDGES, (10, 20, 30, 20, 10), lost=10)
    assert histogram.share_within(0.05) == pytest.approx(0.6)
    assert Histogram(EDGES, (0, 0, 0, 0, 0)).share_within(0.05) is None
    with pytest.raises(ValueError, match=r"0\.03 s is no bucket edge"):
        histogram.share_within(0.03)


def test_cumulative_counts_as_exported() -> None:
    histogram = Histogram.from_cumulative(EDGES, (1, 3, 3, 6, 10), sum_seconds=2.5, lost=1)
    assert histogram == Histogram(EDGES, (1, 2, 0, 3, 4), 2.5, 1)
    assert (histogram.answered, histogram.total) == (10, 11)


def test_a_window_is_the_difference_of_two_looks() -> None:
    before, after = Histogram(EDGES, (5, 1, 0, 0, 0), 0.1, 2), Histogram(EDGES, (8, 1, 4, 0, 0), 0.3, 7)
    assert after - before == Histogram(EDGES, (3, 0, 4, 0, 0), pytest.approx(0.2), 5)
    with pytest.raises(ValueError, match="restarted"):
        before - after


@pytest.mark.parametrize(
    ("edges", "counts", "lost", "wrong"),
    [
        ((), (1,), 0, "ascending"),
        ((0.2, 0.1), (1, 1, 1), 0, "ascending"),
        ((0.1, 0.1), (1, 1, 1), 0, "ascending"),
        ((0.1,), (1,), 0, "1 counts for 1 edges"),
        ((0.1,), (1, -1), 0, "negative"),
        ((0.1,), (1, 1), -1, "negative"),
    ],
)
def test_what_is_no_histogram_is_refused(
    edges: tuple[float, ...], counts: tuple[float, ...], lost: float, wrong: str
) -> None:
    with pytest.raises(ValueError, match=wrong):
        Histogram(edges, counts, lost=lost)


def test_different_edges_do_not_mix_and_quantiles_are_shares() -> None:
    one = Histogram(EDGES, (1, 0, 0, 0, 0))
    with pytest.raises(ValueError, match="different bucket edges"):
        one + Histogram((0.1,), (1, 0))
    with pytest.raises(ValueError, match="not between 0 and 1"):
        one.quantile(99)


STANDARD = duration_edges(0.05)


def bucketed(latencies: list[float], lost: int) -> Histogram:
    counts = [0.0] * (len(STANDARD) + 1)
    for seconds in latencies:
        counts[bisect_left(STANDARD, seconds)] += 1
    return Histogram(STANDARD, tuple(counts), sum(latencies), lost)


@given(
    st.lists(st.floats(0.0005, 20), min_size=1, max_size=200),
    st.integers(0, 50),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_the_estimate_lies_in_the_bucket_of_the_exact_order_statistic(
    latencies: list[float], lost: int, q: float
) -> None:
    everything = sorted([*latencies, *[math.inf] * lost])
    exact = everything[max(math.ceil(q * len(everything) - 1e-9) - 1, 0)]
    estimate = bucketed(latencies, lost).quantile(q)
    assert estimate is not None
    if exact > STANDARD[-1]:
        assert estimate == math.inf
        return
    bucket = bisect_left(STANDARD, exact)
    lower = STANDARD[bucket - 1] if bucket else 0.0
    assert lower <= estimate <= STANDARD[bucket] * (1 + 1e-9)


@given(
    st.lists(st.floats(0.0005, 20), max_size=60),
    st.lists(st.floats(0.0005, 20), max_size=60),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_merging_then_removing_gives_back_and_more_lost_is_never_faster(
    a: list[float], b: list[float], lost_a: int, lost_b: int
) -> None:
    one, two = bucketed(a, lost_a), bucketed(b, lost_b)
    back = (one + two) - two
    assert (back.counts, back.lost) == (one.counts, one.lost)
    before, after = one.quantile(0.95), (one + bucketed([], lost_b)).quantile(0.95)
    if before is not None and after is not None:
        assert after >= before - 1e-9
    quantiles = [one.quantile(q / 20) for q in range(21)]
    known = [value for value in quantiles if value is not None]
    assert known == sorted(known)
