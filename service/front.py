"""ASGI: inference posts go straight to the handler that Flask's routes also call; everything else goes to Flask.

A waiting request costs no thread, only an unresolved future. Whether its client is still there is watched for once it
has waited a while: the extra task per request would cost more than it saves on the quick ones.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from service.handler import Handler, Pending, Reply, too_many_bytes
from service.health import Health
from service.protocol.errors import Refused
from slo import names

PATIENCE_SECONDS: Final = 0.05  # the wait after which a request's client is watched
BODY_SECONDS: Final = 30.0  # in which a body that comes in pieces must be complete

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]

_V2_START: Final = "/v2/models/"
_V2_END: Final = "/infer"
_CLOSE: Final = (b"connection", b"close")


class ClientLeft(Exception):
    """The client closed its connection while its body was being read."""


class Front:
    """The ASGI application. Lives on one event loop."""

    def __init__(self, handler: Handler, flask: ASGI, health: Health) -> None:
        self._handler = handler
        self._flask = flask
        self._health = health
        self._waiting: dict[Pending, Receive] = {}  # oldest first; not yet watched
        self._watchers: dict[Pending, asyncio.Task[None]] = {}
        self._sweep_due = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            path: str = scope["path"]
            if path == names.ROUTE_PREDICT:
                return await self._infer(names.ROUTE_PREDICT, None, scope, receive, send)
            if path.startswith(_V2_START) and path.endswith(_V2_END):
                model = path[len(_V2_START) : -len(_V2_END)]
                if model and "/" not in model:
                    return await self._infer(names.ROUTE_V2_INFER, model, scope, receive, send)
        # None of Flask's other routes reads a body, so none is given: a client that trickles one holds no thread.
        await self._flask(scope, _no_body, self._closing(send) if self._health.draining else send)

    async def _infer(self, route: str, model: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.monotonic()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        try:
            body = await self._body(headers, receive)
        except Refused as refused:
            return await self._reply(self._handler.refuse(route, started, refused), send)
        except ClientLeft:
            return
        loop = self._running_loop()
        pending = self._handler.accept(route, model, headers, body, started, loop.create_future)
        if isinstance(pending, Reply):
            return await self._reply(pending, send)
        try:
            answered = await self._answered(pending, receive, loop)
        except asyncio.CancelledError:  # the server gives up on a drain that took too long
            self._handler.gone(pending)
            raise
        if answered:
            await self._reply(self._handler.finish(pending), send)
        else:
            self._handler.gone(pending)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """The loop, asked for once: each look costs a system call."""
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.get_running_loop()
        return self._loop

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        limits = self._handler.limits
        stated = headers.get(b"content-length")
        if stated is not None and int(stated) > limits.bytes:  # the server has checked that it is a number
            raise too_many_bytes(limits, int(stated))
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            return body
        pieces, length = [body], len(body)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while message.get("more_body", False):
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientLeft
                    piece: bytes = message.get("body", b"")
                    pieces.append(piece)
                    length += len(piece)
                    if length > limits.bytes:
                        raise too_many_bytes(limits)
        except TimeoutError:
            raise Refused(408, f"the body was not complete after {BODY_SECONDS:g} s") from None
        return b"".join(pieces)

    async def _answered(self, pending: Pending, receive: Receive, loop: asyncio.AbstractEventLoop) -> bool:
        """Waits for all tickets; False if the client left first."""
        self._waiting[pending] = receive
        if not self._sweep_due:
            self._sweep_due = True
            loop.call_later(PATIENCE_SECONDS, self._sweep)
        try:
            for ticket in pending.tickets:
                if not await ticket.context:
                    return False
            return True
        finally:
            if self._waiting.pop(pending, None) is None:
                watcher = self._watchers.pop(pending, None)
                if watcher is not None:
                    watcher.cancel()

    def _sweep(self) -> None:
        """Starts watching the clients of requests that have waited long; runs while any request waits."""
        loop = self._running_loop()
        now = time.monotonic()
        for pending, receive in list(self._waiting.items()):
            if now - pending.started < PATIENCE_SECONDS:
                break
            del self._waiting[pending]
            self._watchers[pending] = loop.create_task(_watch(pending, receive))
        self._sweep_due = bool(self._waiting)
        if self._sweep_due:
            loop.call_later(PATIENCE_SECONDS, self._sweep)

    async def _reply(self, reply: Reply, send: Send) -> None:
        headers = reply.headers
        if self._health.draining:
            headers = [*headers, _CLOSE]  # the client learns that this connection ends, and opens its next elsewhere
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})

    def _closing(self, send: Send) -> Send:
        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], _CLOSE]
            await send(message)

        return closing


async def _watch(pending: Pending, receive: Receive) -> None:
    """Resolves the request's futures with False when its client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    for ticket in pending.tickets:
        if not ticket.context.done():
            ticket.context.set_result(False)


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}
