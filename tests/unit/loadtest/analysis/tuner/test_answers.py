"""What follows from what was found: another objective, more replicas, a sentence."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.replicas import replicas
from loadtest.analysis.tuner.trade import trade
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


def test_what_another_objective_costs(measured: Make) -> None:
    small, large = Knobs(8, 0.0), Knobs(64, 0.0)
    trials = [
        measured(500, 0.015, knobs=small),
        measured(630, 0.019, knobs=large),
        measured(1_000, 0.048, knobs=large),
        measured(1_200, 0.09, knobs=large),
        measured(1_300, 0.02, knobs=large, verdict="INVALID"),
        measured(1_400, 0.02, knobs=large, offered=500),
        measured(1_500, 0.02, knobs=large, backlog_grows=True),
    ]
    tighter, looser = trade(trials, 1_000, 0.02), trade(trials, 1_000, 0.1)
    assert tighter is not None
    assert looser is not None
    assert (tighter.rate, tighter.knobs, tighter.told()[:24]) == (630, large, "At 20 ms you keep 63%: 6")
    assert (looser.rate, "you get 120%" in looser.told()) == (1_200, True)
    assert trade(trials, 1_000, 0.001) is None


def of(kind: Any, *trials: Measured, **values: Any) -> Found:
    return Found(kind, SLO, trials, 100.0, **values)


def test_a_chosen_point_in_a_sentence(measured: Make) -> None:
    trial = measured(1_000, 0.04, stages={"queue_seconds": 0.01})
    found = of("chosen", trial, knobs=trial.ask.knobs, rate=1_000, failed_rate=1_040, confirmations=(trial,) * 3)
    assert found.confirmed
    assert found.told() == (
        "batch 32, wait 0 s, adaptive: 1,000/s with p99 inside 50 ms, confirmed 3 times with fresh arrivals; "
        "1,040/s failed."
    )
    limit, batching, needed, other = found.limit(), found.batching(), found.replicas(2_000), found.at(0.045)
    assert limit is not None
    assert limit.what == "queue"
    assert batching is not None
    assert needed is not None
    assert needed.count == 3
    assert other is not None
    assert other.share == 1
    assert found.frontier is not None
    assert found.frontier.passed_rate == 1_000


def test_what_was_not_confirmed_answers_nothing_further(measured: Make) -> None:
    found = of("partial", measured(1_000, 0.04), knobs=Knobs(32, 0.0), rate=1_000, why="It was interrupted.")
    assert (found.confirmed, found.limit(), found.batching(), found.replicas(5_000)) == (False, None, None, None)
    assert found.told().startswith("Not confirmed: batch 32")
    assert of("partial", why="It was interrupted.").told() == "Nothing was found. It was interrupted."


def test_the_floor_is_named(measured: Make) -> None:
    floor = measured(40, 0.08, knobs=Knobs(1, 0.0))
    told = of("cannot_meet", floor, floor=floor).told()
    assert "80.0 ms, at 40/s with batch 1" in told
    assert of("cannot_meet").told() == "p99 cannot stay inside 50 ms."
    assert "2 h" in of("too_slow", needed_seconds=7_199.0).told()
    assert math.isinf(measured(1, math.inf).p99)
