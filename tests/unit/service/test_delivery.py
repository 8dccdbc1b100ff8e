"""Handing results over: one wake per loop and batch, and nobody waits because of somebody else."""

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from service.batching.records import Ticket
from service.delivery import deliver


class FakeLoop:
    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.closed = False

    def is_closed(self) -> bool:
        return self.closed

    def call_soon_threadsafe(self, call: Callable[..., None], *args: Any) -> None:
        assert not self.closed
        self.calls.append((call, args))

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call, args in calls:
            call(*args)


class FakeWaiter:
    def __init__(self, loop: FakeLoop, fault: Exception | None = None) -> None:
        self.loop = loop
        self.fault = fault
        self.done = 0

    def ticket_done(self) -> None:
        self.done += 1
        if self.fault is not None:
            raise self.fault


def ticket(context: Any) -> Ticket:
    return Ticket([1], "g", 1.0, context)


def test_a_loop_is_woken_once_per_batch() -> None:
    loops = [FakeLoop(), FakeLoop()]
    waiters = [FakeWaiter(loops[number % 2]) for number in range(10)]
    deliver([ticket(waiter) for waiter in waiters])
    assert [len(loop.calls) for loop in loops] == [1, 1]
    assert [waiter.done for waiter in waiters] == [0] * 10  # on the loop's own thread, not on the batcher's
    for loop in loops:
        loop.turn()
    assert [waiter.done for waiter in waiters] == [1] * 10


def test_a_caller_with_two_tickets_is_told_of_each() -> None:
    loop = FakeLoop()
    waiter = FakeWaiter(loop)
    deliver([ticket(waiter), ticket(waiter)])
    loop.turn()
    assert waiter.done == 2


def test_a_caller_that_fails_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    loop = FakeLoop()
    waiters = [FakeWaiter(loop), FakeWaiter(loop, RuntimeError("a fault")), FakeWaiter(loop)]
    deliver([ticket(waiter) for waiter in waiters])
    with caplog.at_level(logging.ERROR):
        loop.turn()
    assert [waiter.done for waiter in waiters] == [1, 1, 1]
    assert "a fault" in caplog.text


def test_a_loop_that_has_ended_keeps_nobody_waiting() -> None:
    ended, going, thread = FakeLoop(), FakeLoop(), threading.Event()
    ended.closed = True
    waiter = FakeWaiter(going)
    deliver([ticket(FakeWaiter(ended)), ticket(waiter), ticket(thread)])
    going.turn()
    assert waiter.done == 1
    assert thread.is_set()


def test_threads_and_loops_in_one_batch() -> None:
    loop, events = FakeLoop(), [threading.Event() for _ in range(3)]
    waiter = FakeWaiter(loop)
    deliver([ticket(events[0]), ticket(waiter), ticket(events[1])])
    assert [event.is_set() for event in events] == [True, True, False]
    loop.turn()
    assert waiter.done == 1
