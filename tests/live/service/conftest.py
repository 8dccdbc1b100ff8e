"""A real `python -m service` on free ports, ended by its process id."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

START_SECONDS = 120  # a busy machine imports scikit-learn slowly
TOKEN = "a-token-for-tests"


@dataclass
class Running:
    """A service process, and the little HTTP that tests need."""

    process: subprocess.Popen[str]
    port: int
    admin_port: int
    lines: list[str] = field(default_factory=list)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        admin: bool = False,
        timeout: float = 30,
    ) -> tuple[int, dict[str, str], bytes]:
        """One request on a connection of its own: (status, headers in lower case, body)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port if admin else self.port, timeout=timeout)
        try:
            return exchange(connection, method, path, body, headers)
        finally:
            connection.close()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def predict(self, rows: list[list[float]], **more: Any) -> Any:
        status, _, body = self.call("POST", "/predict", {"instances": rows, **more})
        assert status == 200, body
        return json.loads(body)["predictions"]

    def metric(self, name: str, **labels: str) -> float:
        """The value of one sample now."""
        _, _, text = self.call("GET", "/metrics", admin=True)
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        values = []
        for line in text.decode().splitlines():
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match and match[1] == name and wanted <= set(re.findall(r'\w+="[^"]*"', match[2] or "")):
                values.append(float(match[3]))
        assert values, f"{name} {labels} is not exported"
        return sum(values)

    def turn(self, **knobs: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        status, _, body = self.call("PATCH", "/admin/batching", knobs, headers, admin=True)
        assert status == 200, body
        shown: dict[str, Any] = json.loads(body)
        return shown

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def exit_code(self, seconds: float = 60) -> int:
        return self.process.wait(seconds)

    @property
    def output(self) -> str:
        return "".join(self.lines)


def exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """One request on a given connection."""
    stated = dict(headers or {})
    if isinstance(body, dict):
        body = json.dumps(body)
        stated.setdefault("Content-Type", "application/json")
    connection.request(method, path, body, stated)
    response = connection.getresponse()
    return response.status, {key.lower(): value for key, value in response.getheaders()}, response.read()


@pytest.fixture
def on() -> Callable[..., tuple[int, dict[str, str], bytes]]:
    return exchange


@pytest.fixture
def environment(free_port: Callable[[], int], tmp_path: Path) -> Callable[..., dict[str, str]]:
    """An environment for a service of one's own; a value of None leaves the variable out."""

    def make(**changes: str | None) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SERVICE_", "SLO_"))}
        wanted = {
            "SERVICE_MODEL": "synthetic?fixed_seconds=0.002&per_row_seconds=0.00001&features=3",
            "SERVICE_MODEL_WORKERS": "0",
            "SERVICE_MODEL_CACHE_DIR": str(tmp_path / "models"),
            "SERVICE_PORT": str(free_port()),
            "SERVICE_ADMIN_PORT": str(free_port()),
            "SERVICE_ADMIN_TOKEN": TOKEN,
            "SERVICE_REQUEST_TIMEOUT_SECONDS": "30",
            "SERVICE_DRAIN_GRACE_SECONDS": "0.2",
            **changes,
        }
        return kept | {name: value for name, value in wanted.items() if value is not None}

    return make


@pytest.fixture
def start(root: Path, environment: Callable[..., dict[str, str]]) -> Iterator[Callable[..., Running]]:
    """Starts a service and returns once it is ready; ended after the test whatever happens."""
    started: list[Running] = []

    def run(*, wait: bool = True, preexec: Callable[[], None] | None = None, **changes: str | None) -> Running:
        env = environment(**changes)
        process = subprocess.Popen(
            [sys.executable, "-m", "service"],
            cwd=root,
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=preexec,
        )
        running = Running(process, int(env["SERVICE_PORT"]), int(env["SERVICE_ADMIN_PORT"]))
        started.append(running)
        ready = threading.Event()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                running.lines.append(line)
                if " ready on " in line:
                    ready.set()
            ready.set()

        threading.Thread(target=read, daemon=True).start()
        if wait:
            assert ready.wait(START_SECONDS), running.output
            assert process.poll() is None, running.output
        return running

    yield run
    for running in started:
        if running.process.poll() is None:
            running.process.kill()
        running.process.wait(30)


@pytest.fixture
def refused(root: Path, environment: Callable[..., dict[str, str]]) -> Callable[..., tuple[int, str]]:
    """Runs a service that must not start: (exit code, what it said)."""

    def run(preexec: Callable[[], None] | None = None, **changes: str | None) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "service"],
            cwd=root,
            env=environment(**changes),
            text=True,
            capture_output=True,
            timeout=START_SECONDS,
            preexec_fn=preexec,
            check=False,
        )
        assert done.stdout == ""
        return done.returncode, done.stderr

    return run


@pytest.fixture
def until() -> Callable[..., None]:
    """Waits for something to become true."""

    def wait(true: Callable[[], bool], seconds: float = 15) -> None:
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, "it did not become true"
            time.sleep(0.02)

    return wait
