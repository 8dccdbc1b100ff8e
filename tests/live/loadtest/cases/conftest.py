"""`python -m loadtest run` as a process, against servers with known delays in processes of their own.

Several runs go on at once, each against its own server: at a few hundred arrivals a second they leave each other alone,
and a test on a result costs nothing more.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from bench.known_delays import read_log
from loadtest.sample_file import read_rows

THRESHOLD_SECONDS = 0.5  # so wide that a busy machine does not decide a verdict; lateness may be a tenth of it
SLO = f"""\
services:
  - job: inference
    objective: 0.99
    threshold_seconds: {THRESHOLD_SECONDS}
    window_days: 30
    profile: local
profiles:
  local: {{windows: [30s, 2m], min_requests: 100, for: 15s, keep_firing_for: 30s}}
"""
PATIENCE_SECONDS = 90.0  # on a loaded machine, beyond a run's own length
VERDICTS = {0: "PASS", 1: "FAIL", 2: "INVALID"}


class KnownServer:
    """`python -m bench.known_delays`."""

    def __init__(self, root: Path, folder: Path, *arguments: str) -> None:
        self._folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.known_delays", *arguments],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port: int = json.loads(self._line())["port"]
        self.url = f"http://127.0.0.1:{self.port}"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def order(self, **order: Any) -> int:
        """Carried out; how many requests have arrived."""
        assert self.process.stdin is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return int(json.loads(self._line())["arrivals"])

    def wait_for(self, arrivals: int) -> None:
        """Until so many have arrived."""
        end = time.monotonic() + PATIENCE_SECONDS
        while self.order() < arrivals:
            assert time.monotonic() < end, f"{self.order()} of {arrivals} requests came"
            time.sleep(0.05)

    def log(self) -> Any:
        """(arrived, answered) as two columns of monotonic seconds."""
        path = self._folder / f"log-{self.port}.npy"
        self.order(log=str(path))
        return read_log(path).T

    def freeze(self, seconds: float) -> tuple[float, float]:
        """SIGSTOP for so long; from when to when it was."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            self.process.send_signal(signal.SIGCONT)
        return began, time.monotonic()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()  # it ends with its standard input
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@dataclass(frozen=True)
class Ended:
    """A run that is over."""

    code: int
    printed: str
    progress: str
    result: dict[str, Any]
    rows: list[tuple[float, Any]]  # per generator process: when its load began, and its arrivals, on the server's clock

    @property
    def scheduled(self) -> Any:
        """Instants of all arrivals that were noted, ascending, in seconds of the load's own time."""
        return np.sort(np.concatenate([rows["scheduled"] - began for began, rows in self.rows]))

    @property
    def began(self) -> float:
        """The zero of the load's time on the machine's clock."""
        return min(began for began, _ in self.rows)


class LoadRun:
    """`python -m loadtest run`, started and not yet over."""

    def __init__(self, root: Path, folder: Path, target: str, *arguments: str) -> None:
        self.out = folder / "out"
        self._printed, self._progress = folder / "printed.txt", folder / "progress.txt"
        slo = folder / "slo.yaml"
        slo.write_text(SLO)
        command = [sys.executable, "-m", "loadtest", "run", "--target", target, "--slo", str(slo)]
        with self._printed.open("w") as printed, self._progress.open("w") as progress:
            self.process = subprocess.Popen(
                [*command, "--out", str(self.out), *arguments],
                cwd=root,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=progress,
                env={key: value for key, value in os.environ.items() if key not in ("SLO_FILE", "SERVICE_PORT")},
            )

    def workers(self) -> list[psutil.Process]:
        """Its generator processes."""
        children = psutil.Process(self.process.pid).children()
        return [child for child in children if "loadtest.run.worker" in child.cmdline()]

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> Ended:
        """Wait for it. Its exit code, its words and its record agree, whatever the verdict."""
        code = self.process.wait(PATIENCE_SECONDS)
        printed, progress = self._printed.read_text(), self._progress.read_text()
        assert "Traceback" not in printed + progress, printed + progress
        assert (self.out / "result.json").exists(), printed + progress
        result = json.loads((self.out / "result.json").read_text())
        assert printed.splitlines()[0] == result["verdict"] == VERDICTS[code], printed
        assert (self.out / "report.html").stat().st_size > 10_000
        for counts in (result, result["measured"]):
            ended = [counts[name] for name in ("completed", "failed", "dropped", "in_flight_at_end")]
            assert counts["offered"] == sum(ended), counts
        rows = [read_rows(path) for path in sorted((self.out / "samples").glob("*.samples"))]
        return Ended(code, printed, progress, result, rows)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()  # its generators go with it
            self.process.wait()


Serve = Callable[..., KnownServer]


@pytest.fixture(scope="module")
def serve(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Starts a server with some arguments."""
    made: list[KnownServer] = []

    def start(*arguments: str) -> KnownServer:
        made.append(KnownServer(root, tmp_path_factory.mktemp("server"), *arguments))
        return made[-1]

    yield start
    for server in made:
        server.close()


@pytest.fixture(scope="module")
def start(
    root: Path, serve: Serve, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., tuple[KnownServer, LoadRun]]]:
    """Starts a server with some arguments, and a run against it with others."""
    made: list[LoadRun] = []

    def begin(server: tuple[str, ...], *arguments: str) -> tuple[KnownServer, LoadRun]:
        known = serve(*server)
        made.append(LoadRun(root, tmp_path_factory.mktemp("run"), known.url, *arguments))
        return known, made[-1]

    yield begin
    for run in made:
        run.kill()
