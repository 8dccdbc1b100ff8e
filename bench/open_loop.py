"""A lean open-loop client: `python -m bench.open_loop`, one JSON order on standard input, one JSON answer.

A seeded schedule decides when a request starts and latency counts from that instant, so that a stall is seen by all
that arrive in it. One thread, one epoll, kept connections. An arrival that finds all connections busy opens another,
up to a cap; beyond it the arrival is dropped and counted: kept for later, it would turn into a queue inside the client.
"""

import json
import select
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from loadtest.arrivals import Plan, Schedule, constant

_READ_BYTES: Final = 65_536
_SHORT_SLEEP_SECONDS: Final = 0.0001  # epoll knows whole milliseconds only
_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    url: str
    body: str
    headers: dict[str, str]
    rate: float  # arrivals a second, Poisson
    warm_up_seconds: float  # arrivals of this time are sent, not counted
    seconds: float
    grace_seconds: float  # after the last arrival, for replies still on their way
    cap: int  # connections
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Of the arrivals after the warm-up. Latencies in seconds from the scheduled instant.

    `latency_p99_seconds` is over all arrivals: one that was dropped, not answered or answered with another status than
    2xx counts as infinitely late, and None says that this is what the percentile is.
    """

    offered: int
    dropped: int
    good: int  # 2xx
    refused: int  # any other status
    failed: int  # connection lost, or no reply by the end
    good_latencies_within: dict[str, int]  # seconds as text → good replies that took no longer
    latency_p50_seconds: float | None
    latency_p99_seconds: float | None
    lateness_p99_seconds: float  # from the scheduled instant to the sending: the client's own fault
    cpu_share: float  # of one CPU that this client used


class _Connection:
    __slots__ = ("buffer", "counted", "needed", "scheduled", "socket", "status")

    def __init__(self, made: socket.socket) -> None:
        self.socket = made
        self.scheduled = 0.0
        self.counted = False
        self.buffer = b""
        self.needed = 0  # length of the whole reply, once its head is there
        self.status = 0


class Client:
    """Runs one order. `within` are the limits for which good replies are counted apart."""

    def __init__(self, order: Order, within: Sequence[float]) -> None:
        parts = urlsplit(order.url)
        self._order = order
        self._within = within
        self._address = (parts.hostname or "127.0.0.1", parts.port or 80)
        body = order.body.encode("latin-1")
        headers = "".join(f"{name}: {value}\r\n" for name, value in order.headers.items())
        head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
        self._request = head.encode() + body
        self._epoll = select.epoll()
        self._idle: list[_Connection] = []
        self._open: dict[int, _Connection] = {}
        self._latencies: list[float] = []
        self._lateness: list[float] = []
        self.offered = self.dropped = self.refused = self.failed = 0

    def run(self) -> Answer:
        order = self._order
        for _ in range(min(order.cap, 64)):
            self._idle.append(self._connect())
        began = time.monotonic() + 0.05
        count_from, end = began + order.warm_up_seconds, began + order.warm_up_seconds + order.seconds
        schedule = Schedule(Plan(constant(order.rate), seed=order.seed), began)
        cpu = time.process_time()
        while True:
            now = time.monotonic()
            while schedule.next <= now and schedule.next < end:
                instant = schedule.take()
                self._arrive(instant, instant >= count_from)
            busy = len(self._open) > len(self._idle)
            if schedule.next >= end and (not busy or now > end + order.grace_seconds):
                break
            gap = schedule.next - time.monotonic() if schedule.next < end else 0.05
            if not self._read(int(max(0.0, gap) * 1000)) and 0 < gap < 0.001:
                time.sleep(min(gap, _SHORT_SLEEP_SECONDS))
        cpu = (time.process_time() - cpu) / max(1e-9, time.monotonic() - began)
        self.failed += sum(connection.counted for connection in self._open.values() if connection not in self._idle)
        return self._answer(cpu)

    def _arrive(self, scheduled: float, counted: bool) -> None:
        self.offered += counted
        connection = self._idle.pop() if self._idle else None
        if connection is None:
            if len(self._open) >= self._order.cap:
                self.dropped += counted
                return
            connection = self._connect()
        connection.scheduled, connection.counted = scheduled, counted
        if counted:
            self._lateness.append(time.monotonic() - scheduled)
        try:
            # A prepared request is far smaller than an idle connection's send buffer: it goes in whole or not at all.
            if connection.socket.send(self._request) != len(self._request):
                raise BlockingIOError
        except OSError:
            self._lose(connection)

    def _read(self, milliseconds: int) -> bool:
        """Takes in what has come; whether anything had."""
        events = self._epoll.poll(milliseconds / 1000)
        for number, _ in events:
            connection = self._open[number]
            try:
                data = connection.socket.recv(_READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if not data:
                self._lose(connection)
                continue
            self._take(connection, data)
        return bool(events)

    def _take(self, connection: _Connection, data: bytes) -> None:
        buffer = connection.buffer + data if connection.buffer else data
        if not connection.needed:
            end = buffer.find(_HEAD_END)
            if end < 0:
                connection.buffer = buffer
                return
            connection.status = int(buffer[9:12])
            connection.needed = end + 4 + content_length(buffer[:end])
        if len(buffer) < connection.needed:
            connection.buffer = buffer
            return
        if connection.counted:
            if 200 <= connection.status < 300:
                self._latencies.append(time.monotonic() - connection.scheduled)
            else:
                self.refused += 1
        connection.buffer, connection.needed = b"", 0
        self._idle.append(connection)

    def _connect(self) -> _Connection:
        made = socket.create_connection(self._address, timeout=5)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setblocking(False)
        connection = _Connection(made)
        self._open[made.fileno()] = connection
        self._epoll.register(made.fileno(), select.EPOLLIN)
        return connection

    def _lose(self, connection: _Connection) -> None:
        """The server hung up, or would not take the request."""
        if connection in self._idle:  # between requests, which is its right
            self._idle.remove(connection)
        else:
            self.failed += connection.counted
        number = connection.socket.fileno()
        self._epoll.unregister(number)
        del self._open[number]
        connection.socket.close()

    def _answer(self, cpu_share: float) -> Answer:
        good = sorted(self._latencies)
        return Answer(
            offered=self.offered,
            dropped=self.dropped,
            good=len(good),
            refused=self.refused,
            failed=self.failed,
            good_latencies_within={f"{limit:g}": sum(value <= limit for value in good) for limit in self._within},
            latency_p50_seconds=quantile(good, self.offered, 0.5),
            latency_p99_seconds=quantile(good, self.offered, 0.99),
            lateness_p99_seconds=quantile(sorted(self._lateness), len(self._lateness), 0.99) or 0.0,
            cpu_share=cpu_share,
        )


def content_length(head: bytes) -> int:
    """Of a reply's head; 0 if it has none, as replies without a body."""
    lowered = head.lower()
    at = lowered.find(_LENGTH)
    if at < 0:
        return 0
    return int(lowered[at + len(_LENGTH) :].split(b"\r\n", 1)[0])


def quantile(ascending: Sequence[float], total: int, share: float) -> float | None:
    """The value that a share of `total` does not exceed, where all that is not in `ascending` is infinitely large.

    None if that is infinite, or if there is nothing at all.
    """
    rank = max(1, -(-total * round(share * 1000) // 1000))  # the ceiling, in whole numbers
    return ascending[rank - 1] if total > 0 and rank <= len(ascending) else None


def main() -> int:
    given: dict[str, Any] = json.loads(sys.stdin.readline())
    within = given.pop("within")
    print(json.dumps(asdict(Client(Order(**given), within).run())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
