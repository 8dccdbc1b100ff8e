"""Viewers share what is under way and what was asked a moment ago."""

from concurrent.futures import Executor, Future
from typing import Any

from stack.live.shared import SharedResults


class Later(Executor):
    """Keeps what it is given until the test runs it."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Future[Any], Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.jobs.append((future, fn))
        return future

    def run(self) -> None:
        for future, fn in self.jobs:
            if future.set_running_or_notify_cancel():
                future.set_result(fn())
        self.jobs.clear()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_question_for_many_viewers() -> None:
    pool, clock = Later(), Clock()
    shared = SharedResults(pool, keep_seconds=4, most=10, clock=clock)
    first, second = shared.ask("p99", lambda: 1), shared.ask("p99", lambda: 2)
    clock.now = 100  # under way for however long, it is asked once
    assert first is second is shared.ask("p99", lambda: 3)
    pool.run()
    assert second.result() == 1


def test_results_are_kept_for_a_moment_only() -> None:
    pool, clock = Later(), Clock()
    shared = SharedResults(pool, keep_seconds=4, most=10, clock=clock)
    shared.ask("p99", lambda: 1)
    pool.run()
    clock.now = 3.9
    assert shared.ask("p99", lambda: 2).result(0) == 1
    clock.now = 4.0
    again = shared.ask("p99", lambda: 2)
    pool.run()
    assert again.result(0) == 2


def test_what_was_given_up_is_asked_again() -> None:
    pool = Later()
    shared = SharedResults(pool, keep_seconds=4, most=10)
    shared.ask("p99", lambda: 1).cancel()
    again = shared.ask("p99", lambda: 2)
    pool.run()
    assert again.result(0) == 2


def test_the_oldest_are_forgotten() -> None:
    pool = Later()
    shared = SharedResults(pool, keep_seconds=4, most=2)
    first = shared.ask("a", lambda: 1)
    shared.ask("b", lambda: 2)
    shared.ask("c", lambda: 3)
    assert shared.ask("a", lambda: 4) is not first
