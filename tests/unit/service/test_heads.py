"""Heads that were read before are known again, and mean what they meant when they were parsed."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.handler import Head
from service.heads import KEPT, LONGEST, Heads
from slo import names

HEAD = Head(names.ROUTE_PREDICT, 1.0, None, None)
BODY = b'{"instances":[[1,2,3]]}'
USUAL = {"Content-Type": "application/json"}


def chunk(*headers: tuple[bytes, bytes], body: bytes = b"12345", target: bytes = b"/predict") -> bytes:
    lines = [b"POST %b HTTP/1.1" % target, *(name + b": " + value for name, value in headers)]
    return b"\r\n".join([*lines, b"", body])


def read(*headers: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    return [(name.lower(), value) for name, value in headers]


LENGTH = (b"Content-Length", b"5")


def fill(*headers: tuple[bytes, bytes], body: bytes = b"12345") -> tuple[Heads, bytes]:
    heads, data = Heads(), chunk(*headers, body=body)
    heads.remember(data, read(*headers), HEAD)
    return heads, data


def test_what_was_read_is_found_with_another_body() -> None:
    heads, data = fill(LENGTH)
    assert heads.find(data) == (HEAD, b"12345")
    assert heads.find(chunk(LENGTH, body=b"abcde")) == (HEAD, b"abcde")
    assert heads.find(chunk(LENGTH, body=b"\r\n\r\nx")) == (HEAD, b"\r\n\r\nx")


@pytest.mark.parametrize(
    "other",
    [
        chunk(LENGTH, body=b"1234"),
        chunk(LENGTH, body=b"123456"),
        chunk(LENGTH) + chunk(LENGTH),
        chunk(LENGTH)[:-10],
        chunk((b"content-length", b"5")),  # the same, but other bytes: it is read anew
        chunk(LENGTH, (b"X-Request-Timeout-Ms", b"5")),
        chunk(LENGTH, target=b"/v2/models/a/infer"),
        b"",
        b"\r\n\r\n12345",
    ],
)
def test_anything_else_is_not_found(other: bytes) -> None:
    heads, _ = fill(LENGTH)
    assert heads.find(other) is None


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"Content-Length", b"4")],
        [(b"Content-Length", b"05")],
        [LENGTH, LENGTH],
        [(b"Transfer-Encoding", b"chunked")],
        [LENGTH, (b"Expect", b"100-continue")],
        [LENGTH, (b"Upgrade", b"h2c")],
        [LENGTH, (b"Connection", b"keep-alive")],
        [LENGTH, (b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")],
        [LENGTH, (b"X-Long", b"y" * LONGEST)],
    ],
)
def test_what_is_unusual_is_not_remembered(headers: list[tuple[bytes, bytes]]) -> None:
    heads, data = fill(*headers)
    assert heads.find(data) is None
    assert not heads._known


def test_the_memo_is_bounded() -> None:
    heads = Heads()
    chunks = [chunk(LENGTH, (b"X-N", b"%d" % number)) for number in range(KEPT + 10)]
    for number, data in enumerate(chunks):
        heads.remember(data, read(LENGTH, (b"X-N", b"%d" % number)), HEAD)
        assert len(heads._known) <= KEPT
    assert [heads.find(data) is not None for data in chunks] == [False] * 10 + [True] * KEPT


# --- through a connection --------------------------------------------------------------------------------------------


class CountedParser:
    """In the parser's place, so that a test sees what it is given."""

    def __init__(self, front: Any) -> None:
        self._parser = front.parser
        self.fed: list[bytes] = []
        front.parser = self

    def feed_data(self, data: bytes) -> None:
        self.fed.append(data)
        self._parser.feed_data(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


def test_a_known_head_is_not_parsed_again_on_any_connection(on_wire: Any, wire_to: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        first = written("POST", "/predict", BODY, USUAL)
        second = written("POST", "/predict", BODY.replace(b"1", b"7"), USUAL)
        parser = CountedParser(wire.front)
        (answer,) = await wire.talk(first)
        assert (parser.fed, answer.json) == ([first], {"predictions": [6.0]})
        (answer,) = await wire.talk(second)
        assert (parser.fed, answer.json) == ([first], {"predictions": [12.0]})
        other = wire_to(world)
        parser = CountedParser(other.front)
        (answer,) = await other.talk(second)
        assert (parser.fed, answer.json) == ([], {"predictions": [12.0]})
        other.leave()
        assert [record.status for record in world.records] == [200] * 3

    on_wire(session)


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
        {"Expect": "100-continue"},
        {"Connection": "keep-alive"},
        {"X-Request-Timeout-Ms": "no"},  # refused
    ],
)
def test_what_is_read_anew_each_time(on_wire: Any, written: Any, headers: dict[str, str]) -> None:
    async def session(world: Any, wire: Any) -> None:
        parser = CountedParser(wire.front)
        data = written("POST", "/predict", BODY, {**USUAL, **headers})
        for _ in range(3):
            await wire.talk(data)
        assert parser.fed == [data] * 3

    on_wire(session)


def test_a_known_head_in_the_middle_of_something_else_is_that(on_wire: Any, written: Any) -> None:
    """Bytes that look like a request, within the body of another, are that body's."""

    async def session(world: Any, wire: Any) -> None:
        known = written("POST", "/predict", BODY, USUAL)
        await wire.talk(known)
        world.batcher.submitted.clear()
        around = written("POST", "/predict", None, {**USUAL, "Content-Length": str(len(known))})
        answers = await wire.talk(around, known)
        assert [answer.status for answer in answers] == [400]
        assert world.batcher.submitted == []

    on_wire(session)


def test_a_known_head_after_another_request_waits_its_turn(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        known = written("POST", "/predict", BODY, USUAL)
        await wire.talk(known)
        wire.send(written("GET", "/healthz", None), known)
        await wire.until(lambda: len(wire.answers) == 3)
        assert [answer.json for answer in wire.answers[1:]] == [{"live": True}, {"predictions": [6.0]}]

    on_wire(session)


def test_known_heads_and_parsed_ones_take_turns(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        known = written("POST", "/predict", BODY, USUAL)
        for _ in range(3):
            (answer,) = await wire.talk(known)
            assert answer.json == {"predictions": [6.0]}
            (answer,) = await wire.talk(written("POST", "/predict", b"{}", {**USUAL, "X-Other": "1"}))
            assert answer.status == 400
            first, second = await wire.talk(known + known)
            assert first.json == second.json == {"predictions": [6.0]}

    on_wire(session)


def test_a_known_head_with_a_wrong_body_is_refused_as_ever(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        await wire.talk(written("POST", "/predict", BODY, USUAL))
        (answer,) = await wire.talk(written("POST", "/predict", b"x" * len(BODY), USUAL))
        assert answer.status == 400
        (answer,) = await wire.talk(written("POST", "/predict", BODY, USUAL))
        assert answer.json == {"predictions": [6.0]}
        assert [record.status for record in world.records] == [200, 400, 200]

    on_wire(session)


LINES = [
    ("Content-Type", ["application/json", "application/json; charset=utf-8", "text/plain", "application/octet-stream"]),
    ("X-Request-Timeout-Ms", ["250", "0.5", "soon", "-1"]),
    ("Inference-Header-Content-Length", ["5", "1000", "all"]),
    ("Content-Encoding", ["identity", "gzip"]),
    ("traceparent", ["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "x"]),
    ("Accept", ["*/*", ""]),
    ("User-Agent", ["a", "b (c)"]),
    ("Connection", ["keep-alive", "close"]),
]
some_lines = st.lists(st.sampled_from(range(len(LINES))), unique=True).flatmap(
    lambda order: st.tuples(
        *(st.tuples(st.sampled_from(spell(LINES[at][0])), st.sampled_from(LINES[at][1])) for at in order)
    )
)


def spell(name: str) -> list[str]:
    return [name, name.lower(), name.upper()]


TENSOR = json.dumps({"inputs": [{"name": "input", "shape": [1, 3], "datatype": "FP64", "data": [1, 2, 3]}]}).encode()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    some_lines,
    st.sampled_from(["/predict", "/predict?x", "/v2/models/sums/infer", "/v2/models/other/infer"]),
    st.sampled_from([BODY, TENSOR, b"{}", b""]),
)
def test_the_memo_changes_no_reply(
    on_wire: Any, written: Callable[..., bytes], lines: tuple[tuple[str, str], ...], target: str, body: bytes
) -> None:
    data = written("POST", target, body, dict(lines))

    async def session(world: Any, wire: Any) -> list[Any]:
        replies: list[Any] = []
        for _ in range(2):  # the second time the head may be known
            world.records.clear()
            await wire.talk(data)
            (record,) = world.records
            (answer,) = wire.answers
            answer.headers.pop("date")
            told = (record.route, record.outcome, record.status, record.traceparent)
            replies.append((answer, wire.closing, told))
            wire.answers.clear()
            if wire.closing:
                break
        return replies

    replies = on_wire(session)
    assert all(reply == replies[0] for reply in replies)
