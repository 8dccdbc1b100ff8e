"""Figures as people read them."""

import math

import pytest

from loadtest.analysis.histogram import Histogram
from stack.demo.words import (
    clock_text,
    quantile_name,
    quantile_text,
    rate_text,
    rows_name,
    rows_text,
    seconds_text,
    share_text,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.00042, "0.4 ms"),
        (0.0084, "8.4 ms"),
        (0.00994, "9.9 ms"),
        (0.00996, "10 ms"),
        (0.1434, "143 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (1.239, "1.24 s"),
        (math.inf, "∞"),
    ],
)
def test_a_latency(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


def test_a_quantile_that_is_no_number_says_why() -> None:
    edges = (0.1, 10.0)
    assert quantile_text(Histogram(edges, (100, 0, 0)), 0.5) == "50 ms"
    assert quantile_text(Histogram(edges, (50, 0, 50)), 0.99) == "> 10 s"
    assert quantile_text(Histogram(edges, (39, 0, 0), lost=61), 0.99) == "∞ (61% lost)"
    assert quantile_text(Histogram(edges, (0, 0, 0)), 0.99) == "–"


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0%"), (0.0003, "0.03%"), (0.012, "1.2%"), (0.0994, "9.9%"), (0.61, "61%"), (1, "100%")]
)
def test_a_share(share: float, text: str) -> None:
    assert share_text(share) == text


def test_rates_rows_clocks_and_names() -> None:
    assert [rate_text(rate) for rate in (None, 3.27, 500.4, 12_345.6)] == ["–", "3.3", "500", "12,346"]
    assert [rows_text(rows) for rows in (None, 1.0, 4.25, 127.6)] == ["–", "1.0", "4.2", "128"]
    assert [clock_text(seconds) for seconds in (-3, 0, 59.6, 247)] == ["0:00", "0:00", "1:00", "4:07"]
    assert [quantile_name(q) for q in (0.5, 0.99, 0.999)] == ["p50", "p99", "p99.9"]
    assert [rows_name(rows) for rows in (1, 8)] == ["one row", "8 rows"]
