"""A batcher in the test's own thread: a clock that the test moves, a model that the test scripts."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from service.batching.batcher import Batcher
from service.batching.policy import Knobs
from service.batching.records import BatchRecord, Ticket


class FakeClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class FakeRunner:
    """Doubles each row, taking fixed + per_row · n of the fake clock. `during` runs while the batch is in the model."""

    def __init__(self, clock: FakeClock, fixed: float = 0.005, per_row: float = 0.0001) -> None:
        self.clock = clock
        self.fixed = fixed
        self.per_row = per_row
        self.batches: list[list[Any]] = []  # rows of each call, in order
        self.groups: list[Any] = []
        self.spend: Callable[[float], None] = clock.advance  # lets the model's time pass
        self.during: Callable[[list[Any]], None] = lambda rows: None
        self.answer: Callable[[list[Any]], Sequence[Any]] = lambda rows: [2 * row for row in rows]
        self.closed = 0

    def run(self, group: Any, parts: Sequence[Any]) -> tuple[Any, float]:
        rows = [row for part in parts for row in part]
        self.batches.append(rows)
        self.groups.append(group)
        seconds = self.fixed + self.per_row * len(rows)
        self.spend(seconds)
        self.during(rows)
        return self.answer(rows), seconds

    def join(self, results: Sequence[Any]) -> Any:
        return list(itertools.chain.from_iterable(results))

    def ready(self) -> None:
        pass

    def close(self) -> None:
        self.closed += 1


class Bench:
    """The batcher, what it handed back (once per call) and what it recorded."""

    def __init__(
        self,
        policy: str = "fixed",
        max_batch_rows: int = 8,
        max_wait_seconds: float = 0.005,
        capacity: int = 64,
        workers: int = 1,
    ) -> None:
        self.clock = FakeClock()
        self.runners = [FakeRunner(self.clock) for _ in range(workers)]
        self.runner = self.runners[0]
        self.deliveries: list[list[Ticket]] = []
        self.delivered: list[Ticket] = []  # the same, one after the other
        self.records: list[BatchRecord] = []
        self.batcher = Batcher(
            self.runners,
            Knobs(policy, max_batch_rows, max_wait_seconds),  # type: ignore[arg-type]
            capacity,
            self._deliver,
            self.records.append,
            self.clock,
        )
        self._rows = itertools.count()

    def ticket(self, rows: int = 1, group: Any = "g", timeout: float = 1.0) -> Ticket:
        return Ticket([next(self._rows) for _ in range(rows)], group, self.clock.now + timeout)

    def submit(self, rows: int = 1, group: Any = "g", timeout: float = 1.0) -> Ticket:
        ticket = self.ticket(rows, group, timeout)
        self.batcher.submit(ticket)
        return ticket

    def run(self) -> bool:
        return self.batcher.run_once(self.runner)

    def run_all(self) -> None:
        while self.run():
            pass

    def teach(self, fixed: float = 0.005, per_row: float = 0.0001) -> None:
        self.batcher.teach((rows, fixed + per_row * rows) for rows in (1, 32) for _ in range(10))

    def _deliver(self, tickets: Sequence[Ticket]) -> None:
        self.deliveries.append(list(tickets))
        self.delivered += tickets

    def assert_answered(self, *tickets: Ticket) -> None:
        """Each exactly once, with exactly its own rows."""
        for ticket in tickets:
            assert self.delivered.count(ticket) == 1
            assert ticket.error is None
            assert list(ticket.result or []) == [2 * row for row in ticket.rows]  # type: ignore[call-overload]

    def assert_at_rest(self) -> None:
        assert self.batcher.depth_rows == 0
        assert not self.batcher._live
        assert not self.batcher._queue
        assert not self.batcher._running


@pytest.fixture
def make_bench() -> Callable[..., Bench]:
    return Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()
