"""The highest rung that holds: found whatever it is, with few questions and none asked twice."""

import math

import pytest

from bench.ladder import highest, rungs


def test_rungs_have_equal_ratios_and_stay_between_the_ends() -> None:
    assert rungs(10, 25, 1.25) == [10, 12, 16, 20, 24]
    assert rungs(10, 10, 1.25) == [10]


@pytest.mark.parametrize("limit", [0, 10, 11, 47, 99, 100, 1000])
def test_what_is_found_is_the_highest_that_holds(limit: float) -> None:
    rates = rungs(10, 100, 1.25)
    asked: list[float] = []

    def holds(rate: float) -> bool:
        asked.append(rate)
        return rate <= limit

    assert highest(rates, holds) == max((rate for rate in rates if rate <= limit), default=None)
    assert len(asked) == len(set(asked)) <= math.ceil(math.log2(len(rates) + 1))
