"""Locust's web UI: forms are checked before Locust sees them, edits reach every worker, the account is shown."""

import json
from collections.abc import Callable
from typing import Any, Final

from flask import Flask, Response, jsonify, request
from werkzeug.datastructures import ImmutableMultiDict

from loadtest.director import Director
from loadtest.form import Now, complete_form
from loadtest.settings import SettingsError
from loadtest.target import TargetError
from loadtest.worker_report import Report

_SWARM: Final = "locust.swarm"  # Flask endpoints of Locust 2.47
_INDEX: Final = "locust.index"

# A strip at the foot of Locust's page. It says what "users" means here, keeps the account in view (Locust's own RPS
# goes stale when the server freezes), shows why an edit was refused (Locust's dialog closes without a word), and puts
# the values in force into the form (Locust would offer those of the command line again, and an edit would post them).
_STRIP: Final = """
<style>
body { padding-bottom: 64px }
#tailboard { position: fixed; bottom: 0; left: 0; right: 0; z-index: 1500; padding: 6px 24px;
  font: 14px/1.5 sans-serif; background: #1b3a4b; color: #fff }
#tailboard-refused { color: #ffb4a2 }
</style>
<div id="tailboard">
<b>Open loop</b>: <i>arrivals</i> and <i>rate</i> (under "Custom parameters") decide when requests start;
the number of users is only the <b>cap on requests in flight</b>.
With both classes ticked, OpenLoopUser runs. Latency counts from the scheduled instant.
<span id="tailboard-account"></span> <b id="tailboard-refused" role="alert"></b></div>
<script>
(() => {
  const options = window.templateArgs.extra_options;
  for (const [name, value] of Object.entries(%(values)s)) if (options[name]) options[name].default_value = value;
  const plain = window.fetch;
  window.fetch = async (...given) => {
    const reply = await plain(...given);
    if (new URL(reply.url).pathname.endsWith("/swarm")) {
      const said = await reply.clone().json();
      document.getElementById("tailboard-refused").textContent = said.success ? "" : said.message;
    }
    return reply;
  };
  const show = async () => {
    try {
      const now = await (await plain("load")).json(), run = now.run;
      document.getElementById("tailboard-account").textContent =
        `Now ${now.target_rate.toFixed(1)}/s; this run: ${run.offered} offered, ${run.dropped} dropped, ` +
        `${run.completed} completed, ${run.failed} failed, ${now.in_flight} in flight` +
        (now.in_flight ? `, oldest ${now.oldest_in_flight_seconds.toFixed(2)} s.` : ".");
    } catch (error) {
      document.getElementById("tailboard-account").textContent = "Locust does not answer.";
    }
  };
  show();
  setInterval(show, 2000);
})();
</script>
"""


class RunCounts:
    """The account of the run that goes on, or of the last one: counts since it started."""

    def __init__(self, report: Callable[[], Report]) -> None:
        self._report = report
        self._before = report().counts

    def begin(self, environment: Any, **_: Any) -> None:
        """A run starts; Locust's test_start."""
        self._before = self._report().counts

    def as_json(self) -> dict[str, Any]:
        """State and counts since the process started, and under "run" the counts of this run."""
        report = self._report()
        run = {name: count - self._before[name] for name, count in report.counts.items()}
        return {**report.as_json(), "run": run}


def attach(app: Flask, environment: Any, director: Director, counts: RunCounts, default_class: str) -> None:
    """Put all this on Locust's Flask app, which must not have served a request yet."""

    def now() -> Now:
        return Now(
            settings=director.settings,
            running=director.running,
            cap=environment.runner.target_user_count,
            user_classes=[each.__name__ for each in environment.user_classes],
            default_class=default_class,
            options=vars(environment.parsed_options),
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
            values = json.dumps(director.settings.as_dict())  # checked settings: none can hold markup
            page = response.get_data(as_text=True)
            at = page.index("</body>")
            strip = _STRIP % {"values": values}
            response.set_data(page[:at] + strip + page[at:])
        return response

    def load() -> Response:
        return jsonify(counts.as_json())

    app.before_request(check_form)
    app.after_request(after)
    app.add_url_rule("/load", view_func=load)
