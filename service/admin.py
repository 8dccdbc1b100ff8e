"""The admin port: metrics, health, knobs at run time, and the slowest requests.

Its own server on its own threads, so that a scrape neither waits behind inference nor holds it up.
"""

import hmac
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import orjson
import waitress
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from service.batching.policy import Knobs
from service.exposition import CONTENT_TYPE
from service.handler import error_body
from service.health import Health
from service.protocol.errors import Refused, shown
from service.protocol.json_body import check_keys, load_object
from service.slowest import KEPT_PER_SLICE, SLICES, Slowest

THREADS: Final = 4
KNOBS: Final = ("policy", "max_batch_rows", "max_wait_seconds")
EXPECTED: Final = 'an object such as {"max_batch_rows": 128}'
MOST_BODY_BYTES: Final = 65536


class Turnable(Protocol):
    """What the admin port needs of the batcher."""

    knobs: Knobs

    @property
    def capacity_rows(self) -> int: ...


@dataclass(frozen=True, slots=True)
class AdminServices:
    """What the routes stand on."""

    batcher: Turnable
    health: Health
    metrics: Callable[[], bytes]
    slowest: Slowest
    token: str | None


def create_app(services: AdminServices) -> Flask:
    """The admin application; nothing happens before a request."""
    app = Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MOST_BODY_BYTES
    turning = threading.Lock()  # two PATCHes at once must not lose one another's half

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(services.metrics(), content_type=CONTENT_TYPE)

    @app.get("/healthz")
    def healthz() -> Response:
        return _probe("live", services.health.not_live())

    @app.get("/readyz")
    def readyz() -> Response:
        return _probe("ready", services.health.not_ready())

    @app.get("/admin/batching")
    def batching() -> Response:
        return _json(_shown(services.batcher.knobs))

    @app.patch("/admin/batching")
    def turn() -> Response:
        _authorize(services.token, request.headers.get("Authorization"))
        change = load_object(request.get_data(), EXPECTED)
        check_keys(change, KNOBS)
        if not change:
            raise Refused(400, f"the change is empty; expected {EXPECTED}")
        with turning:
            services.batcher.knobs = _changed(services.batcher.knobs, change, services.batcher.capacity_rows)
            return _json(_shown(services.batcher.knobs))

    @app.get("/admin/slowest")
    def slowest() -> Response:
        most = SLICES * KEPT_PER_SLICE
        text = request.args.get("limit", "50")
        if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= most):
            raise Refused(400, f"limit is {shown(text)}; expected a whole number from 1 to {most}")
        return _json({"requests": services.slowest.report(int(text))})

    @app.errorhandler(Refused)
    def refused(error: Refused) -> Response:
        response = _json_bytes(error_body(str(error)), error.status)
        if error.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        response = _json_bytes(error_body(error.description or error.name), error.code or 500)
        if error.code == 405:
            response.headers["Allow"] = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
        return response

    return app


def serve(app: Flask, listener: socket.socket) -> None:
    """Serves `app` on a bound socket from a daemon thread, which lives as long as the process."""
    # poll, because select() knows no descriptor beyond 1,023, and the other port may hold thousands of connections.
    server = waitress.create_server(app, sockets=[listener], threads=THREADS, ident=None, asyncore_use_poll=True)
    threading.Thread(target=server.run, name="admin", daemon=True).start()


def _authorize(token: str | None, header: str | None) -> None:
    if token is None:
        raise Refused(403, "changing the knobs is off, because the service was started without SERVICE_ADMIN_TOKEN")
    scheme, _, given = (header or "").partition(" ")
    if scheme.lower() != "bearer":
        raise Refused(401, "no token was given; expected the header 'Authorization: Bearer <SERVICE_ADMIN_TOKEN>'")
    if not hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), token.encode()):
        raise Refused(401, "the token is wrong; expected the value of SERVICE_ADMIN_TOKEN")


def _changed(knobs: Knobs, change: dict[str, Any], capacity_rows: int) -> Knobs:
    """`knobs` with the change applied; Refused if the result cannot be used."""
    merged = {**_shown(knobs), **change}
    try:
        changed = Knobs(**merged)
    except ValueError as error:
        raise Refused(400, str(error)) from None
    if changed.max_batch_rows > capacity_rows:
        raise Refused(
            400, f"max_batch_rows is {changed.max_batch_rows}; expected at most the queue's capacity, {capacity_rows}"
        )
    return changed


def _shown(knobs: Knobs) -> dict[str, Any]:
    return {name: getattr(knobs, name) for name in KNOBS}


def _probe(what: str, reason: str | None) -> Response:
    return _json({what: True}) if reason is None else _json_bytes(error_body(reason), 503)


def _json(value: dict[str, Any]) -> Response:
    return _json_bytes(orjson.dumps(value), 200)


def _json_bytes(body: bytes, status: int) -> Response:
    return Response(body, status, content_type="application/json")
