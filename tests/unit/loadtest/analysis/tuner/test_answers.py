"""What follows from what was found: another objective, more replicas, a sentence."""

from collections.abc import Callable
from typing import Any

import pytest

from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.replicas import replicas
from loadtest.analysis.tuner.trial import Measured
from loadtest.analysis.verdict import Objective

Make = Callable[..., Measured]
SLO = Objective(0.05, 0.99)


@pytest.mark.parametrize(
    ("rate", "target", "headroom", "count"),
    [(1_000, 800, 0.2, 1), (1_000, 801, 0.2, 2), (1_000, 20_000, 0.2, 25), (1_000, 3_000, 0.0, 3), (7, 1, 0.2, 1)],
)
def test_replicas(rate: float, target: float, headroom: float, count: int) -> None:
    needed = replicas(rate, target, headroom)
    assert needed.count == count
    assert needed.load <= 1 - headroom + 1e-9
    assert f"{count} replica" in needed.told()


def test_whether_one_may_be_lost() -> None:
    assert replicas(1_000, 4_000).survives_one_lost  # 5 of them at 80%: 4 at 100%
    assert not replicas(1_000, 1_600).survives_one_lost  # 2
    with pytest.raises(ValueError, match="headroom is 1"):
        replicas(1_000, 1_000, 1.0)
    with pytest.raises(ValueError, match="above 0"):
        replicas(1_000, 0)


def of(kind: Any, *trials: Measured, **values: Any) -> Found:
    return Found(kind, SLO, trials, 100.0, **values)


def test_a_chosen_point_says_what_limits_it_and_what_a_rate_needs(measured: Make) -> None:
    trial = measured(1_000, 0.04, stages={"queue_seconds": 0.01})
    found = of("chosen", trial, knobs=trial.ask.knobs, rate=1_000, failed_rate=1_040, confirmations=(trial,) * 3)
    assert found.confirmed
    limit, batching, needed = found.limit(), found.batching(), found.replicas(2_000)
    assert limit is not None
    assert limit.what == "queue"
    assert batching is not None
    assert needed is not None
    assert needed.count == 3
    assert found.frontier is not None
    assert found.frontier.passed_rate == 1_000


def test_what_was_not_confirmed_answers_nothing_further(measured: Make) -> None:
    found = of("partial", measured(1_000, 0.04), knobs=Knobs(32, 0.0), rate=1_000, why="It was interrupted.")
    assert (found.confirmed, found.limit(), found.batching(), found.replicas(5_000)) == (False, None, None, None)
