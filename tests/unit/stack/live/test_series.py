"""Prometheus's answers as series, their names, and their place on the grid of steps."""

import math
from typing import Any

import pytest

from stack.live.intervals import Window
from stack.live.series import BadResult, Series, grid_times, on_grid, parse_result, reduce, series_name

MATRIX = {
    "resultType": "matrix",
    "result": [
        {"metric": {"__name__": "up", "job": "inference"}, "values": [[100, "1"], [105, "NaN"], [110.0, "+Inf"]]}
    ],
}


def test_a_matrix_a_vector_and_a_scalar() -> None:
    (series,) = parse_result(MATRIX)
    assert series.labels == {"__name__": "up", "job": "inference"}
    assert series.times == (100, 105, 110)
    assert series.values[0] == 1
    assert math.isnan(series.values[1])
    assert math.isinf(series.values[2])

    vector = {"resultType": "vector", "result": [{"metric": {"le": "1"}, "value": [100, "2.5"]}]}
    assert parse_result(vector) == (Series({"le": "1"}, (100.0,), (2.5,)),)
    assert parse_result({"resultType": "scalar", "result": [100, "3"]}) == (Series({}, (100.0,), (3.0,)),)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {"resultType": "string", "result": [1, "x"]},
        {"resultType": "matrix", "result": [{"metric": {}}]},
        {"resultType": "vector", "result": [{"metric": {}, "value": [1, "five"]}]},
        {"resultType": "matrix", "result": None},
    ],
)
def test_what_is_no_answer(data: Any) -> None:
    with pytest.raises(BadResult):
        parse_result(data)


@pytest.mark.parametrize(
    ("labels", "legend", "only", "name"),
    [
        ({"le": "0.05"}, "{{le}}", True, "0.05"),
        ({"a": "1", "b": "2"}, "{{a}} of {{ b }}{{gone}}", False, "1 of 2"),
        ({}, "p99", True, "p99"),
        ({}, "", True, "sum(x)"),
        ({"__name__": "up", "job": "x"}, "", True, 'up{job="x"}'),
        ({"job": "x"}, "__auto", True, "x"),
        ({"job": "x", "a": "b"}, "__auto", False, '{a="b", job="x"}'),
        ({"__name__": "up"}, "__auto", True, "up"),
    ],
)
def test_names(labels: dict[str, str], legend: str, only: bool, name: str) -> None:
    assert series_name(labels, legend, "sum(x)", only) == name


def test_missing_samples_are_gaps_on_the_grid() -> None:
    series = Series({}, (100.0, 105.0, 115.0, 130.0), (1.0, math.nan, 3.0, 9.0))
    window = Window(100, 120)
    assert on_grid(series, window, 5) == [1.0, None, None, 3.0, None]  # NaN and outside are nothing
    assert grid_times(window, 5) == [100, 105, 110, 115, 120]


@pytest.mark.parametrize(
    ("calc", "expected"),
    [
        ("lastNotNull", 2.0),
        ("last", None),
        ("first", 4.0),
        ("mean", 3.0),
        ("max", 4.0),
        ("min", 2.0),
        ("sum", 9.0),
        ("median", 3.0),
        ("count", 3.0),
        ("diff", -2.0),
        ("range", 2.0),
        ("unheard of", 2.0),
    ],
)
def test_one_number_for_a_series(calc: str, expected: float | None) -> None:
    assert reduce([4.0, math.nan, 3.0, None, 2.0, None], calc) == expected


def test_nothing_reduces_to_nothing() -> None:
    assert reduce([None, math.nan], "mean") is None
    assert reduce([], "last") is None


def test_the_last_number_is_not_nan() -> None:
    assert Series({}, (1.0, 2.0), (5.0, math.nan)).last() == (1.0, 5.0)
    assert Series({}, (1.0,), (math.nan,)).last() is None
