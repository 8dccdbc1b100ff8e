"""`python -m stack.inbox` as a process: serves, keeps, ends when asked, says what is wrong."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stack.inbox.web import MAX_BODY_BYTES
from stack.settings import ROOT

ALERT = {
    "status": "firing",
    "labels": {"alertname": "A"},
    "annotations": {},
    "startsAt": "2026-01-31T12:00:00Z",
    "endsAt": "0001-01-01T00:00:00Z",
}


class Inbox:
    def __init__(self, state_dir: Path, port: int) -> None:
        self.port = port
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stack.inbox"],
            cwd=ROOT,
            env={"INBOX_PORT": str(port), "TAILBOARD_STATE_DIR": str(state_dir)},
            stderr=subprocess.PIPE,
            text=True,
        )

    def request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def ready(self) -> "Inbox":
        for _ in range(300):
            try:
                if self.request("GET", "/healthz")[0] == 200:
                    return self
            except ConnectionRefusedError:
                assert self.process.poll() is None, self.process.communicate()[1]
            time.sleep(0.1)
        raise AssertionError("the inbox did not answer within 30 s")


@pytest.fixture
def start(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Callable[[], Inbox]]:
    started: list[Inbox] = []

    def begin(port: int | None = None) -> Inbox:
        started.append(Inbox(tmp_path, port or free_port()))
        return started[-1]

    yield begin
    for inbox in started:
        inbox.process.kill()
        inbox.process.wait()
        assert inbox.process.stderr is not None
        inbox.process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_acknowledged_is_there_after_a_restart(start: Callable[[], Inbox], number: signal.Signals) -> None:
    first = start().ready()
    assert first.request("POST", "/webhook", json.dumps({"alerts": [ALERT]}).encode()) == (200, {"received": 1})
    first.process.send_signal(number)
    assert first.process.wait(10) == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    _, alerts = start().ready().request("GET", "/api/alerts")
    assert [alert["labels"] for alert in alerts] == [{"alertname": "A"}]


def test_a_body_that_is_too_large_is_told_so_over_a_real_connection(start: Callable[[], Inbox]) -> None:
    inbox = start().ready()
    status, reply = inbox.request("POST", "/webhook", b" " * (MAX_BODY_BYTES + 1))
    assert status == 413
    assert "expected one notification of Alertmanager" in reply["error"]
    assert inbox.request("GET", "/healthz")[0] == 200


def test_it_listens_on_loopback_only(start: Callable[[], Inbox]) -> None:
    inbox = start().ready()
    with socket.socket() as other:
        other.settimeout(5)
        assert other.connect_ex(("127.0.0.2", inbox.port)) != 0


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"INBOX_PORT": "http"}, "error: INBOX_PORT is 'http'; expected a port from 1 to 65535\n"),
        ({"TAILBOARD_STATE_DIR": "/dev/null"}, "error: the alert inbox cannot use /dev/null"),
    ],
)
def test_a_mistake_is_one_sentence(environment: dict[str, str], sentence: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stack.inbox"],
        cwd=ROOT,
        env={"TAILBOARD_STATE_DIR": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(sentence)
    assert len(done.stderr.splitlines()) == 1


def test_a_busy_port_is_one_sentence(start: Callable[..., Inbox]) -> None:
    inbox = start().ready()
    second = start(inbox.port)
    assert second.process.wait(30) == 1
    assert second.process.stderr is not None
    assert second.process.stderr.read() == (
        f"error: the alert inbox cannot use 127.0.0.1:{inbox.port} (Address already in use)\n"
    )
