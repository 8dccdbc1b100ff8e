"""More arrivals than the model can take, simulated: what is completed inside its deadline stays near capacity."""

import heapq
import random
from collections.abc import Callable
from typing import Any

import pytest

from service.batching.errors import BatcherError, DeadlinePassed, QueueFull, Unlikely

MakeBench = Callable[..., Any]


@pytest.mark.parametrize("overload", [3, 10])
@pytest.mark.parametrize(
    ("fixed", "per_row", "max_batch_rows"),
    [
        (0.0, 0.002, 1),  # 500 rows/s, batching buys nothing
        (0.0, 0.002, 128),
        (0.004, 0.0001, 1),  # 244 rows/s for want of batching
        (0.004, 0.0001, 16),
    ],
)
@pytest.mark.parametrize("policy", ["adaptive", "fixed"])
def test_goodput_stays_near_capacity(
    make_bench: MakeBench, policy: str, overload: int, fixed: float, per_row: float, max_batch_rows: int
) -> None:
    bench = make_bench(policy, max_batch_rows=max_batch_rows, capacity=1024)
    bench.runner.fixed, bench.runner.per_row = fixed, per_row
    bench.teach(fixed, per_row)
    seconds = 2.0
    capacity = max_batch_rows / (fixed + per_row * max_batch_rows)
    source = random.Random(1)
    start = bench.clock.now
    arrivals = []
    at = start
    while at < start + seconds:
        at += source.expovariate(overload * capacity)
        arrivals.append(at)
    heapq.heapify(arrivals)
    in_time = heard = 0
    refused: set[type[BatcherError]] = set()

    def pass_time(spent: float) -> None:
        end = bench.clock.now + spent
        while arrivals and arrivals[0] <= end:
            bench.clock.now = max(bench.clock.now, heapq.heappop(arrivals))
            bench.batcher.expire()
            try:
                bench.submit(timeout=1.0)
            except BatcherError as error:
                refused.add(type(error))
        bench.clock.now = end
        bench.batcher.expire()

    bench.runner.spend = pass_time
    while bench.clock.now < start + seconds:
        if not bench.run():
            pass_time(0.0005)
        for ticket in bench.delivered[heard:]:
            heard += 1
            if ticket.error is None and bench.clock.now <= ticket.deadline:
                in_time += 1
            elif ticket.error is not None:
                refused.add(type(ticket.error))
    assert in_time >= 0.95 * capacity * seconds
    assert refused <= {QueueFull, Unlikely, DeadlinePassed}
    assert refused
