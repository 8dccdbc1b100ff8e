"""Latencies to three digits against the exact order statistics, and merged against pooled (CASES L6, L7, L8)."""

import math
import random

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.analysis.hdr import LARGEST_SECONDS, RELATIVE_ERROR, Hdr

QS = (0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0)
latencies = st.floats(1e-6, LARGEST_SECONDS) | st.floats(-6, 3.5).map(lambda exponent: 10.0**exponent)


def filled(values: list[float], lost: int = 0) -> Hdr:
    made = Hdr()
    for value in values:
        made.observe(value)
    made.lost = lost
    return made


def exact(values: list[float], lost: int, q: float) -> float:
    """The ⌈q·n⌉-th smallest, by counting and not by arithmetic."""
    ordered = sorted(values) + [math.inf] * lost
    rank = next(rank for rank in range(1, len(ordered) + 1) if rank / len(ordered) >= q - 1e-12)
    return ordered[rank - 1]


@given(st.lists(latencies, min_size=1, max_size=200), st.integers(0, 20))
def test_quantiles_are_the_exact_ones_to_three_digits(values: list[float], lost: int) -> None:
    made = filled(values, lost)
    for q, found in zip(QS, made.quantiles(QS), strict=True):
        assert found == pytest.approx(exact(values, lost, q), rel=RELATIVE_ERROR * 1.001, abs=1e-9)
        assert found is not None
        assert made.max is not None
        assert found <= made.max
    assert made.quantile(0.5) == made.quantiles(QS)[2]
    assert made.largest_seconds == max(values)


@given(st.lists(st.tuples(st.lists(latencies, max_size=60), st.integers(0, 5)), min_size=1, max_size=5))
def test_merged_workers_give_the_pooled_quantiles(workers: list[tuple[list[float], int]]) -> None:
    merged = Hdr()
    for values, lost in workers:
        merged.add(Hdr.unpacked(msgpack.loads(msgpack.dumps(filled(values, lost).packed()))))
    pooled = filled([value for values, _ in workers for value in values], sum(lost for _, lost in workers))
    assert merged.quantiles(QS) == pooled.quantiles(QS)
    assert (merged.total, merged.lost, merged.max) == (pooled.total, pooled.lost, pooled.max)
    assert merged.mean == pytest.approx(pooled.mean)


def bucket(seconds: float) -> int:
    made = filled([seconds])
    made._sort_in()
    (found,) = np.flatnonzero(made._counts).tolist()
    return int(found)


def test_the_buckets_follow_each_other_without_gap_or_overlap() -> None:
    """Every boundary of a power of two, from its last bucket to its first, moves on by exactly one bucket."""
    for bits in range(11, 41):
        last, first = (2**bits - 1) / 1e9, 2**bits / 1e9
        assert bucket(first) == bucket(last) + 1, bits
    assert [bucket(each / 1e9 + 1e-10) for each in (0, 1, 2047)] == [0, 1, 2047]


def test_many_latencies_need_no_more_room_than_a_few() -> None:
    values = np.random.default_rng(1).lognormal(-4, 1, 200_000).tolist()
    made = filled(values)
    assert sum(len(each) for each in made.packed()[:2]) < 40_000
    assert len(made._pending) < 1024  # what waits to be sorted in
    assert made.observed == 200_000
    assert made.quantile(0.99) == pytest.approx(exact_quick(values, 0.99), rel=RELATIVE_ERROR)


def exact_quick(values: list[float], q: float) -> float:
    return sorted(values)[math.ceil(q * len(values)) - 1]


def test_a_lost_arrival_ranks_above_every_latency() -> None:
    made = filled([0.01] * 98, lost=2)
    assert made.quantile(0.98) == pytest.approx(0.01, rel=RELATIVE_ERROR)
    assert made.quantile(0.99) == made.max == math.inf
    assert made.answered().quantile(0.99) == pytest.approx(0.01, rel=RELATIVE_ERROR)
    assert made.answered().max == 0.01
    assert made.lost == 2  # its success-only view is a copy


def test_nothing_arrived() -> None:
    assert Hdr().quantiles((0.5, 0.99)) == [None, None]
    assert (Hdr().max, Hdr().mean, Hdr().within(1.0), Hdr().largest_seconds) == (None, None, 0, 0.0)


def test_the_mean_is_that_of_the_answered() -> None:
    assert filled([0.1, 0.3], lost=5).mean == pytest.approx(0.2)


def test_those_beyond_a_threshold() -> None:
    made = filled([0.01, 0.02, 0.5, 0.7], lost=3)
    assert made.beyond(0.02).quantiles((0.0, 1.0)) == made.answered().quantiles((0.75, 1.0))
    assert (made.beyond(0.02).total, made.beyond(0.02).max) == (2, 0.7)
    assert (made.beyond(1.0).total, made.beyond(1.0).max) == (0, None)


@given(st.lists(latencies, max_size=100), st.floats(1e-5, 100.0))
def test_how_many_were_within_a_threshold(values: list[float], threshold: float) -> None:
    clear = [value for value in values if abs(value / threshold - 1) > 2 * RELATIVE_ERROR]
    made = filled([*clear, threshold], lost=3)  # one exactly at it, which is within
    assert made.within(threshold) == sum(value <= threshold for value in clear) + 1


def test_beyond_its_range() -> None:
    long = filled([LARGEST_SECONDS * 5])
    assert (long.max, long.quantile(1.0)) == (LARGEST_SECONDS * 5, pytest.approx(LARGEST_SECONDS, rel=0.001))
    early = filled([-1e-9])
    assert early.quantile(1.0) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_latency_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        filled([value]).quantile(0.5)


@pytest.mark.parametrize("q", [-0.01, 1.01, math.nan])
def test_what_is_no_quantile_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Hdr().quantile(q)


@pytest.mark.parametrize(
    "packed",
    [
        [b"\1\1", b"\1\1\2", 0, 0.1, 0.1],  # two counts for one bucket
        [b"\1\1\1", b"\1\1\2", 0, 0.1, 0.1],  # a bucket twice
        [b"\4\0\0\0\1", b"\1\1", 0, 0.1, 0.1],  # a bucket that there is not
        [b"\1\1", b"\1\1", -1, 0.1, 0.1],
        [b"\2\1", b"\1\1", 0, 0.1, 0.1],  # half a number
        [b"\3\1\1\1", b"\1\1", 0, 0.1, 0.1],
        [b"", b"", 0, 0.1, 0.1],
        [[1], [1], 0, 0.1, 0.1],
    ],
)
def test_a_packed_one_that_cannot_be_is_refused(packed: list[object]) -> None:
    with pytest.raises(ValueError, match="no packed histogram"):
        Hdr.unpacked(packed)


def test_the_order_of_observations_does_not_matter() -> None:
    values = [random.Random(3).lognormvariate(-4, 2) for _ in range(3000)]
    assert filled(values).quantiles(QS) == filled(values[::-1]).quantiles(QS)
