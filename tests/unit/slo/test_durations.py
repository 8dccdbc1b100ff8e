"""Durations survive the way to text and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.durations import duration_text, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0), ("30s", 30), ("2m", 120), ("1h30m", 5400), ("3d", 259200), ("90s", 90)]
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "s", "1.5h", "-5s", "30s ", "1m1h", "10ms", "1w", "٣s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration(text)


@given(st.integers(0, 10**7))
def test_round_trip(seconds: int) -> None:
    assert parse_duration(duration_text(seconds)) == seconds


def test_the_text_is_the_shortest() -> None:
    assert [duration_text(s) for s in (0, 30, 90, 120, 86400)] == ["0s", "30s", "1m30s", "2m", "1d"]
