"""The running stack as the demo sees and touches it: over HTTP, as a person could with a browser and curl."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import requests

from slo.config import Service
from slo.expressions import job_requests, quantile
from stack.demo.experiment import AlertState
from stack.demo.measure import Reading, read

_TIMEOUT_SECONDS: Final = 5.0
_RECENT: Final = "30s"  # the window of the alert rule and of the dashboards


class DemoError(Exception):
    """The demo cannot go on; one sentence."""


@dataclass(frozen=True, slots=True)
class Mail:
    """One line of the alert inbox."""

    alert: str
    status: str  # firing | resolved
    received_at: float  # unix seconds


class Instruments:
    """Every method is one or two requests; whatever goes wrong is a DemoError of one sentence."""

    def __init__(
        self,
        urls: Mapping[str, str],
        admin_token: str,
        slo: Service,
        now: Callable[[], float],
        check: Callable[[], None],
    ) -> None:
        """`urls` as NativeStack has them; `now` is the clock; `check` raises when a part of the stack has died."""
        self._urls = urls
        self._token = admin_token
        self._slo = slo
        self._now = now
        self._check = check
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy has no business on the loopback interface

    # --- the load --------------------------------------------------------------------------------------------------

    def open_load(self, rate: float, cap: int, seed: int) -> None:
        """Poisson arrivals of one row each from now on; where that load runs already, only its rate changes."""
        self._swarm("OpenLoopUser", cap, arrivals="poisson", rate=f"{rate:g}", seed=str(seed), rows_per_request="1")

    def closed_load(self, users: int) -> None:
        """So many users that each ask again as soon as they are answered."""
        self._swarm("ClosedLoopUser", users, rows_per_request="1")

    def stop_load(self) -> None:
        """Asks for the stop; requests under way may still end in their own time."""
        self._call("POST", "locust", "/stop")

    def load_state(self) -> str:
        """Locust's word for it: ready, spawning, running, stopping, stopped."""
        return str(self._call("GET", "locust", "/stats/requests")["state"])

    def _swarm(self, user_class: str, users: int, **fields: str) -> None:
        form = {"user_classes": user_class, "user_count": str(users), "spawn_rate": str(users), **fields}
        reply = self._call("POST", "locust", "/swarm", data=form)
        if not reply["success"]:
            raise DemoError(f"Locust refused the load: {reply['message']}")

    # --- the service -----------------------------------------------------------------------------------------------

    def batching(self) -> dict[str, Any]:
        knobs: dict[str, Any] = self._call("GET", "service_admin", "/admin/batching")
        return knobs

    def set_batching(self, knobs: Mapping[str, Any]) -> None:
        self._call(
            "PATCH",
            "service_admin",
            "/admin/batching",
            json=dict(knobs),
            headers={"Authorization": f"Bearer {self._token}"},
        )

    # --- what is to be seen ----------------------------------------------------------------------------------------

    def reading(self) -> Reading:
        """Both /metrics pages; its instant is when the generator's was asked for."""
        at = self._now()
        loadgen = self._text("locust_metrics", "/metrics")
        service = self._text("service_admin", "/metrics")
        return read(at, loadgen, service)

    def server_quantile(self) -> float | None:
        """The objective's quantile of the service's own latencies of the last 30 s; None without any."""
        query = quantile(self._slo.objective, job_requests(self._slo, "_bucket"), _RECENT)
        reply = self._call("GET", "prometheus", "/api/v1/query", params={"query": query})
        results: Sequence[Any] = reply["data"]["result"]
        value = float(results[0]["value"][1]) if results else math.nan
        return None if math.isnan(value) else value

    def alert_state(self, alert: str) -> AlertState:
        """The most urgent state of the alert of that name."""
        reply = self._call("GET", "prometheus", "/api/v1/alerts")
        states = {entry["state"] for entry in reply["data"]["alerts"] if entry["labels"]["alertname"] == alert}
        if "firing" in states:
            return "firing"
        return "pending" if "pending" in states else "inactive"

    def inbox(self) -> list[Mail]:
        """All that has arrived, newest first."""
        entries: Any = self._call("GET", "inbox", "/api/alerts")
        return [
            Mail(entry["labels"].get("alertname", ""), entry["status"], float(entry["received_at"]))
            for entry in entries
        ]

    def prometheus_version(self) -> str:
        return str(self._call("GET", "prometheus", "/api/v1/status/buildinfo")["data"]["version"])

    # --- HTTP ------------------------------------------------------------------------------------------------------

    def _call(self, method: str, part: str, path: str, **arguments: Any) -> Any:
        response = self._send(method, part, path, **arguments)
        try:
            return response.json()
        except ValueError as error:
            raise DemoError(f"{method} {response.url} answered no JSON: {error}") from error

    def _text(self, part: str, path: str) -> str:
        return self._send("GET", part, path).text

    def _send(self, method: str, part: str, path: str, **arguments: Any) -> requests.Response:
        url = self._urls[part] + path
        try:
            response = self._session.request(method, url, timeout=_TIMEOUT_SECONDS, **arguments)
        except requests.RequestException as error:
            self._check()  # the end of a dead part's log says more than a refused connection
            raise DemoError(f"{method} {url} failed: {error}") from error
        if not response.ok:
            raise DemoError(f"{method} {url} answered {response.status_code}: {response.text[:200].strip()}")
        return response
