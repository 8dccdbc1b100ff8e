"""From bad requests to the webhook and back, through the real Prometheus and Alertmanager with the shipped files.

The promise of the local profile: with at least 10% of requests bad, the webhook is called within 60 s of the breach,
and told "resolved" within 120 s of the recovery.
"""

import json
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import generate_latest

from slo import names
from slo.config import load
from stack.binaries import Binaries

REQUESTS_PER_SECOND = 200
HISTORY_SECONDS = 45  # good ones first: the long window must be turned, as in real life
FIRES_WITHIN, RESOLVES_WITHIN = 60, 120
PORTS = {"inference": 8001, "prometheus": 9090, "alertmanager": 9093}


@dataclass
class Service:
    """A service's /metrics under a steady load of which a share is too slow."""

    edges: tuple[float, ...]
    slow_share: float = 0.0
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        labels = ("model", "route", "outcome")
        self.histogram = Histogram(names.REQUEST_DURATION, "x", labels, buckets=self.edges, registry=self.registry)
        for outcome in names.OUTCOMES:
            self.histogram.labels("digits", names.ROUTE_PREDICT, outcome)

    def load(self) -> None:
        """Every tenth of a second a tenth of the requests; those at the end of a round of 100 are the slow ones."""
        answered = self.histogram.labels("digits", names.ROUTE_PREDICT, "ok")
        number, start = 0, time.monotonic()
        while not self.stopped.wait(0.1):
            while number < (time.monotonic() - start) * REQUESTS_PER_SECOND:
                answered.observe(0.2 if number % 100 >= 100 * (1 - self.slow_share) else 0.01)
                number += 1


@dataclass
class Inbox:
    """What the webhook was told, with the time of its arrival."""

    arrived: "queue.Queue[tuple[float, dict[str, Any]]]" = field(default_factory=queue.Queue)

    def wait_for(self, status: str, seconds: float) -> tuple[float, dict[str, Any]]:
        """The next alert, which must have that status."""
        at, alert = self.arrived.get(timeout=seconds)
        assert (alert["labels"]["alertname"], alert["status"]) == ("LatencySLOBreach", status), alert
        return at, alert


@contextmanager
def listening(port: int, service: Service, inbox: Inbox) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = generate_latest(service.registry)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            for alert in message["alerts"]:
                inbox.arrived.put((time.monotonic(), alert))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def running(log: Path, *command: object) -> Iterator[None]:
    with log.open("w") as output:
        process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=subprocess.STDOUT)
    try:
        yield
        assert process.poll() is None, f"{command[0]} ended by itself: {log.read_text()[-2000:]}"
    finally:
        process.terminate()
        process.wait(timeout=20)


def shipped(root: Path, target: Path, ports: dict[str, int], webhook_port: int) -> None:
    """The shipped files with other ports, and only those targets that are here."""
    shutil.copytree(root / "prometheus", target)
    for file in (target / "targets").glob("*.yml"):
        text = "[]\n"
        if file.stem in ports:
            text = file.read_text().replace(f":{PORTS[file.stem]}", f":{ports[file.stem]}")
            assert str(ports[file.stem]) in text
        file.write_text(text)
    alertmanager = target / "alertmanager.yml"
    alertmanager.write_text(alertmanager.read_text().replace(":8060/", f":{webhook_port}/"))


@pytest.mark.timeout(400)
def test_a_breach_reaches_the_webhook_and_so_does_its_end(
    root: Path, tmp_path: Path, binaries: Binaries, free_port: Callable[[], int]
) -> None:
    ports = {name: free_port() for name in PORTS}
    config = tmp_path / "prometheus"
    shipped(root, config, ports, webhook_port=ports["inference"])
    service, inbox = Service(load(root / "slo.yaml").duration_edges), Inbox()
    traffic = threading.Thread(target=service.load)
    with (
        listening(ports["inference"], service, inbox),
        running(
            tmp_path / "alertmanager.log",
            binaries.alertmanager,
            f"--config.file={config / 'alertmanager.yml'}",
            f"--storage.path={tmp_path / 'alertmanager-data'}",
            f"--web.listen-address=127.0.0.1:{ports['alertmanager']}",
            "--cluster.listen-address=",
        ),
        running(
            tmp_path / "prometheus.log",
            binaries.prometheus,
            f"--config.file={config / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'prometheus-data'}",
            f"--web.listen-address=127.0.0.1:{ports['prometheus']}",
        ),
    ):
        traffic.start()
        try:
            time.sleep(HISTORY_SECONDS)
            assert inbox.arrived.empty(), "an alert without a breach"
            service.slow_share, breach = 0.1, time.monotonic()
            fired, alert = inbox.wait_for("firing", FIRES_WITHIN + 30)
            assert fired - breach <= FIRES_WITHIN
            assert alert["labels"] == {
                "alertname": "LatencySLOBreach",
                "job": "inference",
                "severity": "page",
                "window": "2m",
            }
            assert "longer than 50 ms (p99 " in alert["annotations"]["description"]
            service.slow_share, recovery = 0.0, time.monotonic()
            resolved, _ = inbox.wait_for("resolved", RESOLVES_WITHIN + 30)
            assert resolved - recovery <= RESOLVES_WITHIN
            print(f"fired {fired - breach:.1f} s after the breach, resolved {resolved - recovery:.1f} s after recovery")
            assert inbox.arrived.empty()
        finally:
            service.stopped.set()
            traffic.join()
