"""Trials made by hand, and searches played on curves."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from bench.simulated_figures import CurveBench
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.proposer import Proposer
from loadtest.analysis.tuner.trial import Ask, Measured

THRESHOLD = 0.05


@pytest.fixture
def measured() -> Callable[..., Measured]:
    """A function (rate, p99, …) → Measured, a PASS if p99 is within 50 ms, 10 s long and complete."""

    def make(rate: float, p99: float, *, knobs: Knobs | None = None, width: float = 0.1, **other: Any) -> Measured:
        ask = Ask(knobs or Knobs(32, 0.0), rate, other.pop("length", 10.0), 1.0, 1, other.pop("purpose", "bracket"))
        fields: dict[str, Any] = {
            "verdict": "PASS" if p99 <= THRESHOLD else "FAIL",
            "reasons": (),
            "offered": round(ask.expected_arrivals),
            "achieved_rate": rate,
            "good_rate": rate,
            "p50": p99 / 3,
            "p95": p99 / 1.5,
            "p99": p99,
            "p99_interval": (p99 / (1 + width), p99 / (1 - width) if p99 < math.inf else math.inf),
            "backlog_grows": False,
            "seconds": ask.seconds + ask.warmup_seconds + 1.5,
        }
        return Measured(ask, **(fields | other))

    return make


@pytest.fixture
def play() -> Callable[[Proposer, Any], Found]:
    """A function that plays a whole search against a bench and checks on the way that the budget is kept."""

    def search(proposer: Proposer, bench: CurveBench) -> Found:
        for _ in range(1_000):
            step = proposer.next()
            if isinstance(step, Found):
                return step
            assert step is proposer.next()  # asking twice changes nothing
            assert step.seconds + step.warmup_seconds + bench.overhead_seconds <= proposer.budget.left_seconds + 0.01
            assert 0 <= proposer.left_seconds() <= proposer.budget.left_seconds
            proposer.take(bench.measure(step))
        raise AssertionError("the search does not end")

    return search
