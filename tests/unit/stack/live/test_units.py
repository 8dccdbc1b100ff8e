"""Numbers as a person reads them: tables."""

import math

import pytest

from stack.live.units import Scale, number_text, plain_text, scale_for, tidy_ceiling


@pytest.mark.parametrize(
    ("value", "unit", "decimals", "text"),
    [
        (0.0498, "s", None, "49.8 ms"),
        (0.05, "s", None, "50 ms"),
        (1.234, "s", None, "1.23 s"),
        (0.00025, "s", None, "250 µs"),
        (90, "s", None, "1.5 min"),
        (0.99999, "s", None, "1 s"),
        (0, "s", None, "0 s"),
        (12.5, "ms", None, "12.5 ms"),
        (1500, "ms", None, "1.5 s"),
        (1234.5, "reqps", None, "1,234 req/s"),
        (0.0123, "percentunit", 2, "1.23%"),
        (63.0, "percent", None, "63%"),
        (0.5, "", None, "0.5"),
        (1536, "bytes", None, "1.5 KiB"),
        (1500, "decbytes", None, "1.5 kB"),
        (25_000, "short", None, "25 K"),
        (64, "suffix:rows", None, "64 rows"),
        (3, "prefix:#", None, "#3"),
        (1, "bool_yes_no", None, "Yes"),
        (7, "a unit of tomorrow", None, "7"),
        (math.nan, "s", None, "–"),
        (math.inf, "s", None, "∞"),
        (-0.02, "s", None, "−20 ms"),
        (-0.0001, "reqps", 1, "0.0 req/s"),
    ],
)
def test_texts(value: float, unit: str, decimals: int | None, text: str) -> None:
    assert plain_text(value, unit, decimals) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.012345, "0.0123"), (1.5, "1.5"), (99.96, "100"), (123456, "123,456"), (1e-7, "0.0000001")]
)
def test_three_significant_digits(value: float, text: str) -> None:
    assert number_text(value) == text


def test_one_scale_for_an_axis() -> None:
    assert scale_for("s", 0.08) == Scale(1000.0, " ms")
    assert scale_for("s", 2.0) == Scale(1.0, " s")
    assert scale_for("percentunit", 0.5) == Scale(100.0, "%")


@pytest.mark.parametrize(
    ("value", "ceiling"),
    [(0.7, 0.8), (1.0, 1.0), (1.01, 1.2), (98.8, 100), (101, 120), (0, 1), (math.inf, 1), (7300, 8000)],
)
def test_an_axis_ends_at_a_tidy_number(value: float, ceiling: float) -> None:
    assert tidy_ceiling(value) == pytest.approx(ceiling)
