"""What `adaptive` makes of whole arrival patterns, simulated on the fake clock: when it holds, and what that brings."""

import heapq
import random
from collections.abc import Callable
from typing import Any

import pytest

from service.batching.records import Ticket

MakeBench = Callable[..., Any]
STEP = 0.00005


class Simulation:
    """Arrivals at their instants, also while the model runs; an idle worker looks every 50 µs."""

    def __init__(self, bench: Any, think: Callable[[], float] | None = None) -> None:
        self.bench = bench
        self.arrivals: list[float] = []
        self.tickets: list[Ticket] = []
        self.answered_at: dict[Ticket, float] = {}
        self.think = think  # closed loop: an answered caller comes back after so long
        self.heard = 0
        bench.runner.spend = self.pass_time

    def pass_time(self, seconds: float) -> None:
        end = self.bench.clock.now + seconds
        while self.arrivals and self.arrivals[0] <= end:
            self.bench.clock.now = max(self.bench.clock.now, heapq.heappop(self.arrivals))
            self.tickets.append(self.bench.submit(timeout=100.0))
        self.bench.clock.now = end

    def hear_answers(self) -> None:
        delivered = self.bench.delivered
        for ticket in delivered[self.heard :]:
            self.answered_at[ticket] = self.bench.clock.now
            if self.think:
                heapq.heappush(self.arrivals, self.bench.clock.now + self.think())
        self.heard = len(delivered)

    def run(self, seconds: float) -> None:
        end = self.bench.clock.now + seconds
        while self.bench.clock.now < end:
            if self.bench.run():
                self.hear_answers()
            else:
                self.pass_time(STEP)

    def latencies(self) -> list[float]:
        return [self.answered_at[t] - t.enqueued_at for t in self.tickets if t in self.answered_at]


def closed_loop(bench: Any, callers: int, seconds: float) -> Simulation:
    source = random.Random(callers)
    simulation = Simulation(bench, think=lambda: 0.0002 + source.random() * 0.0005)
    simulation.arrivals = sorted(bench.clock.now + source.random() * 0.01 for _ in range(callers))
    simulation.run(seconds)
    return simulation


def poisson(bench: Any, rate: float, seconds: float) -> Simulation:
    source = random.Random(7)
    return spaced(bench, lambda: source.expovariate(rate), seconds)


def spaced(bench: Any, gap: Callable[[], float], seconds: float) -> Simulation:
    simulation = Simulation(bench)
    at = bench.clock.now
    while at < bench.clock.now + seconds:
        at += gap()
        simulation.arrivals.append(at)
    simulation.run(seconds + 1)
    return simulation


def adaptive(make_bench: MakeBench, fixed: float = 0.005, max_wait_seconds: float = 0.05) -> Any:
    bench = make_bench("adaptive", max_batch_rows=128, max_wait_seconds=max_wait_seconds, capacity=4096)
    bench.runner.fixed = fixed
    bench.teach(fixed)
    return bench


def test_one_caller_who_waits_for_each_answer_is_never_held(make_bench: MakeBench) -> None:
    bench = adaptive(make_bench)
    simulation = closed_loop(bench, callers=1, seconds=1.0)
    assert len(simulation.tickets) > 100
    assert max(ticket.queue_seconds for ticket in simulation.tickets) <= STEP


@pytest.mark.parametrize("callers", [2, 8, 20, 32])
def test_callers_who_come_back_together_are_served_together(make_bench: MakeBench, callers: int) -> None:
    bench = adaptive(make_bench)
    closed_loop(bench, callers, seconds=2.0)
    rows = [record.rows for record in bench.records]
    late = rows[len(rows) // 2 :]
    # without holding, the first to come back goes alone and the others wait for it: half the batch on average
    assert sum(late) / len(late) >= 0.9 * callers


def test_a_lone_request_on_an_idle_service_never_waits_whatever_came_before(make_bench: MakeBench) -> None:
    bench = adaptive(make_bench)
    simulation = closed_loop(bench, callers=32, seconds=2.0)
    simulation.think = None
    simulation.arrivals.clear()
    simulation.run(1.0)
    for pause in (0.01, 0.1, 1.0):
        bench.clock.advance(pause)
        ticket = bench.submit()
        assert bench.run()
        assert ticket.queue_seconds == 0.0
        assert bench.records[-1].trigger == "idle"


@pytest.mark.parametrize("rate", [20, 100, 200, 400, 1000, 3000])
def test_under_poisson_arrivals_holding_costs_next_to_nothing(make_bench: MakeBench, rate: float) -> None:
    """Against a batcher that never holds, at light and at heavy load."""
    held, never = adaptive(make_bench), adaptive(make_bench, max_wait_seconds=0.0)
    with_hold = poisson(held, rate, 3.0).latencies()
    without = poisson(never, rate, 3.0).latencies()
    assert sum(with_hold) / len(with_hold) <= 1.05 * sum(without) / len(without) + STEP
    assert sorted(with_hold)[-len(with_hold) // 100] <= 1.2 * sorted(without)[-len(without) // 100] + STEP


def test_arrivals_by_chance_have_a_longer_tail_than_even_ones_of_the_same_rate(make_bench: MakeBench) -> None:
    """Why load is Poisson by default: even arrivals promise a p99 that no service with users keeps."""
    rate = 120.0
    by_chance = poisson(adaptive(make_bench), rate, 5.0).latencies()
    even = spaced(adaptive(make_bench), lambda: 1 / rate, 5.0).latencies()
    assert sorted(by_chance)[-len(by_chance) // 100] >= 1.5 * sorted(even)[-len(even) // 100]


def test_a_model_without_fixed_cost_is_never_held_for(make_bench: MakeBench) -> None:
    bench = adaptive(make_bench, fixed=0.0)
    simulation = closed_loop(bench, callers=16, seconds=0.2)
    assert max(record.model_seconds for record in bench.records) < 0.005
    assert len(simulation.tickets) > 0.2 / (16 * 0.0001 + 0.0007) * 16 * 0.6
