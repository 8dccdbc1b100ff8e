"""What Prometheus sees of a service under a steady load whose outcomes a test decides: a stand-in for its metrics.

Counters are computed from the clock at each scrape, so it costs nothing while nobody asks.
"""

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from slo import names
from slo.buckets import edge_text

GOOD_SECONDS, SLOW_SECONDS, REFUSED_SECONDS = 0.01, 0.2, 0.001
CAPACITY_ROWS = 1024


@dataclass(frozen=True)
class Load:
    """Requests per second and which share of them is slow (2xx, 200 ms), refused or failed (at once)."""

    rate: float = 200.0
    slow: float = 0.0
    shed: float = 0.0
    failed: float = 0.0
    queue_rows: float = 0.0

    def per_second(self) -> Iterator[tuple[str, float, float]]:
        """(outcome, latency in seconds, requests per second) of each kind."""
        yield "ok", GOOD_SECONDS, self.rate * (1 - self.slow - self.shed - self.failed)
        yield "ok", SLOW_SECONDS, self.rate * self.slow
        yield "shed", REFUSED_SECONDS, self.rate * self.shed
        yield "failed", REFUSED_SECONDS, self.rate * self.failed


class Service:
    """Thread-safe. `down` makes every scrape fail."""

    def __init__(self, edges: Sequence[float]) -> None:
        """`edges`: upper edges of the latency histogram in seconds, without +Inf."""
        self.down = False
        self._edges = (*edges, math.inf)
        self._lock = threading.Lock()
        self._load = Load()
        self._at = time.monotonic()
        self._done: dict[tuple[str, float], float] = {(outcome, GOOD_SECONDS): 0.0 for outcome in names.OUTCOMES}

    def take(self, **changes: float) -> float:
        """Changes the load from now on; the unix time of the change."""
        with self._lock:
            self._advance()
            self._load = replace(self._load, **changes)
            return time.time()

    def _advance(self) -> None:
        now = time.monotonic()
        for outcome, latency, rate in self._load.per_second():
            self._done[outcome, latency] = self._done.get((outcome, latency), 0.0) + rate * (now - self._at)
        self._at = now

    def text(self) -> str:
        """The metrics, in Prometheus's text format."""
        with self._lock:
            self._advance()
            return "".join(f"{name} {value!r}\n" for name, value in self._samples())

    def _samples(self) -> Iterator[tuple[str, float]]:
        for outcome in names.OUTCOMES:
            counts = {latency: math.floor(n) for (kind, latency), n in self._done.items() if kind == outcome}
            labels = f'model="digits",route="{names.ROUTE_PREDICT}",outcome="{outcome}"'
            for edge in self._edges:
                le = "+Inf" if math.isinf(edge) else edge_text(edge)
                inside = sum(count for latency, count in counts.items() if latency <= edge)
                yield f'{names.REQUEST_DURATION}_bucket{{{labels},le="{le}"}}', inside
            yield f"{names.REQUEST_DURATION}_count{{{labels}}}", sum(counts.values())
            yield f"{names.REQUEST_DURATION}_sum{{{labels}}}", sum(latency * n for latency, n in counts.items())
        yield names.QUEUE_DEPTH_ROWS, self._load.queue_rows
        yield names.QUEUE_CAPACITY_ROWS, CAPACITY_ROWS
        batches = math.floor(sum(n for (kind, _), n in self._done.items() if kind == "ok"))
        yield f'{names.BATCH_ROWS}_count{{model="digits",trigger="idle"}}', batches


@contextmanager
def exporting(port: int, service: Service) -> Iterator[None]:
    """Its /metrics on a loopback port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"" if service.down else service.text().encode()
            self.send_response(503 if service.down else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with serving(ThreadingHTTPServer(("127.0.0.1", port), Handler)):
        yield


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    """The server in a thread of its own, closed at the end."""
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
