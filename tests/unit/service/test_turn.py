"""One wake of the batcher and one round of writes for all that happens in a turn of the loop. No loop turns here."""

from collections.abc import Callable
from typing import Any

import pytest

from service.turn import Turn


class FakeLoop:
    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self.soon.append(call)

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for call in soon:
            call()


class FakeTransport:
    def __init__(self, name: str, log: list[tuple[str, bytes]]) -> None:
        self.name = name
        self.log = log
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        self.log.append((self.name, data))


@pytest.fixture
def loop() -> Any:
    return FakeLoop()


@pytest.fixture
def log() -> list[tuple[str, bytes]]:
    return []


def test_one_wake_for_all_of_a_turn(loop: Any) -> None:
    wakes: list[int] = []
    turn = Turn(lambda: wakes.append(1))
    for _ in range(64):
        turn.accepted(loop)
    assert len(loop.soon) == 1
    assert wakes == []
    loop.turn()
    assert wakes == [1]
    loop.turn()
    assert wakes == [1]


def test_each_turn_has_its_own_wake(loop: Any) -> None:
    wakes: list[int] = []
    turn = Turn(lambda: wakes.append(1))
    for _ in range(3):
        turn.accepted(loop)
        loop.turn()
    assert wakes == [1, 1, 1]


def test_a_request_that_comes_of_the_wake_itself_is_told_of(loop: Any) -> None:
    wakes: list[int] = []

    def wake() -> None:
        wakes.append(1)
        if len(wakes) == 1:
            turn.accepted(loop)

    turn = Turn(wake)
    turn.accepted(loop)
    loop.turn()
    loop.turn()
    assert wakes == [1, 1]


def test_a_wake_that_fails_is_not_the_last(loop: Any) -> None:
    wakes: list[int] = []

    def wake() -> None:
        wakes.append(1)
        raise RuntimeError("a fault")

    turn = Turn(wake)
    for _ in range(2):
        turn.accepted(loop)
        with pytest.raises(RuntimeError):
            loop.turn()
    assert wakes == [1, 1]


def test_replies_are_written_together_in_order(loop: Any, log: list[tuple[str, bytes]]) -> None:
    turn = Turn(lambda: None)
    one, two = FakeTransport("one", log), FakeTransport("two", log)
    for transport, data in [(one, b"1"), (two, b"2"), (one, b"3")]:
        turn.reply(loop, transport, data)  # type: ignore[arg-type]
    assert len(loop.soon) == 1
    assert log == []
    loop.turn()
    assert log == [("one", b"1"), ("two", b"2"), ("one", b"3")]
    turn.reply(loop, two, b"4")  # type: ignore[arg-type]
    loop.turn()
    assert log[3:] == [("two", b"4")]


def test_nothing_is_written_to_a_connection_that_closes(loop: Any, log: list[tuple[str, bytes]]) -> None:
    turn = Turn(lambda: None)
    one, two = FakeTransport("one", log), FakeTransport("two", log)
    turn.reply(loop, one, b"1")  # type: ignore[arg-type]
    turn.reply(loop, two, b"2")  # type: ignore[arg-type]
    one.closing = True
    loop.turn()
    assert log == [("two", b"2")]


def test_whoever_writes_by_itself_lets_the_others_go_first(loop: Any, log: list[tuple[str, bytes]]) -> None:
    turn = Turn(lambda: None)
    one = FakeTransport("one", log)
    turn.reply(loop, one, b"1")  # type: ignore[arg-type]
    turn.flush()
    one.write(b"2")
    turn.reply(loop, one, b"3")  # type: ignore[arg-type]
    loop.turn()
    assert log == [("one", b"1"), ("one", b"2"), ("one", b"3")]
