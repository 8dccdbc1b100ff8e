"""A whole alert path of its own: a stand-in for the service, Prometheus, Alertmanager and the inbox, as the stack runs
them, with the shipped rules and configuration. Only ports and directories differ from `make up`.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from slo.config import load
from stack.binaries import Binaries
from stack.component import Component
from stack.parts import PARTS, Context
from stack.settings import ROOT, StackSettings, variable
from tests.ops.alert_path.service import Service, exporting
from tests.ops.alert_path.webhook import Webhook, listening, until

LAUNCH = ROOT / "stack" / "launch.py"  # ties a child's life to ours
START_SECONDS = 60.0


class World:
    """One alert path. The service's metrics are at `service`, what arrives is at `webhook`."""

    def __init__(self, directory: Path, binaries: Binaries, replicas: int = 1, with_inbox: bool = False) -> None:
        self.binaries = binaries
        named = ("service_admin", "locust_metrics", "prometheus", "alertmanager", "inbox")
        behind, *ports = free_ports(len(named) + replicas)
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("SERVICE_", "TAILBOARD_"))
        }
        environment |= {variable(f"{name}_port"): str(port) for name, port in zip(named, ports, strict=False)}
        environment["TAILBOARD_STATE_DIR"] = str(directory)
        self.settings = StackSettings.from_environment(environment)
        edges = load(ROOT / "slo.yaml").duration_edges
        self.replicas = {port: Service(edges) for port in (ports[0], *ports[len(named) :])}
        self.service = self.replicas[ports[0]]
        self.generator = Service(edges)
        self.webhook = Webhook(f"http://127.0.0.1:{behind}" if with_inbox else None)
        context = Context(self.settings, binaries, "unused")
        parts = {part.name: part for part in PARTS}
        self._components = {name: parts[name].build(context, parts[name]) for name in ("prometheus", "alertmanager")}
        if with_inbox:  # it listens behind the one that Alertmanager knows
            inbox = Context(StackSettings.from_environment({**environment, "INBOX_PORT": str(behind)}), None, "")
            self._components["inbox"] = parts["inbox"].build(inbox, parts["inbox"])
        targets = self.settings.run_dir / "prometheus" / "targets" / "inference.yml"
        targets.write_text(json.dumps([{"targets": [f"127.0.0.1:{port}" for port in self.replicas]}]))
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    # --- processes ---

    def start(self, name: str) -> float:
        """Starts a part and waits until it is ready; the unix time when it was."""
        component = self._components[name]
        log = (self.settings.state_dir / f"{name}.log").open("ab")
        with log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid()), "", *component.argv],
                cwd=ROOT,
                env=dict(component.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(f"{name} is ready", lambda: self._ready(name, component), START_SECONDS)
        return time.time()

    def _ready(self, name: str, component: Component) -> bool:
        ended = self._running[name].poll() is not None
        assert not ended, f"{name} ended by itself:\n{(self.settings.state_dir / f'{name}.log').read_text()[-2000:]}"
        try:
            with urllib.request.urlopen(component.ready_url, timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def stop(self, name: str) -> float:
        """Ends a part as the stack would, with SIGTERM; the unix time when it had ended."""
        process = self._running.pop(name)
        assert process.poll() is None, f"{name} had ended by itself"
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
            raise
        return time.time()

    def stop_all(self) -> None:
        for name in list(self._running):
            self.stop(name)

    # --- questions ---

    def prometheus(self, path: str, **parameters: object) -> Any:
        """`data` of an answer of Prometheus's API."""
        return self._get(self.settings.prometheus_port, path, parameters)["data"]

    def value(self, expression: str) -> float | None:
        """Of an instant query with at most one series."""
        result = self.prometheus("/api/v1/query", query=expression)["result"]
        return float(result[0]["value"][1]) if result else None

    def alerts(self, name: str, state: str | None = None) -> list[dict[str, Any]]:
        """Those that Prometheus holds active, pending or firing."""
        found = self.prometheus("/api/v1/alerts")["alerts"]
        return [a for a in found if a["labels"]["alertname"] == name and state in (None, a["state"])]

    def wait_state(self, name: str, state: str, seconds: float, count: int = 1) -> list[dict[str, Any]]:
        """Until Prometheus holds `count` of that alert in that state."""

        def enough() -> list[dict[str, Any]]:
            found = self.alerts(name, state)
            return found if len(found) >= count else []

        return until(f"{count} {name} {state} in Prometheus", enough, seconds)

    def wait_over(self, name: str, seconds: float) -> None:
        """Until Prometheus holds none of that alert, nor a pending one."""
        until(f"{name} over in Prometheus", lambda: not self.alerts(name), seconds)

    def amtool(self, *arguments: str) -> str:
        """What amtool prints, asked about the running Alertmanager."""
        url = self.settings.url(self.settings.alertmanager_port)
        done = subprocess.run(
            [self.binaries.amtool, f"--alertmanager.url={url}", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def amtool_alerts(self, *arguments: str) -> list[dict[str, Any]]:
        """`amtool alert query`, in full."""
        found: list[dict[str, Any]] = json.loads(self.amtool("--output=json", "alert", "query", *arguments))
        return found

    def inbox(self, path: str) -> str:
        """A page of the real inbox."""
        with urllib.request.urlopen(f"{self.webhook.inbox}{path}", timeout=10) as response:
            return str(response.read().decode())

    def _get(self, port: int, path: str, parameters: Mapping[str, object]) -> Any:
        query = urllib.parse.urlencode({name: str(value) for name, value in parameters.items()})
        with urllib.request.urlopen(f"{self.settings.url(port)}{path}?{query}", timeout=10) as response:
            return json.load(response)


@contextmanager
def running(
    directory: Path, binaries: Binaries, replicas: int = 1, with_inbox: bool = False, without: tuple[str, ...] = ()
) -> Iterator[World]:
    """A world whose parts are ready, but for those named in `without`; all of it ended afterwards."""
    world = World(directory, binaries, replicas, with_inbox)
    with ExitStack() as stack:
        stack.callback(world.stop_all)
        for port, service in world.replicas.items():
            stack.enter_context(exporting(port, service))
        stack.enter_context(exporting(world.settings.locust_metrics_port, world.generator))
        stack.enter_context(listening(world.settings.inbox_port, world.webhook))
        for name in ("inbox", "alertmanager", "prometheus"):
            if name in world._components and name not in without:
                world.start(name)
        yield world


_given: set[int] = set()  # by this process, whose worlds may be made side by side
_giving = threading.Lock()


def free_ports(count: int) -> list[int]:
    """Loopback ports below those of outgoing connections, which could take one first; never the same one twice."""
    ports: list[int] = []
    with _giving:
        while len(ports) < count:
            port = random.randrange(20_000, 32_000)
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            if port not in _given:
                _given.add(port)
                ports.append(port)
    return ports
