"""A service without sockets or a model: a scripted batcher behind the real handler, reached through either front."""

import asyncio
import dataclasses
import json
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httptools
import numpy as np
import pytest

from service import openapi, web
from service.batching.errors import BatcherError
from service.batching.policy import Knobs
from service.batching.records import Ticket
from service.delivery import deliver
from service.handler import Handler
from service.health import Health
from service.links import PARTS
from service.pages import Pages
from service.protocol.signature import Limits, Output, Signature
from service.records import RequestRecord
from service.server import EmbeddedServer, embedded


@dataclass
class Answer:
    """An HTTP reply as a test sees it."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def row_sums(ticket: Ticket) -> None:
    """The scripted model: sums of rows, or the sums twice as two columns for predict_proba."""
    sums = np.asarray(ticket.rows).sum(axis=1)
    ticket.result = np.stack([sums, sums], axis=1) if ticket.group[0] == "predict_proba" else sums
    ticket.queue_seconds, ticket.model_seconds, ticket.batch_rows = 0.001, 0.002, 7


@dataclass
class ScriptedBatcher:
    """Does with a ticket what the test says: answers it at once, raises, fails it, or keeps it."""

    refuses: BatcherError | None = None
    fails: BatcherError | None = None
    holds: bool = False
    answer: Callable[[Ticket], None] = row_sums
    submitted: list[Ticket] = field(default_factory=list)
    cancelled: list[Ticket] = field(default_factory=list)
    knobs: Knobs = field(default_factory=lambda: Knobs("adaptive", 128, 0.005))
    healthy: bool = True
    capacity_rows: int = 1024
    depth_rows: int = 0
    cost: Any = None
    staged: list[Ticket] = field(default_factory=list)
    wakes: int = 0

    def submit(self, ticket: Ticket, wake: bool = True) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.submitted.append(ticket)
        self.staged.append(ticket)
        if wake:
            self._take()

    def wake(self) -> None:
        self.wakes += 1
        self._take()

    def _take(self) -> None:
        if not self.holds:
            self.release()

    def release(self) -> None:
        """Answers all that waits, as one batch."""
        batch, self.staged = self.staged, []
        for ticket in batch:
            if self.fails is not None:
                ticket.error = self.fails
            else:
                self.answer(ticket)
        deliver(batch)

    def cancel(self, ticket: Ticket) -> bool:
        self.cancelled.append(ticket)
        if ticket in self.staged:
            self.staged.remove(ticket)
        return True


@dataclass
class World:
    """Everything a test may look at."""

    batcher: ScriptedBatcher
    handler: Handler
    health: Health
    records: list[RequestRecord]
    app: Any
    server: EmbeddedServer
    call: Callable[..., Answer] = lambda *_: Answer(0, {}, b"")


@pytest.fixture
def signature() -> Signature:
    return Signature(
        name="sums",
        features=3,
        dtype=np.dtype(np.float64),
        methods=("predict", "predict_proba"),
        platform="test",
        version="1",
        outputs=(Output("predict", "FP64", (-1,)), Output("predict_proba", "FP64", (-1, 2))),
    )


@pytest.fixture
def limits() -> Limits:
    return Limits(rows=4, bytes=2000)


@pytest.fixture
def build(signature: Signature, limits: Limits) -> Callable[..., World]:
    """Builds a service; `signature` and `limits` can be replaced field by field."""

    def make(**changes: Any) -> World:
        of_limits = {name: changes.pop(name) for name in ("rows", "bytes") if name in changes}
        shown = dataclasses.replace(signature, **changes)
        batcher, records = ScriptedBatcher(), []
        handler = Handler(shown, dataclasses.replace(limits, **of_limits), 1.0, batcher, records.append)
        health = Health(batcher)
        app = web.create_app(
            web.Services(handler, health, records.append, lambda: batcher.knobs, PARTS, "0", (1.0, 2.0, 3.0))
        )
        server = embedded(handler, health, Pages(app, health), 16)
        server.config.load()
        return World(batcher, handler, health, records, app, server)

    return make


@pytest.fixture(params=["flask", "front"])
def world(request: pytest.FixtureRequest, build: Callable[..., World]) -> World:
    """A service behind either front: the same test runs through both."""
    made = build()
    made.call = through(request.param, made)
    return made


@pytest.fixture
def through_both() -> Callable[[World, str], Callable[..., Answer]]:
    return lambda made, name: through(name, made)


def through(front: str, made: World) -> Callable[..., Answer]:
    def call(
        method: str, path: str, body: bytes | dict[str, Any] = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        stated = dict(headers or {})
        if isinstance(body, dict):
            body = json.dumps(body).encode()
            stated.setdefault("Content-Type", "application/json")
        return (_flask if front == "flask" else _wire)(made, method, path, body, stated)

    return call


def _flask(made: World, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    response = made.app.test_client().open(path, method=method, data=body, headers=dict(headers))
    return Answer(response.status_code, {k.lower(): v for k, v in response.headers.items()}, response.data)


def _wire(made: World, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    async def session() -> Answer:
        wire = Wire(made)
        wire.send(request_bytes(method, path, body, headers))
        await wire.until(lambda: len(wire.answers) == 1)
        wire.leave()
        await wire.pages_done()
        return wire.answers[0]

    return asyncio.run(session())


def request_bytes(
    method: str,
    path: str,
    body: bytes | None = b"",
    headers: Mapping[str, str] | None = None,
    version: str = "1.1",
) -> bytes:
    """A request as a client writes it; a body of None is left out, and its length with it."""
    lines = [f"{method} {path} HTTP/{version}", "Host: localhost", *(f"{k}: {v}" for k, v in (headers or {}).items())]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


class Wire(asyncio.Transport):
    """A client and the transport in between: bytes go in as chunks, replies come out parsed, in order.

    `advance` moves the loop's clock, so that timers fire without waiting.
    """

    def __init__(self, made: World) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.made = made
        self.answers: list[Answer] = []
        self.writes: list[bytes] = []
        self.closing = False
        self.left = False
        self.lost = False
        self.reading = True
        self.unread: list[bytes] = []  # sent while the service was not reading
        self._changed = asyncio.Event()
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body = b""
        server = made.server
        self.front: Any = server.config.http_protocol_class(  # type: ignore[call-arg]
            config=server.config, server_state=server.server_state, app_state={}
        )
        self.front.connection_made(self)

    # --- what a test does

    def send(self, *chunks: bytes) -> None:
        for chunk in chunks:
            if self.closing:
                return
            if self.reading:
                self.front.data_received(chunk)
            else:
                self.unread.append(chunk)

    async def until(self, condition: Callable[[], Any]) -> None:
        """Returns once the condition holds; it is looked at after each turn of the loop and each write."""
        async with asyncio.timeout(10):
            while not condition():
                self._changed.clear()
                await self.settle()
                if not condition():
                    await self._changed.wait()

    async def talk(self, *chunks: bytes) -> list[Answer]:
        """Sends the chunks and gives the loop some turns: (new answers). For inference and refusals, not for pages."""
        before = len(self.answers)
        self.send(*chunks)
        await self.settle()
        return self.answers[before:]

    def leave(self, error: Exception | None = None) -> None:
        """The client is gone."""
        self.closing = self.left = True
        self._lose(error)

    async def settle(self) -> None:
        """Lets the loop turn until all that is due at once has been done, and some more."""
        for _ in range(12):
            await asyncio.sleep(0)

    async def pages_done(self) -> None:
        """Flask has let go of all that it was asked on this service."""
        await asyncio.gather(*self.made.server.server_state.tasks)

    async def advance(self, seconds: float) -> None:
        now = self.loop.time
        self.loop.time = lambda: now() + seconds  # type: ignore[method-assign]
        await self.settle()

    # --- the transport

    def write(self, data: Any) -> None:
        if self.left:
            return  # as a socket does
        assert not self.closing, "written after closing"
        self.writes.append(bytes(data))
        self._parser.feed_data(bytes(data))
        self._changed.set()

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self.loop.call_soon(self._lose, None)

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        if not self.reading:
            self.reading = True
            self.loop.call_soon(self._read_on)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 80)}.get(name, default)

    def _read_on(self) -> None:
        chunks, self.unread = self.unread, []
        self.send(*chunks)

    def _lose(self, error: Exception | None) -> None:
        if not self.lost:
            self.lost = True
            self.front.connection_lost(error)
            self._changed.set()

    # --- the replies

    def on_message_begin(self) -> None:
        self._headers, self._body = {}, b""

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.answers.append(Answer(self._parser.get_status_code(), self._headers, self._body))


@pytest.fixture
def on_wire(build: Callable[..., World]) -> Callable[..., Any]:
    """Runs `session(world, wire)` on a new connection of a new service; afterwards nothing is in flight."""

    def run(session: Callable[[World, Wire], Coroutine[Any, Any, Any]], made: World | None = None) -> Any:
        world = made or build()

        async def whole() -> Any:
            wire = Wire(world)
            try:
                return await session(world, wire)
            finally:
                wire.leave()
                await wire.pages_done()
                await wire.settle()

        result = asyncio.run(whole())
        assert world.handler.in_flight == 0
        assert not world.server.server_state.connections
        return result

    return run


@pytest.fixture
def wire_to() -> type[Wire]:
    return Wire


@pytest.fixture
def written() -> Callable[..., bytes]:
    return request_bytes


@pytest.fixture
def document(signature: Signature, limits: Limits) -> dict[str, Any]:
    return openapi.document(signature, limits, "0", (1.0, 2.0, 3.0))


@pytest.fixture
def slo_path(tmp_path: Path) -> Path:
    path = tmp_path / "slo.yaml"
    path.write_text(
        "services: [{job: inference, objective: 0.99, threshold_seconds: 0.03, window_days: 30, profile: local}]\n"
        "profiles: {local: {windows: [30s, 2m], min_requests: 100}}\n"
    )
    return path


@pytest.fixture
def event() -> type[threading.Event]:
    return threading.Event
