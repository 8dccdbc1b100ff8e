"""Locust's web UI: forms are checked before Locust sees them, edits reach every worker, the open loop has its tab."""

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

from flask import Flask, Response, jsonify, request
from werkzeug.datastructures import ImmutableMultiDict

from loadtest.analysis.verdict import Slo
from loadtest.director import Director
from loadtest.form import Now, complete_form
from loadtest.live import as_json
from loadtest.settings import SettingsError
from loadtest.target import TargetError
from loadtest.worker_report import Report

_SWARM: Final = "locust.swarm"  # Flask endpoints of Locust 2.47
_INDEX: Final = "locust.index"

# What is put on Locust's page: a strip at its head and a tab of our own, filled from /load each second. The strip says
# what "users" means here and why an edit was refused (Locust's dialog closes without a word). Locust's own RPS and
# percentiles go stale when the server freezes; these do not.
_PAGE: Final = Path(__file__).parent / "page"
_STRIP: Final = """
<div id="tailboard">
<span><b>Open loop</b>: <i>arrivals</i> and <i>rate</i> (custom parameters) decide when requests start; users are
only the <b>cap on requests in flight</b>. With both classes ticked, OpenLoopUser runs.</span>
<span id="tailboard-account"></span> <b id="tailboard-refused" role="alert"></b></div>
"""


def _parts() -> str:
    """All that does not change from one view to the next; the script must come after the values in force."""
    style, panel = ((_PAGE / name).read_text("utf-8") for name in ("open_loop.css", "open_loop.html"))
    return f"<style>\n{style}</style>{_STRIP}{panel}"


def attach(
    app: Flask,
    environment: Any,
    director: Director,
    report: Callable[[], Report],
    slo: Slo,
    default_class: str,
    own_options: Collection[str] = (),
) -> None:
    """Put all this on Locust's Flask app, which must not have served a request yet.

    `own_options` are those that people's own files have added and that the form shows.
    """
    command_line = director.settings
    parts = _parts()
    script = (_PAGE / "open_loop.js").read_text("utf-8")

    def now() -> Now:
        return Now(
            settings=director.settings,
            running=director.running,
            cap=environment.runner.target_user_count,
            user_classes=[each.__name__ for each in environment.user_classes],
            default_class=default_class,
            options=own_options,
            command_line=command_line,
        )

    def check_form() -> Response | None:
        if request.endpoint != _SWARM:
            return None
        try:
            form = complete_form(request.form.to_dict(flat=False), now())
        except (SettingsError, TargetError) as error:
            # 200, as Locust answers its own refusals: its form shows the message of no other reply.
            return jsonify({"success": False, "message": str(error), "host": environment.host})
        request.form = ImmutableMultiDict(form)
        return None

    def after(response: Response) -> Response:
        if request.endpoint == _SWARM and director.running and response.get_json()["success"]:
            director.share_out()
        if request.endpoint == _INDEX and response.status_code == 200:
            values = json.dumps(director.settings.as_dict()).replace("<", "\\u003c")  # it stands in a script
            page = response.get_data(as_text=True)
            at = page.index("</body>")
            ours = f'{parts}<script type="application/json" id="tailboard-values">{values}</script>'
            response.set_data(f"{page[:at]}{ours}<script>\n{script}</script>{page[at:]}")
        return response

    def load() -> Response:
        return jsonify(as_json(report(), director.settings.objective(slo)))

    app.before_request(check_form)
    app.after_request(after)
    app.add_url_rule("/load", view_func=load)
