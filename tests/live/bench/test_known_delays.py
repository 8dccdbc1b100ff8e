"""The server with known delays as a process: what it answers, counts and obeys."""

import json
import math
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.known_delays import read_log

POST = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n{\r\n}"


class Running:
    def __init__(self, root: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.known_delays", *arguments],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = json.loads(self._line())["port"]

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def order(self, **order: Any) -> int:
        assert self.process.stdin is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return int(json.loads(self._line())["arrivals"])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(10)


@pytest.fixture
def running(root: Path) -> Iterator[Running]:
    made = Running(root, "--delay", "0.05", "--statuses", "200,503")
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def reply(peer: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b'{"predictions":[1]}'):
        more = peer.recv(65536)
        assert more, data
        data += more
    return data


def test_whole_requests_are_counted_and_answered_after_their_delay(running: Running, tmp_path: Path) -> None:
    with running.connect() as peer:
        for byte in POST[:-1]:
            peer.sendall(bytes([byte]))
        time.sleep(0.05)
        assert running.order() == 0  # not whole yet
        began = time.monotonic()
        peer.sendall(POST[-1:])
        assert reply(peer).startswith(b"HTTP/1.1 200 ")
        assert time.monotonic() - began >= 0.045
        peer.sendall(POST)
        assert reply(peer).startswith(b"HTTP/1.1 503 ")  # in turn
        peer.sendall(b"GET /predict HTTP/1.1\r\nHost: x\r\n\r\n")
        assert reply(peer).startswith(b"HTTP/1.1 404 ")
    with running.connect() as gone:
        gone.sendall(POST)
        time.sleep(0.01)
    with running.connect() as peer:
        peer.sendall(POST)
        reply(peer)
    assert running.order(log=str(tmp_path / "log.npy")) == 4
    arrived, answered = read_log(tmp_path / "log.npy").T
    assert arrived[0] >= began
    assert 0.045 <= answered[0] - arrived[0] <= 0.5
    assert math.isnan(answered[2])  # its caller had hung up
    assert running.order(forget=True) == 0


def test_it_obeys_while_it_runs_and_ends_with_its_standard_input(running: Running) -> None:
    with running.connect() as peer:
        running.order(delay="0")
        peer.sendall(POST)
        reply(peer)
        running.order(stall=0.3)
        began = time.monotonic()
        peer.sendall(POST)
        reply(peer)
        assert time.monotonic() - began >= 0.28
    assert running.process.stdin is not None
    print('{"delay": "soon"}', file=running.process.stdin, flush=True)
    assert "'soon' is no delay" in json.loads(running._line())["error"]
    assert running.order() == 2
    assert running.end() == 0


def test_a_delay_that_is_none_stops_the_start_with_one_sentence(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.known_delays", "--delay", "soon"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "'soon' is no delay; expected seconds" in done.stderr
    assert "Traceback" not in done.stderr
