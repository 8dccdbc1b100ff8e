"""The inbox's HTTP side: Alertmanager posts, people read, programs ask, Prometheus scrapes."""

import logging
from collections.abc import Callable, Collection
from typing import Final

from flask import Flask, Response, jsonify, render_template, request
from prometheus_client import CONTENT_TYPE_LATEST
from werkzeug.exceptions import (
    BadRequest,
    HTTPException,
    RequestEntityTooLarge,
    ServiceUnavailable,
    UnsupportedMediaType,
)

from stack.inbox import episodes
from stack.inbox.held import Held
from stack.inbox.metrics import InboxMetrics
from stack.inbox.notice import BadNotice, parse_webhook
from stack.inbox.store import RECENT, NoticeStore

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_REFRESH_SECONDS: Final = 3
_POLICY: Final = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:"

log = logging.getLogger(__name__)


def create_app(
    store: NoticeStore,
    metrics: InboxMetrics,
    now: Callable[[], float],
    held: Callable[[Collection[str]], Held | None] = lambda fingerprints: None,
) -> Flask:
    """`now` gives unix seconds; `held` what Alertmanager knows of these fingerprints, None if it does not answer."""
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(duration=episodes.duration_text, clock=episodes.clock_text, iso=episodes.iso_text)

    @app.post("/webhook")
    def webhook() -> Response:
        if not request.is_json:  # also keeps a web page elsewhere from posting here without being asked
            raise UnsupportedMediaType(f"the Content-Type is {request.mimetype!r}; expected application/json")
        body = request.get_data(cache=False)
        bad: BadNotice | None = None
        try:
            notices = parse_webhook(body, now())
        except BadNotice as error:
            notices, bad = error.good, error
            log.warning("refused a webhook: %s; it began with %r", error, body[:500])
        try:
            store.add(notices)
        except OSError as error:
            log.error("cannot keep an alert: %s", error)
            # With 5xx Alertmanager delivers it again, until it is kept.
            raise ServiceUnavailable(f"the alert could not be kept ({error.strerror}); deliver it again") from error
        metrics.count(notices)
        if bad is not None:
            raise BadRequest(str(bad))
        return jsonify(received=len(notices))

    @app.get("/api/alerts")
    def alerts() -> Response:
        limit = request.args.get("limit", str(RECENT))
        if not (limit.isascii() and limit.isdigit() and 1 <= int(limit) <= RECENT):
            raise BadRequest(f"limit is {limit[:40]!r}; expected a whole number from 1 to {RECENT}")
        return jsonify([notice.as_json() for notice in store.recent()[: int(limit)]])

    @app.get("/metrics")
    def exposition() -> Response:
        return Response(metrics.text(), content_type=CONTENT_TYPE_LATEST)

    @app.get("/healthz")
    def healthz() -> Response:
        return jsonify(status="ok")

    @app.get("/")
    def page() -> str:
        unresolved = store.unresolved()
        holds = held([notice.fingerprint for notice in unresolved]) if unresolved else None
        inbox = episodes.arrange(store.recent(), unresolved, store.started_at, holds)
        return render_template(
            "inbox.html", inbox=inbox, now=now(), started_at=store.started_at, refresh_seconds=_REFRESH_SECONDS
        )

    @app.errorhandler(HTTPException)
    def refused(error: HTTPException) -> tuple[Response, int]:
        sentence = error.description or error.name
        if isinstance(error, RequestEntityTooLarge):
            sentence = f"the body is larger than {MAX_BODY_BYTES} bytes; expected one notification of Alertmanager"
        return jsonify(error=sentence), error.code or 500

    @app.after_request
    def headers(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = _POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-store"
        return response

    return app
