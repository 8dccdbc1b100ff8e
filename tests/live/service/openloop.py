"""A lean open-loop client: requests start when the schedule says so, whatever becomes of those before them.

One thread, kept connections (as many as are needed), prepared bytes; about 40 µs of CPU a request. Latency counts from
the scheduled instant. Times are seconds on `time.monotonic`.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import uvloop

GAVE_UP: Final = -1  # no answer within the client's patience
BROKEN: Final = -2  # the connection ended before an answer
REFUSED: Final = -3  # nobody listens
_TICK_SECONDS: Final = 0.001


@dataclass(slots=True)
class Answer:
    """One attempt. `status` is HTTP's, GAVE_UP, BROKEN or REFUSED."""

    at: float  # when it was scheduled
    seconds: float
    status: int
    retry_after: bool  # the reply had a Retry-After header


def post(body: bytes, *headers: str) -> bytes:
    """A prepared request."""
    head = ("POST /predict HTTP/1.1", "Host: test", "Content-Type: application/json", *headers)
    return "\r\n".join((*head, f"Content-Length: {len(body)}", "", "")).encode() + body


def counts(answers: Sequence[Answer]) -> Counter[int]:
    """How often each status."""
    return Counter(answer.status for answer in answers)


def percentile(answers: Sequence[Answer], q: float) -> float:
    """Of the latencies of all attempts; one without an answer counts as infinite."""
    ordered = sorted(answer.seconds if answer.status > 0 else float("inf") for answer in answers)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


@dataclass
class Client:
    """Sends `request` at `rate` per second to a port of this machine.

    After `patience_seconds` without an answer it closes the connection, and with `retries` asks anew at once.
    """

    port: int
    request: bytes
    rate: float
    patience_seconds: float = 30.0
    retries: int = 0
    answers: list[Answer] = field(default_factory=list)
    late_seconds: float = 0.0  # how late the client itself was at worst
    _idle: list["_Connection"] = field(default_factory=list)
    _asking: "deque[_Call]" = field(default_factory=deque)

    def run(self, seconds: float, stop: Callable[[], bool] = lambda: False) -> list[Answer]:
        """Offers load for so long (or until `stop`), waits for the answers, returns all of them."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._run(seconds, stop))
        return self.answers

    async def _run(self, seconds: float, stop: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        started = time.monotonic()
        sent = 0
        while (now := time.monotonic()) < started + seconds and not stop():
            due = int((now - started) * self.rate)
            while sent < due:
                at = started + (sent + 1) / self.rate
                self.late_seconds = max(self.late_seconds, now - at)
                sent += 1
                self._ask(loop, at, self.retries)
            self._give_up(loop, now)
            await asyncio.sleep(_TICK_SECONDS)
        while self._asking:
            self._give_up(loop, time.monotonic())
            await asyncio.sleep(_TICK_SECONDS)
        for connection in self._idle:
            connection.close()

    def _ask(self, loop: asyncio.AbstractEventLoop, at: float, retries: int) -> None:
        call = _Call(self, at, retries)
        self._asking.append(call)
        while self._idle:
            connection = self._idle.pop()
            if connection.usable():
                connection.ask(call)
                return
        call.opening = loop.create_task(self._connect(loop, call))

    async def _connect(self, loop: asyncio.AbstractEventLoop, call: "_Call") -> None:
        try:
            _, connection = await loop.create_connection(_Connection, "127.0.0.1", self.port)
        except OSError as error:
            call.end(REFUSED if isinstance(error, ConnectionRefusedError) else BROKEN)
            return
        if call.ended:
            connection.close()
        else:
            connection.ask(call)

    def _give_up(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        while self._asking and (self._asking[0].ended or now - self._asking[0].at > self.patience_seconds):
            call = self._asking.popleft()
            if call.ended:
                continue
            if call.connection is not None:
                call.connection.close()
            call.end(GAVE_UP)
            if call.retries:
                self._ask(loop, now, call.retries - 1)

    def free(self, connection: "_Connection") -> None:
        self._idle.append(connection)


class _Call:
    __slots__ = ("at", "client", "connection", "ended", "opening", "retries")

    def __init__(self, client: Client, at: float, retries: int) -> None:
        self.client = client
        self.at = at
        self.retries = retries
        self.ended = False
        self.connection: _Connection | None = None
        self.opening: asyncio.Task[None] | None = None

    def end(self, status: int, retry_after: bool = False) -> None:
        if not self.ended:
            self.ended = True
            self.client.answers.append(Answer(self.at, time.monotonic() - self.at, status, retry_after))


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._call: _Call | None = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's own class derives from none of asyncio's

    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def ask(self, call: _Call) -> None:
        assert self._transport is not None
        self._call = call
        call.connection = self
        self._transport.write(call.client.request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        at = head.find(b"\r\ncontent-length:")
        length = int(head[at + 17 :].split(b"\r\n", 1)[0])
        if len(self._buffer) < end + 4 + length:
            return
        call, self._call, self._buffer = self._call, None, b""
        if call is None:
            return
        call.end(int(head[9:12]), b"\r\nretry-after:" in head)
        if b"\r\nconnection: close" in head:
            self.close()
        else:
            call.client.free(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self._call is not None:
            self._call.end(BROKEN)
