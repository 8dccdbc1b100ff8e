"""A service without a server or a model: a scripted batcher behind the real handler, reached through either front."""

import asyncio
import dataclasses
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import a2wsgi
import numpy as np
import pytest

from service import openapi, web
from service.batching.errors import BatcherError
from service.batching.policy import Knobs
from service.batching.records import Ticket
from service.delivery import deliver
from service.front import Front
from service.handler import Handler
from service.health import Health
from service.links import PARTS
from service.protocol.signature import Limits, Output, Signature
from service.records import RequestRecord


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
    on_hold: Callable[[], None] = lambda: None

    def submit(self, ticket: Ticket) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.submitted.append(ticket)
        if self.holds:
            self.on_hold()
            return
        if self.fails is not None:
            ticket.error = self.fails
        else:
            self.answer(ticket)
        deliver([ticket])

    def cancel(self, ticket: Ticket) -> bool:
        self.cancelled.append(ticket)
        return True


@dataclass
class World:
    """Everything a test may look at."""

    batcher: ScriptedBatcher
    handler: Handler
    health: Health
    records: list[RequestRecord]
    app: Any
    front: Front
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
        return World(batcher, handler, health, records, app, Front(handler, a2wsgi.WSGIMiddleware(app), health))

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
        return (_flask if front == "flask" else _asgi)(made, method, path, body, stated)

    return call


def _flask(made: World, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    response = made.app.test_client().open(path, method=method, data=body, headers=dict(headers))
    return Answer(response.status_code, {k.lower(): v for k, v in response.headers.items()}, response.data)


def _asgi(made: World, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    stated = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    stated.append((b"content-length", str(len(body)).encode()))
    connection = Connection([body])
    asyncio.run(made.front(http_scope(method, path, stated), connection.receive, connection.send))
    return connection.answer


def http_scope(method: str, path: str, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), *headers],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("localhost", 80),
        "client": ("127.0.0.1", 5),
        "root_path": "",
    }


class Connection:
    """The server's end of an ASGI request: gives the body in pieces, then nothing until the client leaves."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self._left = asyncio.Event()
        self.sent: list[Any] = []
        self.received = 0

    def leave(self) -> None:
        self._left.set()

    async def receive(self) -> dict[str, Any]:
        if self.received < len(self._pieces):
            self.received += 1
            more = self.received < len(self._pieces)
            return {"type": "http.request", "body": self._pieces[self.received - 1], "more_body": more}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def answer(self) -> Answer:
        start, *rest = self.sent
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], headers, b"".join(message.get("body", b"") for message in rest))


@pytest.fixture
def connection() -> type[Connection]:
    return Connection


@pytest.fixture
def scope() -> Callable[..., dict[str, Any]]:
    return http_scope


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
