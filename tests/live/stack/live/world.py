"""A Prometheus of one's own with a fake service and load generator behind it, and a live page before it."""

import math
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from slo import names
from slo.buckets import duration_edges, edge_text

EDGES = (*duration_edges(0.05), math.inf)
ROUTE = names.ROUTE_PREDICT


@dataclass
class FakeService:
    """Counters that grow with the clock, as those of a service under a steady load would.

    Latencies are log-normal around `median_seconds`. Assign to `rate` and `median_seconds` to change them.
    """

    rate: float = 100.0
    median_seconds: float = 0.008
    spread: float = 0.45
    shed_share: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _at: float = field(default_factory=time.monotonic)
    _counts: dict[str, list[float]] = field(default_factory=dict)
    _sums: dict[str, float] = field(default_factory=dict)

    def advance(self, seconds: float) -> None:
        for outcome, share in (("ok", 1 - self.shed_share), ("shed", self.shed_share), ("failed", 0.0)):
            counts = self._counts.setdefault(outcome, [0.0] * len(EDGES))
            median = self.median_seconds if outcome == "ok" else 0.001
            for index, edge in enumerate(EDGES):
                counts[index] += self.rate * share * seconds * self._below(edge, median)
            mean = median * math.exp(self.spread**2 / 2)
            self._sums[outcome] = self._sums.get(outcome, 0.0) + self.rate * share * seconds * mean

    def _below(self, edge: float, median: float) -> float:
        return 0.5 * (1 + math.erf(math.log(edge / median) / (self.spread * math.sqrt(2))))

    def text(self, prefix: str) -> str:
        """The exposition of one job's metrics."""
        now = time.monotonic()
        with self._lock:
            self.advance(now - self._at)
            self._at = now
            return "".join(f"{name} {value!r}\n" for name, value in self.samples() if name.startswith(prefix))

    def samples(self) -> Iterator[tuple[str, float]]:
        """Sample names with their labels, and values. Whole numbers, as counts of requests are."""
        for outcome, counts in self._counts.items():
            served = f'model="digits",route="{ROUTE}",outcome="{outcome}"'
            yield from self._histogram(names.REQUEST_DURATION, served, counts, self._sums[outcome])
            sent = f'name="{ROUTE}",outcome="{outcome}"'
            yield from self._histogram(names.LOADGEN_REQUEST_DURATION, sent, counts, self._sums[outcome] * 1.1)
            yield from self._histogram(names.LOADGEN_SERVICE_DURATION, sent, counts, self._sums[outcome])
        total = math.floor(sum(counts[-1] for counts in self._counts.values()))
        for state, value in (("offered", total), ("started", total), ("dropped", 0)):
            yield f'{names.LOADGEN_ARRIVALS}{{state="{state}"}}', value

    def _histogram(self, name: str, labels: str, counts: list[float], total: float) -> Iterator[tuple[str, float]]:
        for edge, count in zip(EDGES, counts, strict=True):
            le = "+Inf" if math.isinf(edge) else edge_text(edge)
            yield f'{name}_bucket{{{labels},le="{le}"}}', math.floor(count)
        yield f"{name}_count{{{labels}}}", math.floor(counts[-1])
        yield f"{name}_sum{{{labels}}}", total


@contextmanager
def exporter(service: FakeService) -> Iterator[str]:
    """Serves the fake's metrics on a free port, a path for each job; gives host:port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = service.text(self.path.removeprefix("/")).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Tests read their own output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextmanager
def running(
    arguments: list[str], ready_url: str, log: Path, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process, waited for until its URL answers 200, and ended at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            arguments,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        until(lambda: answers(ready_url) or _ended(process, log), 60, f"{arguments[0]} answers at {ready_url}")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)


def _ended(process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, f"ended with {process.returncode}:\n{log.read_text()[-2000:]}"
    return False


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def until(happens: Callable[[], object], seconds: float, what: str) -> object:
    """Polls until something true comes; the assertion names what did not happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = happens()
        if result:
            return result
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds:g} s: {what}")


@contextmanager
def prometheus(binary: Path, port: int, directory: Path, target: str, rules: str = "") -> Iterator[str]:
    """A Prometheus that scrapes the target, as the jobs of service and load generator, every second; gives its URL."""
    directory.mkdir(parents=True, exist_ok=True)
    rule_file = directory / "rules.yml"
    rule_file.write_text(rules or "groups: []\n")
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rule_file)],
        "scrape_configs": [
            {"job_name": job, "metrics_path": f"/{job}", "static_configs": [{"targets": [target]}]}
            for job in ("inference", "loadgen")
        ],
    }
    file = directory / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    url = f"http://127.0.0.1:{port}"
    arguments = [
        str(binary),
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with running(arguments, f"{url}/-/ready", directory / "prometheus.log"):
        yield url


@contextmanager
def live_page(port: int, prometheus_url: str, dashboards: Path, log: Path, **environment: str) -> Iterator[str]:
    """The program itself; gives its URL."""
    url = f"http://127.0.0.1:{port}"
    variables = {
        "LIVE_HOST": "",
        "LIVE_PORT": str(port),
        "PROMETHEUS_URL": prometheus_url,
        "DASHBOARDS_DIR": str(dashboards),
        **environment,
    }
    with running([sys.executable, "-m", "stack.live"], f"{url}/healthz", log, variables):
        yield url
