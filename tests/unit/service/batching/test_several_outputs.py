"""A request for several outputs is several tickets: those submitted first are not in the way of the others."""

from collections.abc import Callable
from typing import Any

import pytest

from service.batching.errors import QueueFull, Unlikely
from service.batching.records import Ticket


def outputs(bench: Any, rows: int, timeout: float = 1.0, count: int = 2) -> list[Ticket]:
    tickets = [bench.ticket(rows, f"output {number}", timeout) for number in range(count)]
    for number, ticket in enumerate(tickets):
        ticket.beside = number
        bench.batcher.submit(ticket)
    return tickets


def test_a_request_as_large_as_the_queue_may_ask_for_all_outputs(bench: Any) -> None:
    tickets = outputs(bench, rows=64)  # of a capacity of 64
    with pytest.raises(QueueFull):
        bench.submit()
    bench.clock.advance(0.01)
    bench.run_all()
    bench.assert_answered(*tickets)
    bench.assert_at_rest()


def test_the_rows_of_others_still_count(bench: Any) -> None:
    bench.submit(40)
    with pytest.raises(QueueFull):
        outputs(bench, rows=30)
    assert bench.batcher.depth_rows == 40


def test_a_lone_request_that_the_model_may_not_manage_is_served(make_bench: Callable[..., Any]) -> None:
    bench = make_bench()
    bench.teach(fixed=1.5)
    tickets = outputs(bench, rows=1)
    with pytest.raises(Unlikely):
        outputs(bench, rows=1)
    assert len(bench.batcher._live) == len(tickets)
