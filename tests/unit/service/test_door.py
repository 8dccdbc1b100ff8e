"""Connections in bursts, on a listener and a loop that do what a test says."""

import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from service.door import BURST, Door


class FakeListener:
    """Has so many clients waiting; `fails` is raised instead, once each."""

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting
        self.fails: list[OSError] = []
        self.closed = False

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def fileno(self) -> int:
        return -1 if self.closed else 7

    def accept(self) -> tuple[Any, Any]:
        if self.fails:
            raise self.fails.pop(0)
        if self.waiting == 0:
            raise BlockingIOError
        self.waiting -= 1
        return FakeConnection(), None

    def __enter__(self) -> "FakeListener":
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True


class FakeConnection:
    def setblocking(self, flag: bool) -> None:
        assert not flag

    def setsockopt(self, *_: int) -> None:
        pass


class FakeTask:
    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        call(self)

    def cancelled(self) -> bool:
        return False

    def exception(self) -> Exception | None:
        return self.error


class FakeTimer:
    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeLoop:
    def __init__(self) -> None:
        self.reader: Callable[[], None] | None = None
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.connected = 0
        self.error: Exception | None = None
        self.told: list[dict[str, Any]] = []

    def add_reader(self, fileno: int, call: Callable[[], None]) -> None:
        assert fileno == 7
        self.reader = call

    def remove_reader(self, fileno: int) -> None:
        assert fileno == 7
        self.reader = None

    def call_later(self, seconds: float, call: Callable[[], None]) -> FakeTimer:
        self.later.append((seconds, call))
        return FakeTimer()

    async def connect_accepted_socket(self, connect: Any, connection: Any) -> None:
        raise AssertionError("nobody runs it here")

    def create_task(self, work: Coroutine[Any, Any, None]) -> FakeTask:
        work.close()
        self.connected += 1
        return FakeTask(self.error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.told.append(context)

    def turn(self) -> None:
        assert self.reader is not None
        self.reader()


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def opened(loop: FakeLoop) -> Callable[[int], tuple[Door, FakeListener]]:
    def make(waiting: int) -> tuple[Door, FakeListener]:
        listener: Any = FakeListener(waiting)
        door = Door(listener, lambda: None, loop)  # type: ignore[arg-type, return-value]
        door.open()
        return door, listener

    return make


def test_all_that_wait_are_taken_in_few_turns(opened: Any, loop: FakeLoop) -> None:
    opened(3 * BURST + 1)
    taken = []
    for _ in range(5):
        loop.turn()
        taken.append(loop.connected)
    assert taken == [BURST, 2 * BURST, 3 * BURST, 3 * BURST + 1, 3 * BURST + 1]


def test_one_that_hung_up_is_not_in_the_way(opened: Any, loop: FakeLoop) -> None:
    _, listener = opened(2)
    listener.fails = [ConnectionAbortedError()]
    loop.turn()
    loop.turn()
    assert loop.connected == 2
    assert loop.later == []


def test_without_a_free_descriptor_it_looks_away_for_a_while(opened: Any, loop: FakeLoop) -> None:
    _, listener = opened(2)
    listener.fails = [OSError(errno.EMFILE, "too many open files")]
    loop.turn()
    assert loop.reader is None  # or the loop would spin on a queue that it cannot empty
    ((seconds, again),) = loop.later
    assert 0 < seconds < 1
    again()
    loop.turn()
    assert loop.connected == 2


@pytest.mark.parametrize(("most", "connected"), [(10, 5), (3, 3)])
def test_whoever_has_come_in_is_taken_before_it_closes(opened: Any, loop: FakeLoop, most: int, connected: int) -> None:
    door, listener = opened(5)
    with pytest.raises(StopIteration):
        door.close(most).send(None)
    assert (loop.connected, listener.closed, loop.reader) == (connected, True, None)
    with pytest.raises(StopIteration):
        door.close(most).send(None)  # once more changes nothing
    assert loop.connected == connected


def test_a_connection_that_cannot_be_taken_is_told(opened: Any, loop: FakeLoop) -> None:
    opened(2)
    loop.error = OSError(errno.ENOMEM, "no memory")
    loop.turn()
    assert [context["exception"] for context in loop.told] == [loop.error] * 2
