"""Searches of made-up services, as their trials could have been."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from loadtest.analysis.frontier_file import About
from loadtest.analysis.tuner import limit
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Ask, Measured, Purpose
from loadtest.analysis.verdict import Objective

SLO = Objective(0.05, 0.99)
SECONDS, WARMUP = 8.0, 2.0
BATCHES = (128, 64, 32, 16, 8, 4, 2, 1)


@dataclass
class Service:
    """A model that takes `fixed` + `per_row`·n seconds for n rows; its tail grows as in a queue and is lost beyond."""

    fixed: float = 0.008
    per_row: float = 0.0004
    generator_rate: float = math.inf
    slo: Objective = SLO
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    trials: list[Measured] = field(default_factory=list)

    def limit(self, knobs: Knobs) -> float:
        """Requests per second that no load can exceed."""
        return knobs.max_batch_rows / (self.fixed + self.per_row * knobs.max_batch_rows)

    def edge(self, knobs: Knobs) -> float:
        """The rate at which the objective is just met."""
        low, high = 0.0, self.limit(knobs)
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if self.tail(knobs, middle) <= self.slo.threshold_seconds else (low, middle)
        return low

    def tail(self, knobs: Knobs, rate: float) -> float:
        load = rate / self.limit(knobs)
        rows = min(max(1.0, rate * self.fixed / max(1 - rate * self.per_row, 0.02)), knobs.max_batch_rows)
        batch = self.fixed + self.per_row * rows
        return math.inf if load >= 1.15 else batch * 1.6 + batch * load**4 / max(1.02 - load, 0.02) / 2

    def try_out(self, knobs: Knobs, rate: float, purpose: Purpose = "bracket") -> Measured:
        rate = float(f"{rate:.4g}")
        trial = self._trial(Ask(knobs, rate, SECONDS, WARMUP, len(self.trials) + 1, purpose))
        self.trials.append(trial)
        return trial

    def _trial(self, ask: Ask) -> Measured:
        p99 = self.tail(ask.knobs, ask.rate) * self.random.lognormal(0, 0.03)
        lost = math.isinf(p99)
        held = p99 <= self.slo.threshold_seconds
        good = ask.rate * (0.995 if held else 0.45 if lost else 0.97)
        late = ask.rate > self.generator_rate
        width = 1 + 0.4 * self.random.random() * min(p99 / 0.03, 2) if not lost else 1.0
        cut = 1.0 if held else 0.3 if lost else 0.7
        # A worker that is busy all the time runs as many rows as come during a run.
        rows = min(ask.knobs.max_batch_rows, max(1.0, ask.rate * self.fixed / max(0.05, 1 - ask.rate * self.per_row)))
        batch = self.fixed + self.per_row * rows
        return Measured(
            ask=ask,
            verdict="INVALID" if late else "PASS" if held else "FAIL",
            reasons=("The generator was late.",) if late else ("p99 held." if held else "p99 did not hold.",),
            offered=round(ask.expected_arrivals * cut),
            achieved_rate=ask.rate * self.random.normal(1, 0.004),
            good_rate=good,
            p50=math.inf if lost else p99 / 3.4,
            p95=math.inf if lost else p99 / 1.5,
            p99=p99,
            p99_interval=(math.inf, math.inf) if lost else (p99 / width, p99 * width if width < 1.7 else math.inf),
            backlog_grows=lost,
            seconds=cut * SECONDS + WARMUP + 1.5,
            limit="generator" if late else None,
            stages={
                limit.QUEUE: 0.0071, limit.MODEL: batch, limit.REST: 0.0013, limit.BATCH_ROWS: rows,
                limit.GENERATOR_CPU: 0.44, limit.SERVICE_CPU: 0.58,
                limit.FIXED: self.fixed, limit.PER_ROW: self.per_row,
            },
        )  # fmt: skip

    def climb(self, knobs: Knobs, steps: Sequence[float]) -> None:
        """Trials at these shares of the edge."""
        for step in steps:
            self.try_out(knobs, self.edge(knobs) * step)

    def confirm(self, knobs: Knobs, rate: float) -> tuple[Measured, ...]:
        return tuple(self.try_out(knobs, rate, "confirm") for _ in range(3))

    def found(self, **fields: Any) -> Found:
        spent = sum(trial.seconds for trial in self.trials)
        made: dict[str, Any] = {
            "kind": "partial",
            "slo": self.slo,
            "trials": tuple(self.trials),
            "spent_seconds": spent,
        }
        return Found(**made | fields)


def _searched(service: Service, chosen: Knobs, batches: Sequence[int] = BATCHES) -> Found:
    """A whole search that ends with `chosen`."""
    service.try_out(Knobs(max(batches), 0.0), service.edge(Knobs(max(batches), 0.0)) / 8, "floor")
    for batch in batches:
        knobs = Knobs(batch, 0.0)
        service.climb(knobs, (0.45, 0.8, 1.12, 0.94, 1.03) if batch > 4 else (0.6, 1.25, 0.95))
        if batch == chosen.max_batch_rows:
            service.climb(knobs, (0.25, 1.35, 0.98, 1.01))
            service.climb(replace(knobs, max_wait_seconds=0.005), (0.9, 1.05))
    rate = float(f"{service.edge(chosen) * 0.955:.4g}")
    confirmations = service.confirm(chosen, rate)
    assert all(trial.verdict == "PASS" for trial in confirmations)
    failed = [t.rate for t in service.trials if t.ask.knobs == chosen and t.verdict == "FAIL" and t.rate > rate]
    return service.found(
        kind="chosen", knobs=chosen, rate=rate, failed_rate=min(failed), confirmations=confirmations,
    )  # fmt: skip


def _chosen() -> Found:
    return _searched(Service(), Knobs(64, 0.0))


def _no_benefit() -> Found:
    return _searched(Service(fixed=0.00002, per_row=0.002), Knobs(1, 0.0))


def _cannot_meet() -> Found:
    service = Service(slo=Objective(0.001, 0.99))
    for knobs in (Knobs(128, 0.0), Knobs(1, 0.0)):
        for rate in (12.5, 2.0):
            service.try_out(knobs, rate, "floor")
    return service.found(kind="cannot_meet", floor=min(service.trials, key=lambda trial: trial.p99))


def _generator_limited() -> Found:
    service, knobs = Service(generator_rate=900), Knobs(32, 0.0)
    service.try_out(knobs, 100, "floor")
    for batch in (128, 64, 32, 16, 8):
        for rate in (200.0, 500.0, 890.0, 1100.0):
            service.try_out(Knobs(batch, 0.0), rate)
    confirmations = service.confirm(knobs, 870)
    return service.found(
        kind="generator_limited", knobs=knobs, rate=870.0, confirmations=confirmations, generator_rate=890.0
    )


def _too_slow() -> Found:
    service = Service(fixed=2.0, per_row=1.0, slo=Objective(10.0, 0.99))
    trial = replace(service.try_out(Knobs(128, 0.0), 0.3, "floor"), verdict="INVALID", reasons=("only 3 arrivals",))
    return replace(service.found(kind="too_slow", needed_seconds=11_400.0), trials=(trial,))


def _nothing() -> Found:
    return Service().found(why="It was interrupted.")


def _partial() -> Found:
    service = Service()
    service.try_out(Knobs(128, 0.0), 150, "floor")
    service.climb(Knobs(128, 0.0), (0.4, 1.2, 0.9))
    best = service.trials[-1]
    return service.found(knobs=best.ask.knobs, rate=best.rate, why="The budget ended first.")


_MADE: dict[str, Callable[[], Found]] = {
    "chosen": _chosen,
    "no benefit": _no_benefit,
    "cannot meet": _cannot_meet,
    "generator limited": _generator_limited,
    "too slow": _too_slow,
    "nothing": _nothing,
    "partial": _partial,
}
KINDS = tuple(_MADE)


@pytest.fixture
def found_of() -> Callable[[str], Found]:
    """What a search found, by name."""
    return lambda kind: _MADE[kind]()


@pytest.fixture
def about() -> About:
    return About(
        target="http://127.0.0.1:8000",
        model="digits",
        started_at="2026-03-14T15:09:26+00:00",
        host={
            "name": "bench-1", "cpu": "Example CPU @ 2.60GHz", "cpus": 2, "memory_bytes": 8 * 2**30,
            "system": "Linux 6.1 x86_64", "python": "3.11.2",
        },
        versions={"locust": "2.47.0", "numpy": "2.3.1"},
        budget_seconds=600.0,
        processes=2,
        seed=1,
        settings={"path": "/predict", "rows_per_request": "1"},
    )  # fmt: skip
