"""The batcher's own threads under many callers: nobody is forgotten, no wake-up is lost, health is honest."""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from service.batching import batcher as batcher_module
from service.batching.batcher import Batcher
from service.batching.errors import BatcherError, Draining, ModelDown
from service.batching.policy import Knobs
from service.batching.records import Ticket

PATIENCE = 30.0  # seconds; never reached unless a test fails


class Doubler:
    """Doubles rows; can be told to stand still."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.entered = threading.Event()
        self.largest = 0
        self.closed = False

    def run(self, group: Any, parts: Sequence[Any]) -> tuple[Any, float]:
        rows = [row for part in parts for row in part]
        self.largest = max(self.largest, len(rows))
        self.entered.set()
        assert self.go.wait(PATIENCE)
        if self.closed:
            raise ModelDown("closed")
        return [2 * row for row in rows], 0.0001

    def join(self, results: Sequence[Any]) -> Any:
        return [row for result in results for row in result]

    def ready(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
        self.go.set()


Make = Callable[..., tuple[Batcher, list[Doubler]]]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Batcher] = []

    def build(policy: str = "adaptive", workers: int = 1, rows: int = 32, wait: float = 0.002) -> Any:
        runners = [Doubler() for _ in range(workers)]
        batcher = Batcher(runners, Knobs(policy, rows, wait), 256, wake, lambda record: None)  # type: ignore[arg-type]
        made.append(batcher)
        batcher.start()
        return batcher, runners

    yield build
    for batcher in made:
        batcher.close()
        assert not any(loop.thread and loop.thread.is_alive() for loop in batcher._loops)


def wake(tickets: Sequence[Ticket]) -> None:
    for ticket in tickets:
        ticket.context.append(ticket.result if ticket.error is None else ticket.error)
        ticket.context.set()


class Answer(threading.Event):
    """An event that remembers how often it was answered."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Any] = []

    def append(self, answer: Any) -> None:
        self.answers.append(answer)


def ask(batcher: Batcher, rows: list[int], group: str = "g", timeout: float = PATIENCE) -> Ticket:
    ticket = Ticket(rows, group, time.monotonic() + timeout, Answer())
    batcher.submit(ticket)
    return ticket


@pytest.mark.parametrize("policy", ["adaptive", "fixed"])
@pytest.mark.parametrize("workers", [1, 3])
def test_many_callers_each_get_exactly_their_own_rows_once(make: Make, policy: str, workers: int) -> None:
    batcher, runners = make(policy, workers)
    batcher.teach([(1, 0.001)] * 10 + [(32, 0.002)] * 10)
    barrier = threading.Barrier(33)
    unanswered: list[Ticket] = []
    cancelled: list[Ticket] = []
    tickets: list[Ticket] = []

    def call(number: int) -> None:
        source = random.Random(number)
        barrier.wait()
        for turn in range(40):
            rows = [number * 100_000 + turn * 100 + k for k in range(source.choice([1, 1, 1, 3, 50]))]
            try:
                ticket = ask(batcher, rows, source.choice("ab"))
            except BatcherError:
                continue
            if source.random() < 0.1 and batcher.cancel(ticket):
                cancelled.append(ticket)
                continue
            tickets.append(ticket)
            if not ticket.context.wait(PATIENCE):
                unanswered.append(ticket)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    barrier.wait()
    for turn in range(50):  # the knobs turn all the while
        batcher.knobs = Knobs("fixed" if turn % 2 else "adaptive", 1 + turn % 40, 0.001 * (turn % 3))
        time.sleep(0.002)
    batcher.knobs = Knobs("adaptive", 40, 0.002)
    for thread in threads:
        thread.join(2 * PATIENCE)
    assert not unanswered
    for ticket in tickets:
        assert ticket.context.answers == [[2 * row for row in ticket.rows]]  # type: ignore[attr-defined]
    assert all(not ticket.context.answers for ticket in cancelled)
    assert max(runner.largest for runner in runners) <= 40
    assert batcher.drain(PATIENCE)
    assert batcher.depth_rows == 0
    assert batcher.healthy


@pytest.mark.parametrize("workers", [1, 2])
def test_no_wake_up_is_lost_when_requests_come_one_by_one(make: Make, workers: int) -> None:
    """Each is held for max_wait by whichever thread is parked; a forgotten alarm would leave it for ever."""
    batcher, _ = make("fixed", workers, rows=32, wait=0.001)
    source = random.Random(3)
    for number in range(200):
        ticket = ask(batcher, [number])
        assert ticket.context.wait(5.0), f"request {number} was forgotten"
        time.sleep(source.choice([0, 0, 0.0005, 0.001]))


def test_a_change_of_knobs_wakes_those_who_wait(make: Make) -> None:
    batcher, _ = make("fixed", wait=60.0)
    ticket = ask(batcher, [1])
    assert not ticket.context.wait(0.05)
    batcher.knobs = Knobs("fixed", 1, 60.0)
    assert ticket.context.wait(PATIENCE)


def test_drain_flushes_what_is_held(make: Make) -> None:
    batcher, _ = make("fixed", wait=60.0)
    tickets = [ask(batcher, [number]) for number in range(5)]
    assert batcher.drain(PATIENCE)
    assert all(ticket.result is not None for ticket in tickets)
    with pytest.raises(Draining):
        ask(batcher, [1])


def test_drain_is_bounded(make: Make) -> None:
    batcher, (runner,) = make()
    runner.go.clear()
    ask(batcher, [1])
    assert runner.entered.wait(PATIENCE)
    begun = time.monotonic()
    assert not batcher.drain(0.1)
    assert time.monotonic() - begun < 5.0


def test_close_answers_those_whose_batch_hangs(make: Make) -> None:
    batcher, (runner,) = make()
    runner.go.clear()
    ticket = ask(batcher, [1])
    assert runner.entered.wait(PATIENCE)
    batcher.close()
    assert [type(answer) for answer in ticket.context.answers] == [Draining]
    assert not batcher.healthy


def test_health_tells_of_a_loop_that_hangs_and_of_its_recovery(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher_module, "STALL_SECONDS", 0.1)
    batcher, (runner,) = make()
    assert batcher.healthy
    time.sleep(0.2)
    assert batcher.healthy  # nothing to do is no stall
    runner.go.clear()
    ticket = ask(batcher, [1])
    assert runner.entered.wait(PATIENCE)
    time.sleep(0.2)
    assert not batcher.healthy
    runner.go.set()
    assert ticket.context.wait(PATIENCE)
    ask(batcher, [1]).context.wait(PATIENCE)
    assert batcher.healthy


def test_a_loop_survives_whatever_it_meets(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    batcher, (runner,) = make()
    sound = runner.ready
    faults = iter([RuntimeError("bug")])

    def broken() -> None:
        for fault in faults:
            raise fault
        sound()

    runner.ready = broken  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR):
        for number in range(3):
            assert ask(batcher, [number]).context.wait(PATIENCE)
    assert "goes on" in caplog.text
    assert batcher.healthy
