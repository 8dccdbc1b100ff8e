"""The lean client against a server that plays a script, byte for byte."""

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from loadtest import connection as module
from loadtest.connection import (
    Connection,
    ConnectionLost,
    ExchangeFailed,
    MalformedReply,
    NotConnected,
    RequestTimedOut,
)

REQUEST = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
CLOSE = "close"  # hang up
RESET = "reset"  # hang up rudely
READ = "read"  # wait for the next whole request
Step = bytes | str | float  # bytes to send at once, a wait in seconds, or one of the above


class ScriptedServer:
    """Each connection in turn plays the next script. A script begins when its connection is accepted."""

    def __init__(self, *scripts: list[Step]) -> None:
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._scripts = scripts
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        for script in self._scripts:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._play(peer, script)

    def _play(self, peer: socket.socket, script: list[Step]) -> None:
        for step in script:
            if step == READ:
                data = b""
                while not data.endswith(b"{}"):
                    more = peer.recv(65536)
                    if not more:
                        return
                    data += more
                self.requests.append(data)
            elif step == CLOSE:
                return
            elif step == RESET:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                return
            elif isinstance(step, bytes):
                peer.sendall(step)
            elif self._end.wait(float(step)):
                return
        self._end.wait(10)  # the connection stays open

    def close(self) -> None:
        self._end.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._listener.close()
        self._thread.join(5)


Play = Callable[..., tuple[ScriptedServer, Connection]]


@pytest.fixture
def play() -> Iterator[Play]:
    made: list[ScriptedServer] = []

    def start(*scripts: list[Step]) -> tuple[ScriptedServer, Connection]:
        server = ScriptedServer(*scripts)
        made.append(server)
        return server, Connection("127.0.0.1", server.port)

    yield start
    for server in made:
        server.close()


REPLIES = {
    "plain": (OK, 200, 2),
    "byte by byte": ([OK[i : i + 1] for i in range(len(OK))], 200, 2),
    "chunked": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 200, 5),
    "no body": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, 0),
    "refusal": (b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nbusy", 429, 4),
    "after 100": (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 200, 2),
    "after a late 100": ([b"HTTP/1.1 100 Continue\r\n\r\n", 0.05, OK], 200, 2),
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_is_read_whole_and_the_connection_kept(name: str, play: Play) -> None:
    reply, status, length = REPLIES[name]
    sends = reply if isinstance(reply, list) else [reply]
    server, connection = play([READ, *sends, READ, OK])
    assert connection.exchange(REQUEST, 5) == status
    assert connection.body_bytes == length
    assert connection.exchange(REQUEST, 5) == 200  # the second script would be another connection: there is none
    assert server.requests == [REQUEST, REQUEST]
    connection.close()


def test_the_body_of_a_refusal_is_kept_and_bounded(play: Play) -> None:
    long = b"x" * 9000
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 9000\r\n\r\n"
    _, connection = play([READ, head + long, READ, OK])
    assert connection.exchange(REQUEST, 5) == 400
    assert connection.error_body == long[:2048]
    connection.exchange(REQUEST, 5)
    assert connection.error_body == b""


ENDS = {
    "says close": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "more than the reply": OK + b"HTTP/1.1 200",
    "junk after the reply": OK + b"\0junk",
}


@pytest.mark.parametrize("name", ENDS)
def test_a_connection_that_is_at_its_end_is_not_used_again(name: str, play: Play) -> None:
    _, connection = play([READ, ENDS[name], 0.3, CLOSE], [READ, OK])
    assert connection.exchange(REQUEST, 5) == 200
    assert connection.body_bytes == 2
    assert connection.exchange(REQUEST, 5) == 200


def test_a_body_without_a_length_ends_with_the_connection(play: Play) -> None:
    _, connection = play([READ, b"HTTP/1.1 200 OK\r\n\r\nabc", b"def", CLOSE], [READ, OK])
    assert connection.exchange(REQUEST, 5) == 200
    assert connection.body_bytes == 6
    assert connection.exchange(REQUEST, 5) == 200


FAILURES = {
    "closed before a reply": ([READ, CLOSE], ConnectionLost),
    "reset before a reply": ([READ, RESET], ConnectionLost),
    "closed in the head": ([READ, OK[:10], CLOSE], ConnectionLost),
    "closed in the body": ([READ, OK[:-1], CLOSE], ConnectionLost),
    "closed between chunks": (
        [READ, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", CLOSE],
        ConnectionLost,
    ),
    "no HTTP": ([READ, b"SSH-2.0-OpenSSH\r\n", 0.3, CLOSE], MalformedReply),
    "a length that is none": ([READ, b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", 0.3, CLOSE], MalformedReply),
    "silence": ([READ, 1.0, CLOSE], RequestTimedOut),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_has_its_name_and_the_next_request_a_new_connection(name: str, play: Play) -> None:
    script, error = FAILURES[name]
    server, connection = play(script, [READ, OK])
    with pytest.raises(error) as caught:
        connection.exchange(REQUEST, 0.5)
    assert str(caught.value) == error.text
    assert connection.exchange(REQUEST, 5) == 200
    assert len(server.requests) == 2  # the failed one was not sent again behind the caller's back


def test_a_slow_drip_does_not_stretch_the_timeout(play: Play) -> None:
    drip: list[Step] = [step for byte in OK for step in (bytes([byte]), 0.05)]
    _, connection = play([READ, *drip])
    started = time.monotonic()
    with pytest.raises(RequestTimedOut):
        connection.exchange(REQUEST, 0.4)
    assert time.monotonic() - started == pytest.approx(0.4, abs=0.3)


def test_a_server_that_does_not_read_times_out_too(play: Play) -> None:
    _, connection = play([5.0])
    with pytest.raises(RequestTimedOut):
        connection.exchange(b"x" * 50_000_000, 0.3)


def test_a_request_larger_than_the_socket_buffers_arrives_whole(play: Play) -> None:
    request = b"POST / HTTP/1.1\r\n\r\n" + b"x" * 20_000_000 + b"{}"
    server, connection = play([0.2, READ, OK])
    assert connection.exchange(request, 20) == 200
    assert server.requests == [request]


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(NotConnected):
        Connection("127.0.0.1", port).exchange(REQUEST, 5)


def test_a_connection_closed_while_it_rested_is_replaced_without_a_failure(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.05)
    server, connection = play([READ, OK, CLOSE], [READ, OK])
    connection.exchange(REQUEST, 5)
    time.sleep(0.2)
    assert connection.exchange(REQUEST, 5) == 200
    assert len(server.requests) == 2


def test_a_connection_closed_while_it_was_busy_is_a_failure(play: Play) -> None:
    server, connection = play([READ, OK, READ, CLOSE], [READ, OK])
    connection.exchange(REQUEST, 5)
    with pytest.raises(ExchangeFailed):
        connection.exchange(REQUEST, 5)
    assert len(server.requests) == 2


def test_a_rested_connection_that_breaks_in_mid_reply_is_a_failure(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.05)
    server, connection = play([READ, OK, READ, OK[:8], CLOSE], [READ, OK])
    connection.exchange(REQUEST, 5)
    time.sleep(0.2)
    with pytest.raises(ConnectionLost):
        connection.exchange(REQUEST, 5)
    assert len(server.requests) == 2


def test_small_writes_are_not_held_back(play: Play) -> None:
    _, connection = play([READ, OK])
    connection.exchange(REQUEST, 5)
    assert connection._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
