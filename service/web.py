"""The whole Flask app: complete by itself under any WSGI server; behind the front it serves all but inference.

Inference routes only translate: Flask's request into the handler's bytes, and its reply back.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from flask import Flask, Response, g, render_template, request
from werkzeug.exceptions import HTTPException

from service import openapi
from service.batching.policy import Knobs
from service.handler import FAULT, Handler, Reply, error_body, too_many_bytes, unknown_model
from service.health import Health
from service.links import Link
from service.protocol import v2
from service.protocol.errors import Refused
from service.records import Outcome, RequestRecord
from slo import names

SERVER_NAME: Final = "tailboard"
# Every value of the `route` label: the URL rules, and one for all that no rule matches.
ROUTES: Final = (
    *names.INFERENCE_ROUTES,
    "/",
    "/healthz",
    "/openapi.json",
    "/readyz",
    "/v2",
    "/v2/health/live",
    "/v2/health/ready",
    "/v2/models/{name}",
    "/v2/models/{name}/ready",
    "/v2/repository/index",
    names.ROUTE_OTHER,
)
_WANTED_HEADERS: Final = (
    "Content-Type",
    "Content-Encoding",
    "X-Request-Timeout-Ms",
    "Traceparent",
    v2.HEADER_LENGTH,
)


@dataclass(frozen=True, slots=True)
class Services:
    """What the routes stand on."""

    handler: Handler
    health: Health
    record: Callable[[RequestRecord], None]
    knobs: Callable[[], Knobs]
    links: tuple[Link, ...]
    version: str
    example_row: tuple[float, ...]


def create_app(services: Services) -> Flask:
    """The application; nothing happens before a request."""
    app = Flask(__name__, static_folder=None)
    handler, health = services.handler, services.health
    signature = handler.signature
    document = openapi.document(signature, handler.limits, services.version, services.example_row)

    @app.post("/predict")
    def predict() -> Response:
        return _infer(handler, names.ROUTE_PREDICT, None)

    @app.post("/v2/models/<name>/infer")
    def infer(name: str) -> Response:
        return _infer(handler, names.ROUTE_V2_INFER, name)

    @app.get("/v2")
    def server_metadata() -> Response:
        return _json({"name": SERVER_NAME, "version": services.version, "extensions": ["binary_tensor_data"]})

    @app.get("/v2/health/live")
    def v2_live() -> Response:
        return _probe("live", health.not_live())

    @app.get("/v2/health/ready")
    def v2_ready() -> Response:
        return _probe("ready", health.not_ready())

    @app.get("/v2/models/<name>")
    def model_metadata(name: str) -> Response:
        _check_model(name, handler)
        return _json(v2.model_metadata(signature))

    @app.get("/v2/models/<name>/ready")
    def model_ready(name: str) -> Response:
        _check_model(name, handler)
        return _probe("ready", health.not_ready())

    @app.post("/v2/repository/index")
    def repository_index() -> Response:
        # The protocol's extension by which a client that knows no model's name finds one. Its body could leave out
        # models that are not ready; it is not read, as no body of these routes is, and the state says it.
        reason = health.not_ready()
        model = {"name": signature.name, "version": signature.version}
        return _json([model | {"state": "UNAVAILABLE" if reason else "READY", "reason": reason or ""}])

    @app.get("/healthz")
    def healthz() -> Response:
        return _probe("live", health.not_live())

    @app.get("/readyz")
    def readyz() -> Response:
        return _probe("ready", health.not_ready())

    @app.get("/openapi.json")
    def openapi_document() -> Response:
        return _json(document)

    @app.get("/")
    def index() -> str:
        return render_template(
            "index.html",
            signature=signature,
            version=services.version,
            knobs=services.knobs(),
            not_ready=health.not_ready(),
            base=request.host_url.rstrip("/"),
            body=orjson.dumps({"instances": [services.example_row]}).decode(),
            links=[(link, link.address(request.host)) for link in services.links],
        )

    @app.before_request
    def start() -> None:
        g.started = time.monotonic()

    @app.after_request
    def record(response: Response) -> Response:
        route = _route(request.url_rule.rule) if request.url_rule else names.ROUTE_OTHER
        if route not in names.INFERENCE_ROUTES:  # the handler has recorded those
            services.record(
                RequestRecord(
                    route,
                    _outcome(response.status_code),
                    response.status_code,
                    time.monotonic() - g.started,
                )
            )
        return response

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        response = _json_bytes(error_body(_sentence(error)), error.code or 500)
        if error.code == 405:
            response.headers["Allow"] = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
        return response

    @app.errorhandler(Refused)
    def refused(error: Refused) -> Response:
        return _json_bytes(error_body(str(error)), error.status)

    return app


def _route(rule: str) -> str:
    return rule.replace("<", "{").replace(">", "}")


def _infer(handler: Handler, route: str, model: str | None) -> Response:
    started: float = g.started
    headers = {
        name.lower().encode(): request.headers[name].encode("latin-1")
        for name in _WANTED_HEADERS
        if name in request.headers
    }
    limit = handler.limits.bytes
    stated = request.content_length
    body = b"" if stated is not None and stated > limit else request.stream.read(limit + 1)
    if len(body) > limit or (stated is not None and stated > limit):
        return _response(
            handler.refuse(route, started, too_many_bytes(handler.limits, stated), headers.get(b"traceparent"))
        )
    try:
        head = handler.read_head(route, model, headers)
    except Refused as refused:
        return _response(handler.refuse(route, started, refused, headers.get(b"traceparent")))
    pending = handler.accept(head, body, started, threading.Event)
    if isinstance(pending, Reply):
        return _response(pending)
    for ticket in pending.tickets:
        ticket.context.wait()  # the batcher answers every ticket, at its deadline at the latest
    return _response(handler.finish(pending))


def _response(reply: Reply) -> Response:
    headers = [line.split(": ", 1) for line in reply.headers.decode("latin-1").splitlines()]
    return Response(reply.body, reply.status, [(name.title(), value) for name, value in headers])


def _check_model(name: str, handler: Handler) -> None:
    if name != handler.signature.name:
        raise unknown_model(name, handler.signature)


def _probe(what: str, reason: str | None) -> Response:
    return _json({what: True}) if reason is None else _json_bytes(error_body(reason), 503)


def _json(value: Mapping[str, Any] | Sequence[Any]) -> Response:
    return _json_bytes(orjson.dumps(value), 200)


def _json_bytes(body: bytes, status: int) -> Response:
    return Response(body, status, content_type="application/json")


def _outcome(status: int) -> Outcome:
    if status < 400:
        return "ok"
    return "client_error" if status < 500 else "failed"


def _sentence(error: HTTPException) -> str:
    """What is wrong and what was expected, for the errors that Flask itself finds."""
    match error.code:
        case 404:
            return f"nothing is served at {request.path[:200]}; expected one of the routes in /openapi.json"
        case 405:
            allowed = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
            return f"{request.method} is not allowed at {request.path[:200]}; expected {allowed}"
        case 500:
            return FAULT
        case _:
            return error.description or error.name
