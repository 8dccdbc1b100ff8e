"""A connection of the inference port: bodies in pieces, pipelines, limits, clients that leave, polite closing."""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from service import front
from service.batching import errors

JSON = {"Content-Type": "application/json"}
INFER = "/v2/models/sums/infer"
TENSOR = {"inputs": [{"name": "input", "shape": [1, 3], "datatype": "FP64", "data": [1, 2, 3]}]}


def rows(*first: float) -> bytes:
    return json.dumps({"instances": [[number, 0, 0] for number in first]}).encode()


@pytest.fixture
def post(written: Callable[..., bytes]) -> Callable[..., bytes]:
    """A /predict request for one row whose sum is `number`."""

    def make(number: float = 6, **headers: str) -> bytes:
        return written("POST", "/predict", rows(number), {**JSON, **headers})

    return make


def sums(answers: list[Any]) -> list[Any]:
    return [answer.json.get("predictions") for answer in answers]


# --- one request -----------------------------------------------------------------------------------------------------


def test_a_reply_byte_by_byte(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        await wire.talk(post())
        (data,) = wire.writes
        head, body = data.split(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        assert lines[0] == b"HTTP/1.1 200 OK"
        assert lines[1].startswith(b"date: ")
        assert lines[2:] == [
            b"content-type: application/json",
            b"content-length: 21",
            b"server-timing: queue;dur=1.000, model;dur=2.000",
            b"x-batch-rows: 7",
        ]
        assert body == b'{"predictions":[6.0]}'

    on_wire(session)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_request_in_pieces(on_wire: Any, post: Any, size: int) -> None:
    async def session(world: Any, wire: Any) -> None:
        data = post()
        answers = await wire.talk(*(data[at : at + size] for at in range(0, len(data), size)))
        assert sums(answers) == [[6.0]]
        assert wire.front._reading_ends is None

    on_wire(session)


def test_a_chunked_body(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        head = written("POST", "/predict", None, {**JSON, "Transfer-Encoding": "chunked"})
        body = rows(1, 2)
        pieces = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:9], body[9:])]
        assert sums(await wire.talk(head, *pieces, b"0\r\n\r\n")) == [[1.0, 2.0]]
        assert sums(await wire.talk(head + b"".join(pieces) + b"0\r\n\r\n")) == [[1.0, 2.0]]

    on_wire(session)


@pytest.mark.parametrize(
    "target",
    ["/predict", "/predict?x=1&y", "http://localhost:8000/predict", "/pr%65dict", "http://localhost/%70redict?x"],
)
def test_ways_to_write_the_url(on_wire: Any, written: Any, target: str) -> None:
    async def session(world: Any, wire: Any) -> None:
        assert sums(await wire.talk(written("POST", target, rows(6), JSON))) == [[6.0]]
        assert world.records[0].route == "/predict"

    on_wire(session)


@pytest.mark.parametrize("target", [INFER, "/v2/models/%73ums/infer?trace=1", f"http://localhost{INFER}"])
def test_ways_to_write_the_url_of_v2(on_wire: Any, written: Any, target: str) -> None:
    async def session(world: Any, wire: Any) -> None:
        (answer,) = await wire.talk(written("POST", target, json.dumps(TENSOR).encode(), JSON))
        assert answer.json["outputs"][0]["data"] == [6.0]

    on_wire(session)


def test_expect_continue(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        head, body = post(Expect="100-continue").split(b"\r\n\r\n")
        (answer,) = await wire.talk(head + b"\r\n\r\n")
        assert answer.status == 100
        assert wire.writes == [b"HTTP/1.1 100 Continue\r\n\r\n"]
        assert sums(await wire.talk(body)) == [[6.0]]
        assert not wire.closing

    on_wire(session)


def test_expect_continue_where_the_head_is_wrong_already(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        headers = {"Content-Type": "text/plain", "Expect": "100-continue", "Content-Length": "20"}
        (answer,) = await wire.talk(written("POST", "/predict", None, headers))
        assert answer.status == 415
        assert answer.headers["connection"] == "close"

    on_wire(session)


def test_expect_continue_with_a_body_that_is_too_long(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        headers = {**JSON, "Expect": "100-continue", "Content-Length": "2001"}
        (answer,) = await wire.talk(written("POST", "/predict", None, headers))
        assert (answer.status, answer.headers["connection"]) == (413, "close")

    on_wire(session)


def test_expect_continue_with_a_body_that_comes_at_once(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        assert sums((await wire.talk(post(Expect="100-continue")))[-1:]) == [[6.0]]

    on_wire(session)


OFFER = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__"}


@pytest.mark.parametrize("size", [1, 40, 1000])
@pytest.mark.parametrize("closing", [False, True])
def test_an_offer_to_speak_another_protocol_is_not_taken_up(on_wire: Any, post: Any, size: int, closing: bool) -> None:
    """Some clients offer HTTP/2 with every request; the offer may be ignored, but not the body beside it."""

    async def session(world: Any, wire: Any) -> None:
        data = post(**{**OFFER, "Connection": OFFER["Connection"] + ", close" * closing})
        assert sums(await wire.talk(*(data[at : at + size] for at in range(0, len(data), size)))) == [[6.0]]
        assert wire.lost == closing
        assert closing or sums(await wire.talk(post())) == [[6.0]]

    on_wire(session)


def test_offers_in_a_pipeline(on_wire: Any, post: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        wire.send(post(1, **OFFER) * 20 + written("GET", "/healthz", None, OFFER) + post(2))
        await wire.until(lambda: len(wire.answers) == 22)
        assert sums(wire.answers) == [*[[1.0]] * 20, None, [2.0]]

    on_wire(session)


def test_two_outputs_are_answered_once(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.batcher.holds = True
        asked = {**TENSOR, "outputs": [{"name": "predict"}, {"name": "predict_proba"}]}
        await wire.talk(written("POST", INFER, json.dumps(asked).encode(), JSON))
        first, second = world.batcher.staged
        world.batcher.staged = [second]
        world.batcher.release()
        await wire.settle()
        assert wire.answers == []
        world.batcher.staged = [first]
        world.batcher.release()
        await wire.settle()
        (answer,) = wire.answers
        assert [output["data"] for output in answer.json["outputs"]] == [[6.0], [6.0, 6.0]]
        assert len(world.records) == 1

    on_wire(session)


def test_a_second_output_that_finds_no_room(on_wire: Any, written: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        submit = world.batcher.submit

        def full_after_one(ticket: Any, wake: bool = True) -> None:
            if world.batcher.submitted:
                raise errors.QueueFull("the queue is full", 1.0)
            submit(ticket, wake)

        world.batcher.submit = full_after_one
        asked = {**TENSOR, "outputs": [{"name": "predict"}, {"name": "predict_proba"}]}
        (answer,) = await wire.talk(written("POST", INFER, json.dumps(asked).encode(), JSON))
        assert answer.status == 429
        assert world.batcher.cancelled == world.batcher.submitted
        world.batcher.submit = submit
        assert sums(await wire.talk(post())) == [[6.0]]

    on_wire(session)


# --- several on one connection ---------------------------------------------------------------------------------------


def test_one_connection_serves_many(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        for number in range(5):
            assert sums(await wire.talk(post(number))) == [[float(number)]]
        (refused,) = await wire.talk(post(1, **{"X-Request-Timeout-Ms": "no"}))
        assert refused.status == 400
        assert sums(await wire.talk(post(7))) == [[7.0]]
        assert not wire.closing
        assert all("connection" not in answer.headers for answer in wire.answers)

    on_wire(session)


def test_pipelined_requests_are_answered_in_order(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        assert sums(await wire.talk(b"".join(post(number) for number in range(5)))) == [[float(n)] for n in range(5)]
        assert wire.reading
        assert sums(await wire.talk(post(7))) == [[7.0]]

    on_wire(session)


def test_pipelined_refusals_and_answers_keep_their_order(on_wire: Any, post: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        wrong = written("POST", "/predict", b"{}", JSON)
        answers = await wire.talk(post(1) + wrong + wrong + post(2) + wrong + post(3))
        assert [answer.status for answer in answers] == [200, 400, 400, 200, 400, 200]
        assert [answer.json["predictions"] for answer in answers if answer.status == 200] == [[1.0], [2.0], [3.0]]

    on_wire(session)


def test_the_next_request_waits_for_the_reply_to_the_last(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.batcher.holds = True
        await wire.talk(post(1) + post(2))
        assert len(world.batcher.submitted) == 1
        assert not wire.reading
        world.batcher.release()
        await wire.settle()
        assert sums(wire.answers) == [[1.0]]
        assert len(world.batcher.submitted) == 2
        world.batcher.release()
        await wire.settle()
        assert sums(wire.answers) == [[1.0], [2.0]]
        assert wire.reading

    on_wire(session)


def test_pages_and_inference_in_one_pipeline(on_wire: Any, post: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        page, wrong = written("GET", "/healthz", None), written("POST", "/predict", b"{}", JSON)
        wire.send(page + post(1) + page + page + wrong + post(2) + post(3) + page)
        await wire.until(lambda: len(wire.answers) == 8)
        live = {"live": True}
        assert [answer.json for answer in wire.answers if answer.status == 200] == [
            live,
            {"predictions": [1.0]},
            live,
            live,
            {"predictions": [2.0]},
            {"predictions": [3.0]},
            live,
        ]
        assert wire.answers[4].status == 400
        assert not wire.closing

    on_wire(session)


def test_a_pipelined_request_of_which_only_the_head_has_begun(on_wire: Any, post: Any) -> None:
    """The reply to the request before must not take it for a part of that one."""

    async def session(world: Any, wire: Any) -> None:
        data = post(2)
        assert sums(await wire.talk(post(1) + data[:20])) == [[1.0]]
        assert not wire.closing
        assert sums(await wire.talk(data[20:])) == [[2.0]]

    on_wire(session)


def test_a_pipelined_request_of_which_only_the_body_is_missing(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        data = post(2)
        assert sums(await wire.talk(post(1) + data[:-5])) == [[1.0]]
        assert sums(await wire.talk(data[-5:])) == [[2.0]]

    on_wire(session)


def test_a_pipelined_refusal_that_closes_does_not_overtake(on_wire: Any, post: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        last = written("POST", "/predict", b"{}", {**JSON, "Connection": "close"})
        answers = await wire.talk(post(1) + last)
        assert [answer.status for answer in answers] == [200, 400]
        assert wire.lost

    on_wire(session)


def test_a_permission_to_go_on_does_not_overtake(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        head, body = post(2, Expect="100-continue").split(b"\r\n\r\n")
        answers = await wire.talk(post(1) + head + b"\r\n\r\n")
        assert [answer.status for answer in answers] == [200, 100]
        assert sums(await wire.talk(body)) == [[2.0]]

    on_wire(session)


def test_nonsense_in_the_same_turn_as_a_reply_does_not_overtake(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.batcher.holds = True
        await wire.talk(post(1))
        exchange = wire.front._active
        ticket = world.batcher.submitted[0]
        world.batcher.answer(ticket)
        exchange.ticket_done()  # its reply is to be written at the end of this turn
        wire.send(b"\x16\x03\x01 nonsense\r\n\r\n")
        await wire.settle()
        assert [answer.status for answer in wire.answers] == [200, 400]
        assert wire.lost

    on_wire(session)


def test_a_server_that_shuts_down_in_the_same_turn_as_a_reply(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.batcher.holds = True
        await wire.talk(post(1))
        world.batcher.answer(world.batcher.submitted[0])
        wire.front._active.ticket_done()
        wire.front.shutdown()
        await wire.settle()
        assert sums(wire.answers) == [[1.0]]

    on_wire(session)


@pytest.mark.parametrize(
    ("version", "headers"),
    [("1.0", {}), ("1.0", {"Connection": "keep-alive"}), ("1.1", {"Connection": "close"})],
)
def test_who_does_not_keep_the_connection(on_wire: Any, written: Any, version: str, headers: dict[str, str]) -> None:
    async def session(world: Any, wire: Any) -> None:
        (answer,) = await wire.talk(written("POST", "/predict", rows(6), {**JSON, **headers}, version))
        assert answer.json == {"predictions": [6.0]}
        assert answer.headers["connection"] == "close"
        assert wire.lost

    on_wire(session)


def test_what_follows_a_connection_close_is_not_answered(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        assert sums(await wire.talk(post(1, Connection="close") + post(2))) == [[1.0]]
        assert wire.lost
        assert len(world.batcher.submitted) == 1

    on_wire(session)


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_a_stated_length_beyond_the_limit_is_refused_unread(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        head = written("POST", "/predict", None, {**JSON, "Content-Length": "2001"})
        (answer,) = await wire.talk(head)
        assert answer.status == 413
        assert answer.json["error"].startswith("the body has 2001 bytes; expected at most 2000 bytes")
        assert answer.headers["connection"] == "close"
        assert not wire.closing  # closing on bytes that are on their way would destroy the reply
        await wire.talk(b"x" * 2000)
        assert not wire.closing
        await wire.talk(b"x")
        assert wire.lost
        assert len(wire.answers) == 1
        assert [record.status for record in world.records] == [413]

    on_wire(session)


def test_a_length_at_the_limit_is_read(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        body = rows(6).ljust(2000)
        assert sums(await wire.talk(written("POST", "/predict", body, JSON))) == [[6.0]]

    on_wire(session)


def test_a_body_of_unknown_length_is_read_to_the_limit_only(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        piece = b"384\r\n" + b"x" * 900 + b"\r\n"
        await wire.talk(written("POST", "/predict", None, {**JSON, "Transfer-Encoding": "chunked"}), piece, piece)
        assert wire.answers == []
        (answer,) = await wire.talk(piece)
        assert answer.status == 413
        assert answer.json["error"].startswith("the body has more bytes than are read; expected at most 2000 bytes")
        await wire.talk(*[piece] * 100)
        assert not wire.closing
        await wire.talk(b"0\r\n\r\n")
        assert wire.lost
        assert len(wire.answers) == 1

    on_wire(session)


def test_a_client_that_goes_on_sending_after_a_refusal_is_given_up(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        await wire.talk(written("POST", "/predict", None, {**JSON, "Content-Length": "1000000"}), b"x")
        await wire.advance(front.READING_SECONDS + 1)
        assert wire.lost
        assert [answer.status for answer in wire.answers] == [413]

    on_wire(session)


@pytest.mark.parametrize("sent", ["POST /pre", "POST /predict HTTP/1.1\r\nHost: x\r\n", "body"])
def test_a_request_that_does_not_come_is_given_up(on_wire: Any, post: Any, sent: str) -> None:
    async def session(world: Any, wire: Any) -> None:
        data = post()[:-3] if sent == "body" else sent.encode()
        await wire.talk(data[:-2])
        await wire.advance(front.READING_SECONDS - 1)
        await wire.talk(data[-2:])  # a byte now and then gives it no more time
        assert not wire.closing
        await wire.advance(2)
        (answer,) = wire.answers
        assert (answer.status, answer.json) == (408, {"error": "the request was not complete after 30 s"})
        assert answer.headers["connection"] == "close"
        assert wire.lost
        assert world.batcher.submitted == []
        assert [record.status for record in world.records] == ([408] if sent == "body" else [])

    on_wire(session)


def test_the_time_to_read_ends_with_the_request(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        for _ in range(3):
            data = post()
            assert sums(await wire.talk(data[:50], data[50:])) == [[6.0]]
            await wire.advance(front.READING_SECONDS - 1)
        assert not wire.closing

    on_wire(session)


def test_a_half_sent_request_does_not_cost_the_one_before_its_reply(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.batcher.holds = True
        await wire.talk(post(1) + post(2)[:-3])
        await wire.advance(front.READING_SECONDS + 1)
        assert wire.answers == []
        world.batcher.release()
        await wire.settle()
        assert sums(wire.answers) == [[1.0]]
        assert wire.lost

    on_wire(session)


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("size", [None, 4096, 30_000])
def test_a_header_block_that_is_too_long(on_wire: Any, written: Any, method: str, size: int | None) -> None:
    async def session(world: Any, wire: Any) -> None:
        data = written(method, "/predict", b"", {f"X-{n}": "y" * 1000 for n in range(80)})
        step = size or len(data)
        await wire.talk(*(data[at : at + step] for at in range(0, len(data), step)))
        (answer,) = wire.answers
        assert answer.status == 431
        assert answer.json["error"].endswith("expected at most 65536 bytes")
        assert answer.headers["connection"] == "close"
        assert wire.lost

    on_wire(session)


def test_a_header_block_that_never_ends(on_wire: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        await wire.talk(b"POST /predict HTTP/1.1\r\n")
        for _ in range(100):
            await wire.talk(b"X-A: " + b"y" * 990 + b"\r\n")
        assert [answer.status for answer in wire.answers] == [431]
        assert wire.lost

    on_wire(session)


def test_a_long_body_is_no_long_header_block(on_wire: Any, build: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        body = rows(6).ljust(200_000)
        data = written("POST", "/predict", body, {**JSON, "X-Long": "y" * 60_000})
        assert sums(await wire.talk(data)) == [[6.0]]
        assert sums(await wire.talk(data[:60_000], data[60_000:])) == [[6.0]]
        short = written("POST", "/predict", body, JSON)
        assert sums(await wire.talk(short, short)) == [[6.0], [6.0]]

    on_wire(session, build(bytes=1_000_000))


NONSENSE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    b"HELO there\r\n\r\n",
    b"POST /predict HTTP/1.1\r\nbad\x00name: x\r\n\r\n",
    b"POST /predict HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /predict HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST /predict HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST /pre\xffdict HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST http:///:x HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT localhost:80 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense(on_wire: Any, nonsense: bytes) -> None:
    async def session(world: Any, wire: Any) -> None:
        (answer,) = await wire.talk(nonsense)
        assert answer.status == 400
        assert answer.json["error"].startswith("this is no HTTP/1.1 request (")
        assert answer.headers["connection"] == "close"
        assert wire.lost
        assert world.batcher.submitted == []

    on_wire(session)


def test_a_chunk_length_that_is_none(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        head = written("POST", "/predict", None, {**JSON, "Transfer-Encoding": "chunked"})
        (answer,) = await wire.talk(head, b"zz\r\n")
        assert (answer.status, answer.headers["connection"]) == (400, "close")
        assert [record.status for record in world.records] == [400]
        assert wire.lost

    on_wire(session)


@pytest.mark.parametrize("nonsense", NONSENSE[:3])
@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_nonsense_after_a_whole_request(on_wire: Any, post: Any, nonsense: bytes, holds: bool, together: bool) -> None:
    """That request is still answered, and then the connection closes."""

    async def session(world: Any, wire: Any) -> None:
        world.batcher.holds = holds
        wire.send(*([post(1) + nonsense] if together else [post(1), nonsense]))
        await wire.settle()
        if holds:
            assert wire.answers == []
            assert not wire.closing
            world.batcher.release()
            await wire.settle()
        assert sums(wire.answers) == [[1.0]]
        assert wire.answers[0].headers["connection"] == "close"
        assert wire.lost

    on_wire(session)


def test_nonsense_after_a_page_that_is_on_its_way(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        wire.send(written("GET", "/healthz", None) + NONSENSE[0])
        await wire.until(lambda: wire.lost)
        assert [answer.json for answer in wire.answers] == [{"live": True}]

    on_wire(session)


def test_nonsense_on_one_connection_leaves_others_alone(on_wire: Any, wire_to: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.batcher.holds = True
        await wire.talk(post(1))
        other = wire_to(world)
        await other.talk(NONSENSE[0])
        assert other.lost
        world.batcher.release()
        await wire.settle()
        assert sums(wire.answers) == [[1.0]]

    on_wire(session)


# --- clients that leave, or do not read ------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, ConnectionResetError()])
def test_a_client_that_leaves_while_sending_is_forgotten(on_wire: Any, post: Any, error: Exception | None) -> None:
    async def session(world: Any, wire: Any) -> None:
        await wire.talk(post()[:-3])
        wire.leave(error)
        await wire.advance(front.READING_SECONDS + 1)
        assert (wire.writes, world.records) == ([], [])

    on_wire(session)


@pytest.mark.parametrize("error", [None, ConnectionResetError()])
def test_a_client_that_leaves_while_waiting_frees_its_rows(on_wire: Any, post: Any, error: Exception | None) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.batcher.holds = True
        await wire.talk(post())
        assert world.handler.in_flight == 1
        wire.leave(error)
        assert world.batcher.cancelled == world.batcher.submitted
        assert world.handler.in_flight == 0
        (record,) = world.records
        assert (record.outcome, record.reason, record.status) == ("failed", "client_gone", 499)
        assert wire.writes == []

    on_wire(session)


def test_a_client_that_leaves_a_pipeline_behind(on_wire: Any, post: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.batcher.holds = True
        await wire.talk(post(1) + post(2) + written("GET", "/healthz", None) + post(3))
        wire.leave()
        await wire.settle()
        assert len(world.batcher.submitted) == 1
        assert [record.status for record in world.records] == [499]

    on_wire(session)


def test_a_result_that_was_on_its_way_to_a_client_that_left(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.batcher.holds = True
        await wire.talk(post())
        world.batcher.release()  # handed over, but the loop has not turned yet
        wire.leave()
        await wire.settle()
        assert wire.writes == []
        assert [record.status for record in world.records] == [499]

    on_wire(session)


def test_a_page_whose_client_left(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        wire.send(written("GET", "/healthz", None))
        wire.leave()
        await wire.pages_done()
        assert wire.writes == []

    on_wire(session)


def test_who_reads_no_replies_gets_no_more_requests_read(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        wire.front.pause_writing()
        assert not wire.reading
        await wire.talk(post(1), post(2))
        assert world.batcher.submitted == []
        wire.front.resume_writing()
        await wire.settle()
        assert sums(wire.answers) == [[1.0], [2.0]]

    on_wire(session)


def test_reading_stays_paused_while_writing_is(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.batcher.holds = True
        await wire.talk(post(1))
        wire.front.pause_writing()
        world.batcher.release()
        await wire.settle()
        assert sums(wire.answers) == [[1.0]]
        assert not wire.reading
        wire.front.resume_writing()
        assert wire.reading

    on_wire(session)


def test_reading_stays_paused_while_requests_wait(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.batcher.holds = True
        await wire.talk(post(1) + post(2))
        wire.front.pause_writing()
        wire.front.resume_writing()
        assert not wire.reading
        world.batcher.holds = False
        world.batcher.release()
        await wire.settle()
        assert sums(wire.answers) == [[1.0], [2.0]]
        assert wire.reading

    on_wire(session)


# --- quiet connections, draining -------------------------------------------------------------------------------------


def test_a_quiet_connection_is_closed(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        keep_alive = world.server.config.timeout_keep_alive
        await wire.talk(post())
        await wire.advance(keep_alive - 1)
        assert not wire.closing
        await wire.talk(post())  # counts from the last reply
        await wire.advance(keep_alive - 1)
        assert not wire.closing
        await wire.advance(2)
        assert wire.lost
        assert len(wire.answers) == 2

    on_wire(session)


def test_a_connection_that_never_says_anything_is_closed(on_wire: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        await wire.advance(world.server.config.timeout_keep_alive + 1)
        assert wire.lost
        assert wire.writes == []

    on_wire(session)


def test_a_connection_that_says_empty_lines_only_is_closed(on_wire: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        await wire.talk(b"\r\n")
        await wire.advance(world.server.config.timeout_keep_alive + 1)
        await wire.advance(world.server.config.timeout_keep_alive + 1)
        assert wire.lost

    on_wire(session)


def test_a_busy_connection_is_not_closed(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.batcher.holds = True
        await wire.talk(post())
        for _ in range(3):
            await wire.advance(world.server.config.timeout_keep_alive + 1)
        assert not wire.closing
        world.batcher.release()
        await wire.settle()
        assert sums(wire.answers) == [[6.0]]
        await wire.advance(world.server.config.timeout_keep_alive - 1)
        assert not wire.closing
        await wire.advance(2)
        assert wire.lost

    on_wire(session)


def test_a_page_resets_the_quiet_time_too(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        await wire.advance(world.server.config.timeout_keep_alive - 1)
        wire.send(written("GET", "/healthz", None))
        await wire.pages_done()
        await wire.advance(2)
        assert not wire.closing
        await wire.advance(world.server.config.timeout_keep_alive)
        assert wire.lost

    on_wire(session)


@pytest.mark.parametrize(("method", "path"), [("POST", "/predict"), ("GET", "/healthz"), ("GET", "/nowhere")])
@pytest.mark.parametrize("draining", [False, True])
def test_connections_are_closed_politely_while_draining(
    on_wire: Any, written: Any, method: str, path: str, draining: bool
) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.health.draining = draining
        wire.send(written(method, path, rows(6) if method == "POST" else b"", JSON))
        await wire.pages_done()
        await wire.settle()
        (answer,) = wire.answers
        assert answer.headers.get("connection") == ("close" if draining else None)
        assert answer.status == (404 if path == "/nowhere" else 200)
        assert wire.lost == draining

    on_wire(session)


def test_a_known_request_is_closed_politely_too(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        await wire.talk(post())
        world.health.draining = True
        (answer,) = await wire.talk(post())
        assert answer.headers["connection"] == "close"
        assert wire.lost

    on_wire(session)


def test_a_server_that_shuts_down_waits_for_the_reply(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.batcher.holds = True
        await wire.talk(post())
        wire.front.shutdown()
        assert not wire.closing
        world.batcher.release()
        await wire.settle()
        assert sums(wire.answers) == [[6.0]]
        assert wire.answers[0].headers["connection"] == "close"
        assert wire.lost

    on_wire(session)


def test_a_server_that_shuts_down_closes_what_is_idle(on_wire: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        await wire.talk(post())
        wire.front.shutdown()
        await wire.settle()
        assert wire.lost

    on_wire(session)


# --- many connections ------------------------------------------------------------------------------------------------


def test_many_requests_are_taken_by_one_wake_and_answered_by_one(on_wire: Any, wire_to: Any, post: Any) -> None:
    """The batcher hears once of what came in a turn, the loop once of a batch, and each caller gets its own rows."""

    async def session(world: Any, first: Any) -> None:
        wires = [first, *(wire_to(world) for _ in range(63))]
        for number, wire in enumerate(wires):
            wire.send(post(number))
        assert world.batcher.wakes == 0
        world.batcher.holds = True
        await wire.settle()
        assert world.batcher.wakes == 1
        assert len(world.batcher.staged) == 64
        wakes = []
        loop = asyncio.get_running_loop()
        original = loop.call_soon_threadsafe

        def counted(*args: Any) -> Any:
            wakes.append(args)
            return original(*args)

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign]
        world.batcher.release()
        await wire.settle()
        assert len(wakes) == 1
        assert [sums(wire.answers) for wire in wires] == [[[float(number)]] for number in range(64)]
        for wire in wires:
            wire.leave()

    on_wire(session)


@pytest.mark.parametrize("where", ["accept", "finish"])
def test_a_fault_in_the_handler_costs_one_request_only(
    on_wire: Any, wire_to: Any, post: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any, where: str
) -> None:
    async def session(world: Any, wire: Any) -> None:
        others = [wire_to(world) for _ in range(2)]
        real = getattr(world.handler, where)
        calls = []

        def broken(*args: Any, **named: Any) -> Any:
            calls.append(args)
            if len(calls) == 2:
                raise RuntimeError("a fault")
            return real(*args, **named)

        monkeypatch.setattr(world.handler, where, broken)
        for number, one in enumerate([others[0], wire, others[1]]):
            one.send(post(number))
        await wire.settle()
        assert [sums(other.answers) for other in others] == [[[0.0]], [[2.0]]]
        (answer,) = wire.answers
        assert (answer.status, answer.json) == (500, {"error": front.FAULT})
        assert world.handler.in_flight == 0
        assert sums(await wire.talk(post(5))) == [[5.0]]
        for other in others:
            other.leave()

    with caplog.at_level(logging.ERROR):
        on_wire(session)
    assert "a fault" in caplog.text


def test_a_fault_in_the_batcher_leaves_nothing_in_flight(on_wire: Any, post: Any, caplog: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.batcher.refuses = RuntimeError("a fault")
        (answer,) = await wire.talk(post())
        assert (answer.status, answer.json) == (500, {"error": front.FAULT})
        assert world.handler.in_flight == 0
        world.batcher.refuses = None
        assert sums(await wire.talk(post(5))) == [[5.0]]

    with caplog.at_level(logging.ERROR):
        on_wire(session)
    assert "a fault" in caplog.text


def test_a_fault_in_a_page_is_answered_and_the_connection_serves_on(on_wire: Any, written: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        world.health.not_live = lambda: 1 / 0
        wire.send(written("GET", "/healthz", None), post(5))
        await wire.until(lambda: len(wire.answers) == 2)
        assert wire.answers[0].status == 500
        assert sums(wire.answers[1:]) == [[5.0]]

    on_wire(session)


# --- pages -----------------------------------------------------------------------------------------------------------


def test_flask_never_waits_for_a_body(on_wire: Any, written: Any) -> None:
    """A client that states a body and never sends it must not hold one of Flask's threads."""

    async def session(world: Any, wire: Any) -> None:
        wire.send(written("POST", "/healthz", None, {"Content-Length": "100"}))
        await wire.until(lambda: wire.answers)
        assert wire.answers[0].status == 405

    on_wire(session)


def test_a_page_with_a_query_and_an_absolute_url(on_wire: Any, written: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        for target in ("/healthz?x=1", "http://localhost/healthz", "/health%7A"):
            before = len(wire.answers)
            wire.send(written("GET", target, None))
            await wire.until(lambda before=before: len(wire.answers) > before)
            assert wire.answers[-1].json == {"live": True}

    on_wire(session)


def test_pages_between_inference_on_one_connection(on_wire: Any, written: Any, post: Any) -> None:
    async def session(world: Any, wire: Any) -> None:
        for number in range(3):
            wire.send(post(number))
            await wire.until(lambda number=number: len(wire.answers) == 2 * number + 1)
            assert wire.answers[-1].json == {"predictions": [float(number)]}
            wire.send(written("GET", "/healthz", None))
            await wire.until(lambda number=number: len(wire.answers) == 2 * number + 2)
            assert wire.answers[-1].json == {"live": True}
        assert not wire.closing

    on_wire(session)
