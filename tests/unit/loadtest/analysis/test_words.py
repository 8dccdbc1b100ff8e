"""How figures are written in a report."""

import math
from typing import Any

import pytest

from loadtest.analysis.words import (
    interval_text,
    latency_text,
    rate_text,
    seconds_text,
    setting_text,
    share_text,
    span_text,
    value_text,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (math.inf, "∞"),
        (0.0, "0 s"),
        (0.0000843, "84.3 µs"),
        (0.00843, "8.43 ms"),
        (0.843, "843 ms"),
        (0.9996, "1.00 s"),  # never "1,000 ms"
        (0.0009996, "1.00 ms"),
        (12.34, "12.3 s"),
        (1234.0, "1,234 s"),
    ],
)
def test_a_time_has_three_digits(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.05, "50 ms"), (0.1, "100 ms"), (1.5, "1.5 s"), (0.0000025, "2.5 µs"), (3000.0, "3,000 s")]
)
def test_a_chosen_time_has_no_more_digits_than_it_needs(seconds: float, text: str) -> None:
    assert setting_text(seconds) == text


def test_a_latency_that_is_no_number_is_infinite() -> None:
    assert latency_text(None) == "∞"
    assert latency_text(0.5) == "500 ms"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0%"),
        (1.0, "100%"),
        (0.99, "99%"),
        (0.999, "99.9%"),
        (0.99994, "99.994%"),
        (0.9999999, "99.99999%"),  # all but one of ten million is not all
        (0.614, "61%"),
        (0.0123, "1.2%"),
        (0.00034, "0.034%"),
    ],
)
def test_a_share_never_claims_to_be_whole(share: float, text: str) -> None:
    assert share_text(share) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.764, 0.888, "764–888 ms"), (0.9, 1.2, "900 ms–1.20 s"), (0.048, None, "48.0 ms–∞"), (None, None, "∞–∞")],
)
def test_an_interval(low: float | None, high: float | None, text: str) -> None:
    assert interval_text(low, high) == text


@pytest.mark.parametrize(
    ("rate", "text"), [(None, "–"), (0.25, "0.25"), (12.5, "12.5"), (312.4, "312"), (5120, "5,120")]
)
def test_a_rate(rate: float | None, text: str) -> None:
    assert rate_text(rate) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.5, "4.5 s"), (90, "90 s"), (725, "12 min 5 s"), (7200, "2 h"), (7325, "2 h 2 min 5 s")]
)
def test_a_span(seconds: float, text: str) -> None:
    assert span_text(seconds) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("header", "", "–"),
        ("data", None, "–"),
        ("memory_bytes", 8 * 2**30, "8.0 GiB"),
        ("body_bytes", 3 * 2**20, "3 MiB"),
        ("timeout_seconds", 2.0, "2"),
        ("quiet", True, "yes"),
        ("header", ["A: b", "C: d"], "A: b, C: d"),
        ("limits", {"cpus": 2, "note": ""}, "cpus 2, note –"),
    ],
)
def test_a_setting(name: str, value: Any, text: str) -> None:
    assert value_text(name, value) == text
