"""Rounding of Locust's statistics."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.figures import bucket_response_time


@pytest.mark.parametrize(
    ("exact", "kept"),
    [(0.0, 0.0), (1.239, 1.23), (12.39, 12.3), (123.9, 123), (999.9, 999), (1239.0, 1230), (99_999.0, 99_900)],
)
def test_three_digits_and_never_up(exact: float, kept: float) -> None:
    assert bucket_response_time(exact) == pytest.approx(kept)


@settings(deadline=None)
@given(st.floats(1, 1e7))
def test_error_is_at_most_one_percent_and_no_percentile_is_above_the_maximum(exact: float) -> None:
    kept = bucket_response_time(exact)
    assert 0.99 * exact <= kept <= exact


def test_keys_stay_few() -> None:
    assert len({bucket_response_time(ms / 100) for ms in range(0, 6_000_000, 97)}) < 4_500
