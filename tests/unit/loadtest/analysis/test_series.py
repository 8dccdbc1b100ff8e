"""What a report draws, against sums done by hand and against the samples one by one."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.analysis.samples import SAMPLE, End, Samples
from loadtest.analysis.series import MAX_BINS, bin_edges, curve, histogram, over_time, series

NAN = math.nan


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (3, [0, 1, 2, 3]),
        (3.4, [0, 1, 2, 3.4]),  # a short rest joins the last bin
        (3.6, [0, 1, 2, 3, 3.6]),  # a long one is a bin
        (0.2, [0, 0.2]),
    ],
)
def test_bins_are_a_second_wide(seconds: float, expected: list[float]) -> None:
    assert bin_edges(seconds).tolist() == pytest.approx(expected)


@given(st.floats(0.01, 1e7))
def test_bins_cover_any_run_and_stay_few(seconds: float) -> None:
    edges = bin_edges(seconds)
    assert 1 <= len(edges) - 1 <= MAX_BINS
    assert (edges[0], edges[-1]) == (0, seconds)
    assert np.all(np.diff(edges) > 0)


def test_what_happened_is_counted_where_it_happened() -> None:
    run = Samples.of(
        [
            (0.1, 0.1, 0.2, End.OK, 0),
            (0.2, 0.3, 2.5, End.OK, 0),  # in flight at 1 s and 2 s
            (0.3, 0.3, 1.5, End.TIMED_OUT, 0),  # in flight at 1 s
            (0.9, NAN, 1.1, End.DROPPED, 0),  # due in one second, dropped in the next
            (1.2, NAN, NAN, End.GAP, 1),
            (2.4, 2.4, NAN, End.IN_FLIGHT, 0),
        ]
    )
    told = over_time(run, 3)
    assert told["edges_seconds"] == [0, 1, 2, 3]
    assert told["offered_per_second"] == [4, 1, 1]
    assert told["started_per_second"] == [3, 0, 1]
    assert told["completed_per_second"] == [1, 0, 1]
    assert told["failed_per_second"] == [0, 1, 0]
    assert told["dropped_per_second"] == [0, 2, 0]
    assert told["in_flight"] == [2, 1, 1]
    assert told["oldest_in_flight_seconds"] == pytest.approx([0.8, 1.8, 0.6])


def test_latencies_belong_to_the_second_in_which_a_request_was_due_and_losses_are_infinite() -> None:
    run = Samples.of(
        [
            *((0.01 * k, 0.01 * k, 0.01 * k + 0.005, End.OK, 0) for k in range(98)),
            *((0.98, 0.98, 0.99, End.SHED, 0) for _ in range(2)),
            (1.5, 1.6, 1.7, End.OK, 0),
        ]
    )
    told = over_time(run, 3)
    assert told["p50"] == pytest.approx([0.005, 0.2, None])
    assert told["p95"] == pytest.approx([0.005, 0.2, None])
    assert told["p99"] == [None, pytest.approx(0.2), None]  # 2% were shed; nothing was due in the last second
    assert told["mean"] == pytest.approx([0.005, 0.2, None])
    assert told["lateness_p99"] == pytest.approx([0, 0.1, None])


def made_up(rows: int, seed: int = 1, seconds: float = 50.0) -> Samples:
    random = np.random.default_rng(seed)
    array = np.empty(rows, dtype=SAMPLE)
    array["scheduled"] = np.sort(random.uniform(0, seconds, rows))
    array["sent"] = array["scheduled"] + random.exponential(0.0005, rows)
    array["done"] = array["sent"] + random.lognormal(-4, 1.0, rows)
    array["end"] = random.choice(np.array(list(End)), rows, p=[0.9, 0.01, 0.01, 0.01, 0.01, 0.01, 0.03, 0.01, 0.01])
    array["worker"] = 0
    array["sent"][np.isin(array["end"], (End.DROPPED, End.GAP))] = NAN
    array["done"][np.isin(array["end"], (End.GAP, End.IN_FLIGHT))] = NAN
    return Samples(array)


def test_in_flight_and_the_oldest_age_agree_with_a_look_at_every_row() -> None:
    run = made_up(5000)
    told = over_time(run, 50)
    rows = run.rows
    for index, instant in enumerate(told["edges_seconds"][1:]):
        flying = (rows["sent"] <= instant) & ~(rows["done"] <= instant)
        assert told["in_flight"][index] == flying.sum()
        assert told["oldest_in_flight_seconds"][index] == pytest.approx(
            instant - rows["scheduled"][flying].min(), rel=1e-4
        )


def test_rates_add_up_to_the_counts_of_the_run() -> None:
    run = made_up(5000)
    told = over_time(run, 60)  # ends after the last answer
    widths = np.diff(told["edges_seconds"])
    counts = run.counts()
    for name in ("offered", "completed", "failed", "dropped"):
        assert np.dot(told[f"{name}_per_second"], widths) == counts[name], name


def test_the_curve_holds_exact_order_statistics_up_to_the_largest() -> None:
    run = Samples.of((float(k), k + 0.5, k + 1 + k / 1000, End.OK, 0) for k in range(1, 1001))
    points = curve(run)
    by_q = {q: (total, service) for q, total, service in points}
    assert by_q[0.5] == pytest.approx((1.5, 1.0))
    assert by_q[0.99] == pytest.approx((1.99, 1.49))
    assert by_q[0.999] == pytest.approx((1.999, 1.499))
    assert points[-1] == pytest.approx([1 - 1 / 2000, 2.0, 1.5])
    assert [q for q, *_ in points] == sorted(by_q)
    assert 90 <= len(points) <= 110


def test_on_the_curve_a_loss_is_infinite_from_the_start_but_has_a_service_time_when_there_was_a_reply() -> None:
    run = Samples.of(
        [
            *((float(k), float(k), k + 0.1, End.OK, 0) for k in range(90)),
            *((float(k), float(k), k + 0.2, End.SHED, 0) for k in range(90, 95)),
            *((float(k), NAN, float(k), End.DROPPED, 0) for k in range(95, 100)),
        ]
    )
    by_q = {q: (total, service) for q, total, service in curve(run)}
    assert by_q[0.9] == pytest.approx((0.1, 0.1))
    assert by_q[0.95] == (None, pytest.approx(0.2))
    assert curve(Samples.of([])) == []
    assert {(total, service) for _, total, service in curve(Samples(run.rows[95:]))} == {(None, None)}


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e5)), max_size=60))
def test_the_histogram_has_every_arrival_once(seconds: list[float | None]) -> None:
    run = Samples.of((0.0, 0.0, s or 0.0, End.OK if s is not None else End.FAILED, 0) for s in seconds)
    told = histogram(run)
    assert sum(told["counts"]) == sum(s is not None for s in seconds)
    assert told["lost"] == sum(s is None for s in seconds)
    if told["counts"]:
        assert len(told["edges_seconds"]) == len(told["counts"]) + 1
        assert told["edges_seconds"] == sorted(set(told["edges_seconds"]))


def test_bars_are_many_enough_to_show_a_shape_whatever_the_spread() -> None:
    random = np.random.default_rng(3)
    for spread in (0.02, 0.3, 1.5):
        run = Samples.of((0.0, 0.0, s, End.OK, 0) for s in random.lognormal(-4, spread, 5000))
        assert 4 <= len(histogram(run)["counts"]) <= 80


def test_it_is_plain_json_and_a_million_rows_take_moments() -> None:
    run = made_up(1_000_000, seconds=1000)
    text = json.dumps(series(run, run.between(100, math.inf), 1000), allow_nan=False)
    assert len(text) < 60_000
