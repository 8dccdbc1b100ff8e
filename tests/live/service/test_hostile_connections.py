"""Bytes that are no proper HTTP: each connection is answered or closed within seconds, and the service serves on."""

import contextlib
import json
import random
import re
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

BODY = b'{"instances": [[1, 2, 3]]}'
SECONDS = 5.0
REPLY = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


def post(*headers: bytes, body: bytes = BODY, path: bytes = b"/predict", version: bytes = b"1.1") -> bytes:
    lines = [b"POST %s HTTP/%s" % (path, version), b"Host: x", *headers]
    if not any(header.lower().startswith((b"content-length", b"transfer-encoding")) for header in headers):
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def read(connection: socket.socket, seconds: float = SECONDS, enough: bytes | None = None) -> tuple[bytes, bool]:
    """What arrives until the other end closes, `enough` has come or time is over; and whether it closed."""
    got, until = b"", time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and (enough is None or enough not in got):
        connection.settimeout(left)
        try:
            piece = connection.recv(65536)
        except TimeoutError:
            break
        except ConnectionError:
            return got, True
        if not piece:
            return got, True
        got += piece
    return got, False


def send(connection: socket.socket, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # refused before all was read; the caller reads what was answered
        connection.sendall(data)


@pytest.fixture
def service(start: Callable[..., Any]) -> Any:
    return start()


@pytest.fixture
def talk(service: Any) -> Callable[..., tuple[list[int], bytes, bool]]:
    """Sends bytes on a new connection: (statuses, all that came back, closed by the service)."""

    def one(data: bytes, half_close: bool = False, seconds: float = SECONDS) -> tuple[list[int], bytes, bool]:
        with socket.create_connection(("127.0.0.1", service.port)) as connection:
            send(connection, data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            got, closed = read(connection, seconds)
        return [int(status) for status in REPLY.findall(got)], got, closed

    return one


REFUSED = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 60 + b"\r\n\r\n",
    "NUL bytes": b"POST /pre\0dict HTTP/1.1\r\nHost: x\r\n\r\n",
    "NUL in a header": b"POST /predict HTTP/1.1\r\nHost: x\0y\r\nContent-Length: 2\r\n\r\n{}",
    "another version": b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
    "length no number": post(b"Content-Length: many"),
    "length negative": post(b"Content-Length: -5"),
    "length signed": post(b"Content-Length: +26"),
    "length beyond 64 bits": post(b"Content-Length: " + b"9" * 40),
    "two lengths": post(b"Content-Length: 26", b"Content-Length: 5"),
    "length and chunked": post(b"Content-Length: 26", b"Transfer-Encoding: chunked"),
    "chunk size nonsense": post(b"Transfer-Encoding: chunked", body=b"zz\r\nabc\r\n0\r\n\r\n"),
    "chunk size beyond 64 bits": post(b"Transfer-Encoding: chunked", body=b"f" * 30 + b"\r\nabc\r\n0\r\n\r\n"),
    "chunk longer than said": post(b"Transfer-Encoding: chunked", body=b"1\r\nabcdef\r\n0\r\n\r\n"),
    "header without a name": b"POST /predict HTTP/1.1\r\n: x\r\nContent-Length: 2\r\n\r\n{}",
    "space before the colon": b"POST /predict HTTP/1.1\r\nHost : x\r\nContent-Length : 2\r\n\r\n{}",
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_what_is_no_http_is_refused_and_closed(talk: Callable[..., Any], data: bytes, service: Any) -> None:
    statuses, _, closed = talk(data)
    assert closed
    assert statuses in ([400], [405], [505], [])  # some kinds are closed without a word
    assert service.predict([[1, 2, 3]]) == [6.0]


@pytest.mark.parametrize(
    "block",
    [
        b"X-Long: " + b"a" * 200_000,
        b"\r\n".join(b"X-%d: a" % number for number in range(20_000)),
        b"X-%s: a" % (b"n" * 200_000),
    ],
    ids=["one long", "many", "a long name"],
)
def test_a_header_block_beyond_64_kib(talk: Callable[..., Any], block: bytes) -> None:
    statuses, _, closed = talk(b"POST /predict HTTP/1.1\r\nHost: x\r\n" + block + b"\r\nContent-Length: 2\r\n\r\n{}")
    assert (statuses, closed) == ([431], True)


def test_a_url_beyond_64_kib(talk: Callable[..., Any]) -> None:
    statuses, _, closed = talk(b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert statuses in ([414], [431])
    assert closed


def test_headers_that_never_end(service: Any) -> None:
    """A block must be complete within 30 s; 50 such connections hold nobody else up meanwhile."""
    trickling = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(50)]
    try:
        began = time.monotonic()
        for connection in trickling:
            connection.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\n")
        while time.monotonic() - began < 33:
            for connection in trickling:
                send(connection, b"X-A: b\r\n")
            assert service.predict([[1, 2, 3]]) == [6.0]
            time.sleep(3)
        for connection in trickling:
            got, closed = read(connection, 10)
            assert closed
            assert REPLY.findall(got) in ([b"408"], [])
    finally:
        for connection in trickling:
            connection.close()


def test_a_length_that_the_body_does_not_reach(talk: Callable[..., Any]) -> None:
    """The client ends its half: what it said cannot come any more."""
    statuses, _, closed = talk(post(b"Content-Length: 100"), half_close=True)
    assert closed
    assert statuses in ([400], [])


def test_a_length_shorter_than_the_body(talk: Callable[..., Any]) -> None:
    """What follows is another request, and no proper one."""
    statuses, _, closed = talk(post(b"Content-Length: 26", body=BODY + b"garbage\r\n\r\n"))
    assert closed
    assert statuses in ([200, 400], [200])


def test_pipelined_requests_are_answered_in_order(talk: Callable[..., Any]) -> None:
    bodies = [json.dumps({"instances": [[number, 0, 0]]}).encode() for number in range(50)]
    requests = [post(body=body) for body in bodies]
    requests[10] = post(body=b"{}")
    requests[20] = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    requests[-1] = post(b"Connection: close", body=bodies[-1])
    statuses, got, closed = talk(b"".join(requests))
    assert closed
    assert statuses == [400 if number == 10 else 200 for number in range(50)]
    answers = [float(number) for number in re.findall(rb'"predictions":\[([\d.]+)\]', got)]
    assert answers == [float(number) for number in range(50) if number not in (10, 20)]


def test_a_client_that_waits_to_be_told_to_go_on(service: Any) -> None:
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(post(b"Expect: 100-continue", b"Content-Length: %d" % len(BODY), body=b""))
        got, _ = read(connection, enough=b"\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 100 ")
        connection.sendall(BODY)
        got, _ = read(connection, enough=b"predictions")
        assert REPLY.findall(got) == [b"200"]


def test_http_1_0_is_answered_and_closed(talk: Callable[..., Any]) -> None:
    statuses, got, closed = talk(post(version=b"1.0"))
    assert (statuses, closed) == ([200], True)
    assert b'{"predictions":[6.0]}' in got
    statuses, got, closed = talk(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert (statuses, closed) == ([200], True)


@pytest.mark.parametrize("path", [b"http://x/predict", b"/predict?a=b", b"/predict#a"])
def test_other_forms_of_the_address(talk: Callable[..., Any], path: bytes) -> None:
    statuses, got, _ = talk(post(b"Connection: close", path=path))
    assert statuses in ([200], [400], [404])
    if b"?" in path or path.startswith(b"http"):
        assert statuses == [200], got


@pytest.mark.parametrize("path", [b"/predict", b"/v2/models/synthetic/infer"])
def test_other_methods_of_inference(talk: Callable[..., Any], path: bytes) -> None:
    for method, status in ((b"HEAD", 405), (b"GET", 405), (b"PUT", 405), (b"DELETE", 405), (b"OPTIONS", 200)):
        request = method + b" " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        statuses, got, closed = talk(request)
        assert (statuses, closed) == ([status], True), method
        (allowed,) = re.findall(rb"(?i)\r\nallow: ([^\r]*)", got)
        assert set(allowed.split(b", ")) == {b"OPTIONS", b"POST"}
        if method == b"HEAD":
            assert got.endswith(b"\r\n\r\n")  # no body


def test_whoever_ends_its_half_has_left(talk: Callable[..., Any], service: Any) -> None:
    """A client that leaves and one that only stops sending look alike; the rows of the first must not be computed."""
    statuses, got, closed = talk(post(b"Connection: close"), half_close=True)
    assert closed
    assert statuses in ([200], []), got
    assert service.predict([[1, 2, 3]]) == [6.0]


def test_a_body_that_trickles_is_served_and_holds_nobody_up(service: Any) -> None:
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        head = post(b"Content-Length: %d" % len(BODY), body=b"")
        for byte in head + BODY:
            connection.sendall(bytes([byte]))
            if byte == ord("1"):
                assert service.predict([[1, 2, 3]]) == [6.0]
        got, _ = read(connection, enough=b"predictions")
        assert REPLY.findall(got) == [b"200"]


def test_random_bytes(talk: Callable[..., Any], service: Any) -> None:
    chance = random.Random(4)
    whole = post(b"Connection: close")
    for _ in range(300):
        data = whole
        for _ in range(chance.randrange(1, 5)):
            where = chance.randrange(len(data))
            data = data[:where] + chance.randbytes(chance.randrange(4)) + data[where + chance.randrange(3) :]
        statuses, got, closed = talk(data, half_close=True, seconds=10)
        assert closed, data
        assert len(statuses) <= 2, (data, got)
        assert not {500, 502} & set(statuses), data
    assert service.predict([[1, 2, 3]]) == [6.0]
    assert service.metric("inference_requests_in_flight") == 0
