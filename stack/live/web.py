"""The Flask application: pages with their panels' places, and the data that fills them."""

import gzip
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Final

import orjson
from flask import Flask, Response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from stack.live.catalogue import Catalogue, Contents
from stack.live.dashboard import Dashboard
from stack.live.gather import Gatherer, Wish
from stack.live.settings import LiveSettings

RANGES: Final = (
    ("now-5m", "5 min"), ("now-15m", "15 min"), ("now-30m", "30 min"), ("now-1h", "1 h"), ("now-3h", "3 h"),
    ("now-6h", "6 h"), ("now-12h", "12 h"), ("now-24h", "24 h"), ("now-2d", "2 days"), ("now-7d", "7 days"),
)  # fmt: skip
_YEAR_SECONDS: Final = 31_536_000
# Everything comes from here; Plotly writes its own styles, and draws images of figures as data.
_POLICY: Final = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "object-src 'none'; base-uri 'none'; frame-ancestors 'self'; form-action 'none'"
)


def create_app(settings: LiveSettings, catalogue: Catalogue, gatherer: Gatherer) -> Flask:
    """The whole page as a WSGI application; it holds no state beyond what it is given."""
    app = Flask(__name__)

    @app.after_request
    def secure(response: Response) -> Response:
        response.headers.setdefault("Content-Security-Policy", _POLICY)
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "same-origin"
        response.headers.setdefault("Cache-Control", "no-cache")
        return response

    def in_order(contents: Contents) -> list[Dashboard]:
        """As the page lists them: the home dashboard, then the others by title."""
        return sorted(contents.dashboards, key=lambda found: (found.uid != settings.home_uid, found.title))

    @app.get("/healthz")
    def healthz() -> Response:
        """Alive; whether Prometheus is, the page itself says."""
        return Response("ok\n", mimetype="text/plain")

    @app.get("/")
    def home() -> BaseResponse | str | tuple[str, int]:
        contents = catalogue.contents()
        if contents.dashboards:
            return redirect(url_for("dashboard", uid=in_order(contents)[0].uid))
        return _nothing(f"There is no dashboard in {settings.dashboards_dir}", contents.troubles), 404

    @app.get("/d/<uid>")
    @app.get("/d/<uid>/<slug>")  # Grafana's own addresses end with the title
    def dashboard(uid: str, slug: str = "") -> str | tuple[str, int]:
        contents = catalogue.contents()
        found = contents.by_uid(uid)
        if found is None:
            return _nothing(f"There is no dashboard with the uid {uid!r}", contents.troubles), 404
        return render_template(
            "dashboard.html",
            dashboard=found,
            dashboards=in_order(contents),
            troubles=contents.troubles,
            ranges=RANGES,
            links=settings.links,
            host=_host(),
            refresh_seconds=settings.refresh_seconds,
            give_up_seconds=settings.page_timeout_seconds + 4,
            plotly=f"{url_for('plotly')}?v={_plotly_version()}-1",  # the number: how we serve it
        )

    @app.get("/api/d/<uid>")
    def data(uid: str) -> Response:
        found = catalogue.contents().by_uid(uid)
        if found is None:
            return _json({"error": f"there is no dashboard with the uid {uid!r}"}, 404)
        wish = Wish(
            start=request.args.get("from", found.time_from),
            end=request.args.get("to", found.time_to),
            variables={
                key.removeprefix("var-"): request.args.getlist(key) for key in request.args if key.startswith("var-")
            },
            open_rows=frozenset(int(row) for row in request.args.getlist("open") if row.isascii() and row.isdigit()),
        )
        try:
            return _json(gatherer.page(found, wish))
        except ValueError as error:
            return _json({"error": str(error)}, 400)

    @app.get("/plotly.min.js")
    def plotly() -> Response:
        """The Plotly of the installed package, so that nothing is fetched from elsewhere."""
        zipped = request.accept_encodings.quality("gzip") > 0
        response = Response(plotly_script(zipped), mimetype="text/javascript")
        if zipped:
            response.headers["Content-Encoding"] = "gzip"
        response.headers["Vary"] = "Accept-Encoding"
        response.headers["Cache-Control"] = f"public, max-age={_YEAR_SECONDS}, immutable"
        return response

    @app.errorhandler(404)
    def missing(_: Exception) -> tuple[str, int]:
        return _nothing("There is no such page", ()), 404

    return app


def _nothing(message: str, troubles: Any) -> str:
    return render_template("nothing.html", message=message, troubles=troubles)


def _host() -> str:
    """The host by which the viewer reached us, without its port: the other parts are on the same one."""
    host = request.host.rsplit(":", 1)[0] if not request.host.endswith("]") else request.host
    return host or "127.0.0.1"


def _json(body: Any, status: int = 200) -> Response:
    return Response(
        orjson.dumps(body), status=status, mimetype="application/json", headers={"Cache-Control": "no-store"}
    )


@cache
def plotly_script(zipped: bool) -> bytes:
    """The drawing library as it is sent; made once, which takes a quarter of a second."""
    script = compiled_at_once((files("plotly") / "package_data" / "plotly.min.js").read_bytes())
    return gzip.compress(script, 5) if zipped else script


def compiled_at_once(script: bytes) -> bytes:
    """The same script with its outermost function in parentheses, where it is one that is handed to a loader.

    Browsers take parentheses for a sign that a function is called at once: they compile it while the script arrives,
    on another thread, instead of skimming its five megabytes first and compiling them when it is called. The first
    chart stands a third of a second to a second earlier.
    """
    head, tail = b"this, () => {", b"}));"
    if script.count(head) != 1 or not script.rstrip().endswith(tail):
        return script
    return script.rstrip().removesuffix(tail).replace(head, b"this, (() => {") + b"})));\n"


@cache
def _plotly_version() -> str:
    return version("plotly")
