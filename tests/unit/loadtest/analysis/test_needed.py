"""How many samples a percentile needs."""

import math

import pytest

from loadtest.analysis.needed import samples_needed, seconds_needed, told


@pytest.mark.parametrize(("q", "expected"), [(0.5, 20), (0.9, 100), (0.95, 200), (0.99, 1_000), (0.999, 10_000)])
def test_ten_samples_beyond_the_quantile(q: float, expected: int) -> None:
    assert samples_needed(q) == expected


def test_as_many_bound_the_quantile_from_above() -> None:
    for q in (0.5, 0.9, 0.99, 0.999, 0.9999):
        assert q ** samples_needed(q) < 0.025  # the chance that all of them lie below it


def test_how_long_it_takes() -> None:
    assert seconds_needed(0.99, 10) == 100
    assert seconds_needed(0.99, 0) == math.inf
    assert told(0.99, 10) == "1,000 samples are needed for p99; at 10/s that is 100 s"
    assert told(0.99, 0) == "1,000 samples are needed for p99"


@pytest.mark.parametrize("q", [0, 1, -0.1, math.nan])
def test_a_quantile_outside_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="not between"):
        samples_needed(q)
