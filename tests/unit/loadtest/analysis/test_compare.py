"""Two results side by side: equal services are not told apart, and different ones are."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loadtest.analysis import result
from loadtest.analysis.compare import compared, told
from loadtest.analysis.result import About, build
from loadtest.analysis.samples import SAMPLE, End, Samples
from loadtest.analysis.verdict import GeneratorHealth, Objective

SLO = Objective(0.1, 0.99)
FIGURES = ("p50", "p95", "p99", "mean", "throughput", "good")


def record(instants: Any, total: Any, lost: int = 0, slo: Objective = SLO, **settings: Any) -> dict[str, Any]:
    """A result of one run of a queue, whose time unit becomes 5 ms: 200 arrivals per second."""
    rows = np.zeros(len(instants), dtype=SAMPLE)
    rows["scheduled"] = rows["sent"] = instants * 0.005
    rows["done"] = rows["scheduled"] + total * 0.005
    if lost:
        rows["end"][np.linspace(0, len(rows) - 1, lost).astype(int)] = End.TIMED_OUT
    about = About(
        target="http://127.0.0.1:8000",
        arrivals=settings.get("arrivals", "poisson"),
        planned_rate=200.0,
        seed=settings.get("seed", 1),
        started_at="2026-01-02T03:04:05+00:00",
        settings={"rate": 200.0, "arrivals": "poisson", "seed": 1} | settings,
        versions={},
        host={"name": "here"},
    )
    made = build(Samples(rows), about, slo, GeneratorHealth(), duration_seconds=len(rows) * 0.005)
    return result.loads(result.dumps(made))


def queue(simulated: Any, place: int, faster: float = 1.0, **more: Any) -> dict[str, Any]:
    return record(simulated.arrivals[place], simulated.sojourns[place] / faster, **more)


def figure(comparison: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in comparison["figures"] if each["name"] == name)
    return found


def test_two_runs_of_the_same_queue_are_seldom_told_apart(queues: Callable[..., Any]) -> None:
    simulated = queues(0.8, 160, 6_000, seed=31)
    pairs = [compared(queue(simulated, place), queue(simulated, place + 1)) for place in range(0, 160, 2)]
    for name in FIGURES:
        false_alarms = sum(bool(figure(pair, name)["real"]) for pair in pairs)
        assert false_alarms <= 0.10 * len(pairs), name


def test_a_faster_service_is_seen(queues: Callable[..., Any]) -> None:
    simulated = queues(0.5, 2, 20_000, seed=32)
    comparison = compared(queue(simulated, 0), queue(simulated, 1, faster=1.5))
    for name in ("p50", "p95", "p99", "mean"):
        found = figure(comparison, name)
        assert found["real"] is True
        assert found["change"] == pytest.approx(1 / 1.5 - 1, abs=0.15)
        assert found["change_ci95"][0] < found["change"] < found["change_ci95"][1] < 0
    assert figure(comparison, "throughput")["real"] is False


def test_a_percentile_that_is_lost_on_one_side_is_a_real_difference(queues: Callable[..., Any]) -> None:
    simulated = queues(0.5, 2, 20_000, seed=33)
    comparison = compared(queue(simulated, 0), queue(simulated, 1, lost=1_000))
    found = figure(comparison, "p99")
    assert (found["b"], found["change"], found["real"]) == (None, None, True)
    assert figure(comparison, "good")["real"] is True
    both = compared(queue(simulated, 0, lost=1_000), queue(simulated, 1, lost=1_000))
    assert figure(both, "p99")["real"] is None
    assert json.loads(json.dumps(comparison, allow_nan=False)) == comparison


def test_what_was_set_differently_is_said(queues: Callable[..., Any]) -> None:
    simulated = queues(0.5, 2, 2_000, seed=34)
    same = compared(queue(simulated, 0), queue(simulated, 1))
    assert (same["settings"], same["cautions"]) == ([], [])
    other_seed = compared(queue(simulated, 0), queue(simulated, 1, seed=2))
    assert other_seed["settings"] == [{"name": "seed", "a": 1, "b": 2}]
    assert other_seed["cautions"] == []
    other = compared(queue(simulated, 0), queue(simulated, 1, rate=300.0, slo=Objective(0.2, 0.99)), ("old", "new"))
    assert {each["name"] for each in other["settings"]} == {"rate", "SLO threshold_seconds"}
    assert any("The loads were not the same (rate)" in caution for caution in other["cautions"])
    assert any("objectives were not the same" in caution for caution in other["cautions"])


def test_an_invalid_or_closed_side_is_said(queues: Callable[..., Any]) -> None:
    simulated = queues(0.5, 2, 2_000, seed=35)
    invalid = queue(simulated, 0) | {"verdict": "INVALID", "reasons": ["The worker {0} was late."], "ended": "aborted"}
    cautions = compared(invalid, queue(simulated, 1, arrivals="closed"), ("old", "new"))["cautions"]
    assert cautions[0] == "old is INVALID: The worker {0} was late."
    assert cautions[1].startswith("old was aborted")
    assert cautions[2].startswith("new was a closed loop, which hides stalls")


def test_the_table_is_told_for_a_terminal(queues: Callable[..., Any]) -> None:
    simulated = queues(0.5, 2, 20_000, seed=36)
    text = told(queue(simulated, 0), queue(simulated, 1, faster=2.0, lost=300), ("old", "new"))
    lines = text.splitlines()
    assert lines[0].split()[:2] == ["old", "new"]
    rows = {line.split()[0]: line for line in lines if line}
    assert rows["p50"].endswith("real")
    assert "∞" in rows["p99"]
    assert rows["answered"].endswith("may be chance")
    assert all(len(line) <= 120 for line in lines)


def test_a_run_that_measured_nothing_cannot_be_told(queues: Callable[..., Any]) -> None:
    simulated = queues(0.5, 1, 2_000, seed=37)
    nothing = record(np.empty(0), np.empty(0))
    comparison = compared(nothing, queue(simulated, 0))
    assert [each["real"] for each in comparison["figures"]] == [None] * len(FIGURES)
    assert told(nothing, queue(simulated, 0)).count("cannot be told") == len(FIGURES)
