"""A server whose delays a test sets and which counts arrivals itself, and the real Locust as a process."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

Send = Callable[[bytes], None]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 19\r\n\r\n" + b'{"predictions":[1]}'
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
START_SECONDS = 60.0  # for a process to come up on a loaded machine


class ProgrammableServer:
    """HTTP/1.1 on a free port in a thread of its own. Set the attributes at any time; they hold for later arrivals."""

    def __init__(self) -> None:
        self.delay_seconds = 0.0
        self.hold_until = 0.0  # no reply before this monotonic instant: a stall that still reads
        self.replies: list[bytes] = [OK]  # in turn
        self.arrivals: list[float] = []  # monotonic instants at which a whole request was there
        self.connections = 0  # on which there was at least one of these
        self.requests: list[bytes] = []  # the first few, whole
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(self._start())
        self.port: int = self._server.sockets[0].getsockname()[1]

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _start(self) -> asyncio.Server:
        return await self._loop.create_server(lambda: _Protocol(self), "127.0.0.1", 0, backlog=4096)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def took(self, request: bytes, send: Send) -> None:
        """A whole request has arrived; answer it when it is time."""
        now = time.monotonic()
        reply = self.replies[len(self.arrivals) % len(self.replies)]
        self.arrivals.append(now)
        if len(self.requests) < 10:
            self.requests.append(request)
        wait = max(self.delay_seconds, self.hold_until - now)
        if wait > 0:
            self._loop.call_later(wait, send, reply)
        else:
            send(reply)

    def rate(self, start: float, end: float) -> float:
        """Arrivals per second between two monotonic instants."""
        return sum(start <= at < end for at in self.arrivals) / (end - start)


class _Protocol(asyncio.Protocol):
    def __init__(self, server: ProgrammableServer) -> None:
        self._server = server
        self._buffer = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._counted = False

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            head, separator, rest = self._buffer.partition(b"\r\n\r\n")
            if not separator:
                return
            stated = head.lower().partition(b"content-length: ")[2]
            length = int(stated.split(b"\r\n")[0]) if stated else 0
            if len(rest) < length:
                return
            request, self._buffer = head + separator + rest[:length], rest[length:]
            if request.startswith(b"POST /v2/repository/index "):
                self._send(NOT_FOUND)  # the generator asks what the model takes, before the load and not as part of it
                continue
            if not self._counted:
                self._server.connections += 1
                self._counted = True
            self._server.took(request, self._send)

    def _send(self, reply: bytes) -> None:
        """An empty reply hangs up without a word; one that says so hangs up after it."""
        self._transport.write(reply)
        if not reply or b"connection: close" in reply.lower():
            self._transport.close()


@pytest.fixture
def server() -> Iterator[ProgrammableServer]:
    made = ProgrammableServer()
    yield made
    made.close()


class LocustProcess:
    """`locust -f loadtest/locustfile.py` with its web UI and metrics on free ports."""

    def __init__(self, process: subprocess.Popen[str], ui_port: int, metrics_port: int, log: Path) -> None:
        self.process = process
        self.ui = f"http://127.0.0.1:{ui_port}"
        self._metrics = f"http://127.0.0.1:{metrics_port}/metrics"
        self._log = log

    @property
    def output(self) -> str:
        return self._log.read_text()

    def swarm(self, **form: Any) -> dict[str, Any]:
        """Post the form; what Locust says. Insists on success unless `refused` is asked for."""
        refused = form.pop("refused", False)
        reply = requests.post(self.ui + "/swarm", data=form, timeout=10)
        said: dict[str, Any] = reply.json()
        assert reply.status_code == 200
        assert said["success"] is not refused, said
        return said

    def stop(self) -> None:
        assert requests.post(self.ui + "/stop", timeout=30).json()["success"]

    def load(self) -> dict[str, Any]:
        said: dict[str, Any] = requests.get(self.ui + "/load", timeout=10).json()
        return said

    def stats(self) -> dict[str, Any]:
        said: dict[str, Any] = requests.get(self.ui + "/stats/requests", timeout=10).json()
        return said

    def metrics(self) -> dict[str, float]:
        """Samples by name with labels, as written on the page."""
        text = requests.get(self._metrics, timeout=10).text
        lines = (line for line in text.splitlines() if line and not line.startswith("#"))
        return {key: float(value) for key, _, value in (line.rpartition(" ") for line in lines)}

    def wait(self, holds: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """The account once it is as asked for."""
        end = time.monotonic() + seconds
        while True:
            now = self.load()
            if holds(now):
                return now
            assert time.monotonic() < end, f"not within {seconds} s: {json.dumps(now)}\n{self.output}"
            time.sleep(0.05)


def check_identity(account: dict[str, Any]) -> None:
    """offered = started + dropped and started = completed + failed + unfinished + in flight, exactly."""
    assert account["offered"] == account["started"] + account["dropped"], account
    ended = account["completed"] + account["failed"] + account["unfinished"]
    assert account["started"] == ended + account["in_flight"], account


@pytest.fixture
def identity() -> Callable[[dict[str, Any]], None]:
    return check_identity


Run = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def locust_command(root: Path) -> list[str]:
    return [str(Path(sys.executable).with_name("locust")), "-f", "loadtest/locustfile.py"]


@pytest.fixture
def locust(
    root: Path, tmp_path: Path, free_port: Callable[[], int], server: ProgrammableServer, locust_command: list[str]
) -> Callable[..., Any]:
    """A context manager that runs Locust against `server`, with more arguments if given."""

    @contextmanager
    def run(*arguments: str) -> Iterator[LocustProcess]:
        ui, metrics = free_port(), free_port()
        environment = {
            **os.environ,
            "LOCUST_PORT": str(ui),
            "LOCUST_METRICS_PORT": str(metrics),
            "SERVICE_PORT": str(server.port),
        }
        log = tmp_path / "locust.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [*locust_command, *arguments], cwd=root, env=environment, stdout=output, stderr=output, text=True
            )
        made = LocustProcess(process, ui, metrics, log)
        try:
            end = time.monotonic() + START_SECONDS
            while True:
                assert process.poll() is None, made.output
                try:
                    made.load()
                    break
                except requests.ConnectionError:
                    assert time.monotonic() < end, made.output
                    time.sleep(0.1)
            yield made
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)

    return run
