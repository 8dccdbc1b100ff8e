"""The open-loop client against small servers: every arrival is accounted for, and a stall is seen by all it delays."""

import json
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

Behaviour = Callable[[int], tuple[int, float] | None]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def server_bind(self) -> None:
        """As its base's, without asking the resolver, which may take seconds, for this machine's name."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]


@pytest.fixture
def serve(free_port: Callable[[], int]) -> Iterator[Callable[[Behaviour], str]]:
    """Starts a server; `behaviour` of the request's number is (status, seconds to wait), or None: hang up."""
    servers: list[Server] = []

    def start(behaviour: Behaviour) -> str:
        numbers = iter(range(10**9))
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1  # head and body in one segment

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    number = next(numbers)
                told = behaviour(number)
                if told is None:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                status, seconds = told
                time.sleep(seconds)
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = Server(("127.0.0.1", free_port()), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/x"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def send(root: Path) -> Callable[..., dict[str, Any]]:
    def run(url: str, **more: Any) -> dict[str, Any]:
        order = {
            "url": url,
            "body": "{}",
            "headers": {"Content-Type": "application/json"},
            "rate": 200,
            "warm_up_seconds": 0.2,
            "seconds": 1.5,
            "grace_seconds": 1.0,
            "cap": 100,
            "within": [0.25],
            **more,
        }
        done = subprocess.run(
            [sys.executable, "-m", "bench.open_loop"],
            cwd=root,
            input=json.dumps(order) + "\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        parts = ("dropped", "good", "refused", "failed")
        assert answer["offered"] == sum(answer[part] for part in parts), "every arrival went somewhere"
        return answer

    return run


def test_every_reply_is_counted_by_what_it_is(
    serve: Callable[[Behaviour], str], send: Callable[..., dict[str, Any]]
) -> None:
    answer = send(serve(lambda number: None if number % 10 == 0 else (503 if number % 10 == 1 else 200, 0.0)))
    assert 200 < answer["offered"] < 400, "about 300 arrivals"
    assert answer["dropped"] == 0
    assert answer["failed"] == pytest.approx(answer["offered"] / 10, abs=4)
    assert answer["refused"] == pytest.approx(answer["offered"] / 10, abs=4)
    assert answer["latency_p99_seconds"] is None, "a tenth never came well"
    assert answer["latency_p50_seconds"] < 0.25


def test_a_stall_is_seen_by_all_that_arrive_in_it(
    serve: Callable[[Behaviour], str], send: Callable[..., dict[str, Any]]
) -> None:
    until = [0.0]

    def stalls(number: int) -> tuple[int, float]:
        if number == 100:
            until[0] = time.monotonic() + 0.5
        return 200, max(0.0, until[0] - time.monotonic())

    answer = send(serve(stalls), cap=300)
    late = answer["good"] - answer["good_latencies_within"]["0.25"]
    assert answer["good"] == answer["offered"]
    assert 20 < late < 120, "about half of the 100 that arrived within the 0.5 s"
    assert answer["latency_p99_seconds"] > 0.4


def test_beyond_the_cap_arrivals_are_dropped_not_queued(
    serve: Callable[[Behaviour], str], send: Callable[..., dict[str, Any]]
) -> None:
    answer = send(serve(lambda number: (200, 0.5)), cap=10)
    assert answer["good"] == pytest.approx(30, abs=15), "ten connections, half a second each"
    assert answer["dropped"] > 150


def test_what_is_not_answered_by_the_end_has_failed(
    serve: Callable[[Behaviour], str], send: Callable[..., dict[str, Any]]
) -> None:
    answer = send(serve(lambda number: (200, 30.0)), seconds=0.5, grace_seconds=0.3)
    assert answer["good"] == 0
    assert answer["failed"] == answer["offered"] - answer["dropped"] > 0
