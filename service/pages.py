"""Flask under ASGI: all that is not inference. It is given no bodies, and closes politely during a drain."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, cast

import a2wsgi
from flask import Flask

from service.health import Health

FLASK_THREADS: Final = 8  # pages, health and metadata only: inference needs no thread
CLOSE: Final = (b"connection", b"close")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]


class Pages:
    """The ASGI application behind the front."""

    def __init__(self, app: Flask, health: Health) -> None:
        self._flask = cast(ASGI, a2wsgi.WSGIMiddleware(app, workers=FLASK_THREADS))
        self._health = health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # None of these routes reads a body, so none is given: a client that trickles one holds no thread.
        await self._flask(scope, _no_body, _closing(send) if self._health.draining else send)


def _closing(send: Send) -> Send:
    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], CLOSE]
        await send(message)

    return closing


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}
