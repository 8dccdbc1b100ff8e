"""The receiving end of Alertmanager's webhook: keeps what arrives, in order and with its time.

It may stand before the real alert inbox; then the inbox gets the same bytes and Alertmanager the inbox's answer.
"""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

from tests.ops.alert_path.service import serving

T = TypeVar("T")


@dataclass(frozen=True)
class Notice:
    """One alert of one delivery. Times are unix seconds."""

    at: float
    delivery: int  # deliveries are numbered from 0; those with the same number came in one post
    group: str
    alert: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.alert["labels"]["alertname"])

    @property
    def status(self) -> str:
        return str(self.alert["status"])

    @property
    def instance(self) -> str:
        return str(self.alert["labels"].get("instance", ""))

    def __str__(self) -> str:
        return f"{time.strftime('%H:%M:%S', time.localtime(self.at))} {self.name} {self.instance} {self.status}"


class Webhook:
    """Thread-safe."""

    def __init__(self, inbox: str | None = None) -> None:
        """`inbox`: URL of the real one behind this."""
        self.inbox = inbox
        self._arrived = threading.Condition()
        self._notices: list[Notice] = []
        self._deliveries = 0

    def keep(self, body: bytes) -> None:
        message = json.loads(body)
        with self._arrived:
            for alert in message["alerts"]:
                self._notices.append(Notice(time.time(), self._deliveries, message["groupKey"], alert))
            self._deliveries += 1
            self._arrived.notify_all()

    def notices(self, name: str | None = None, status: str | None = None) -> list[Notice]:
        """All that have arrived, oldest first; of one alert, of one status."""
        with self._arrived:
            return [n for n in self._notices if name in (None, n.name) and status in (None, n.status)]

    def wait(self, name: str, status: str, seconds: float, count: int = 1) -> list[Notice]:
        """The first `count` of that alert and status; AssertionError with all that came instead."""

        def enough() -> bool:
            return len(self.notices(name, status)) >= count

        with self._arrived:
            came = self._arrived.wait_for(enough, seconds)
        shown = "\n  ".join(map(str, self.notices())) or "nothing"
        assert came, f"{name} {status} ({count}) is not here after {seconds:g} s; arrived:\n  {shown}"
        return self.notices(name, status)[:count]


@contextmanager
def listening(port: int, webhook: Webhook) -> Iterator[None]:
    """Receives on a loopback port. A GET goes to the inbox, or gets an empty answer where there is none."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(*(passed_on(f"{webhook.inbox}{self.path}", None) if webhook.inbox else (200, b"")))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            code, answer = passed_on(f"{webhook.inbox}{self.path}", body) if webhook.inbox else (200, b"")
            webhook.keep(body)
            self.answer(code, answer)

        def answer(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with serving(ThreadingHTTPServer(("127.0.0.1", port), Handler)):
        yield


def passed_on(url: str, body: bytes | None) -> tuple[int, bytes]:
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def until(what: str, ask: Callable[[], T], seconds: float, pause_seconds: float = 0.25) -> T:
    """Asks until the answer is true; AssertionError with the last answer when the time is over."""
    end = time.monotonic() + seconds
    while True:
        if answer := ask():
            return answer
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}; last answer {answer!r}"
        time.sleep(pause_seconds)
