"""The service that is tuned: one that runs already, or one of our own that can be started anew with other settings."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import gevent
import requests

from loadtest.analysis.tuner.knobs import Knobs
from loadtest.errors import CannotGoOn

ROOT: Final = Path(__file__).resolve().parents[2]
START_SECONDS: Final = 90.0  # the digits forest is trained at its first start
_LOOK_SECONDS: Final = 0.1
_END_SECONDS: Final = 15.0  # its drain, and a little
_LAUNCH: Final = ROOT / "stack" / "launch.py"  # ties a child's life to ours and chooses its CPUs
_LOOPBACK: Final = "127.0.0.1"


class ServiceError(CannotGoOn):
    """A service of our own could not be had: one sentence."""


class RunningService:
    """Somebody else's: only its knobs can be turned."""

    def ready_for(self, knobs: Knobs) -> None:
        """It is as it is."""

    def end(self) -> None:
        """It goes on."""


class OwnService:
    """`python -m service` on free ports of the loopback interface, with settings from the environment."""

    def __init__(
        self, environment: Mapping[str, str], models: Mapping[str, str], cpus: Sequence[int], log: Path
    ) -> None:
        """`models`: SERVICE_MODEL by the name of a runtime. Not started yet."""
        self._environment, self._models, self._cpus, self._log = dict(environment), dict(models), tuple(cpus), log
        self.token: Final = secrets.token_urlsafe(24)
        port, admin_port = _free_ports(2)
        self.url: Final = f"http://{_LOOPBACK}:{port}"
        self.admin_url: Final = f"http://{_LOOPBACK}:{admin_port}"
        self._ports = {"SERVICE_PORT": str(port), "SERVICE_ADMIN_PORT": str(admin_port)}
        self._process: subprocess.Popen[bytes] | None = None
        self._as: tuple[int | None, str | None] | None = None

    def ready_for(self, knobs: Knobs) -> None:
        """Runs with these workers and this runtime when it returns; ServiceError."""
        wanted = knobs.workers, knobs.runtime
        if self._process is not None and self._as == wanted:
            if self._process.poll() is not None:
                raise ServiceError(f"the service has ended by itself: {self._last_words()}")
            return
        self.end()
        self._start(knobs)
        self._as = wanted

    def _start(self, knobs: Knobs) -> None:
        environment = self._environment | self._ports
        environment |= {
            "SERVICE_HOST": _LOOPBACK,
            "SERVICE_ADMIN_HOST": _LOOPBACK,
            "SERVICE_ADMIN_TOKEN": self.token,
            "SERVICE_DRAIN_GRACE_SECONDS": "0",  # nobody but us asks it
        }
        if knobs.workers is not None:
            environment["SERVICE_MODEL_WORKERS"] = str(knobs.workers)
        if knobs.runtime is not None:
            environment["SERVICE_MODEL"] = self._models[knobs.runtime]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid())),
                    *(",".join(map(str, self._cpus)), sys.executable, "-m", "service"),
                ],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + START_SECONDS
        while not self._ready():
            if self._process.poll() is not None:
                raise ServiceError(f"the service did not start: {self._last_words()}")
            if time.monotonic() > end:
                raise ServiceError(f"the service was not ready within {START_SECONDS:g} s: {self._last_words()}")
            gevent.sleep(_LOOK_SECONDS)

    def _ready(self) -> bool:
        session = requests.Session()
        session.trust_env = False
        try:
            return session.get(f"{self.admin_url}/readyz", timeout=2).ok
        except requests.RequestException:
            return False

    def end(self) -> None:
        """End it if it runs."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        end = time.monotonic() + _END_SECONDS
        while process.poll() is None and time.monotonic() < end:
            gevent.sleep(_LOOK_SECONDS)
        if process.poll() is None:
            process.kill()
            process.wait()

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._log.read_text("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"


def _free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((_LOOPBACK, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
