"""Asking a real socket what its model takes: answers, silence, and what is no HTTP."""

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from loadtest import shapes
from loadtest.shapes import Model, NotAsked, Tensor, ask

METADATA = b'{"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]}'


def reply(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.fixture
def target() -> Iterator[Callable[..., tuple[int, list[bytes]]]]:
    """Starts a listener that answers one connection after the other: (port, requests so far)."""
    over = threading.Event()
    listeners = []

    def start(*answers: bytes | None) -> tuple[int, list[bytes]]:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        heard: list[bytes] = []

        def serve() -> None:
            for answer in answers:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    heard.append(peer.recv(65536))
                    if answer is None:
                        over.wait(10)
                    else:
                        peer.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1], heard

    yield start
    over.set()
    for listener in listeners:
        listener.close()


def test_two_questions_and_the_model_is_known(target: Callable[..., tuple[int, list[bytes]]]) -> None:
    port, heard = target(reply(b'[{"name": "m", "state": "READY"}]'), reply(METADATA))
    headers = [("Authorization", "Bearer t"), ("Host", "inside")]
    assert ask("127.0.0.1", port, "/predict", headers) == Model("m", (Tensor("x", "FP32", (-1, 4)),))
    assert [request.partition(b"\r\n")[0] for request in heard] == [
        b"POST /v2/repository/index HTTP/1.1",
        b"GET /v2/models/m HTTP/1.1",
    ]
    for request in heard:
        assert b"\r\nAuthorization: Bearer t\r\n" in request
        assert request.lower().count(b"\r\nhost: ") == 1
        assert b"\r\nHost: inside\r\n" in request


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"no HTTP at all\r\n\r\n", r"^its answer to POST /v2/repository/index is no HTTP \(BadStatusLine\)$"),
        (b"", r"^its answer to POST /v2/repository/index is no HTTP|^it cannot be reached"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n[", r"^its answer to POST /v2/repository/index is no"),
    ],
)
def test_what_is_no_answer(target: Callable[..., tuple[int, list[bytes]]], answer: bytes, reason: str) -> None:
    with pytest.raises(NotAsked, match=reason):
        ask("127.0.0.1", target(answer)[0], "/predict")


def test_a_silent_target_is_not_waited_for(
    target: Callable[..., tuple[int, list[bytes]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shapes, "TIMEOUT_SECONDS", 0.2)
    began = time.monotonic()
    with pytest.raises(NotAsked, match=r"^no answer to POST /v2/repository/index within 0\.2 s$"):
        ask("127.0.0.1", target(None)[0], "/predict")
    assert time.monotonic() - began < 5


def test_nobody_is_there(unused_port: int) -> None:
    with pytest.raises(NotAsked, match=r"^it cannot be reached \(Connection refused\)$"):
        ask("127.0.0.1", unused_port, "/predict")
    with pytest.raises(NotAsked, match=r"^it cannot be reached \("):
        ask("no-such-name.invalid", 80, "/predict")


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
