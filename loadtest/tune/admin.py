"""The served side as the tuner touches it: the admin port's knobs and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import requests
from prometheus_client.parser import text_string_to_metric_families

from loadtest.analysis.tuner.knobs import Knobs
from loadtest.errors import CannotGoOn
from slo import names

_TIMEOUT_SECONDS: Final = 5.0
_PATH: Final = "/admin/batching"
_SUMMED: Final = (names.REQUEST_DURATION, names.QUEUE_WAIT, names.MODEL_DURATION, names.BATCH_ROWS)
_GAUGES: Final = (
    *(names.REQUESTS_IN_FLIGHT, names.QUEUE_DEPTH_ROWS, names.QUEUE_CAPACITY_ROWS),
    *(names.COST_FIXED_SECONDS, names.COST_PER_ROW_SECONDS, names.MODEL_WORKERS),
)
# All that is read: the page is many times as long, and is parsed beside the load.
_READ: Final = (
    *(f"{name}_{part}" for name in _SUMMED for part in ("sum", "count")),
    *_GAUGES,
    names.BUILD_INFO,
    names.PROCESS_CPU,
)


class AdminError(CannotGoOn):
    """The admin port cannot be used: one sentence."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the service has counted so far; sums in seconds (of batches, in rows)."""

    sums: Mapping[str, float]
    counts: Mapping[str, float]
    gauges: Mapping[str, float]
    model: str = ""  # its name
    cpu_seconds: float | None = None  # of the process that serves HTTP

    def mean_since(self, before: "Reading", name: str) -> float | None:
        """Mean of what `name` observed since then; None if nothing."""
        count = self.count_since(before, name)
        return self.sum_since(before, name) / count if count > 0 else None

    def count_since(self, before: "Reading", name: str) -> float:
        """How often `name` was observed since then."""
        return self.counts.get(name, 0.0) - before.counts.get(name, 0.0)

    def sum_since(self, before: "Reading", name: str) -> float:
        """Total of what `name` observed since then."""
        return self.sums.get(name, 0.0) - before.sums.get(name, 0.0)


class Admin:
    """One service's admin port."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy has no business between us and the admin port

    def knobs(self) -> Knobs:
        """As they are now; AdminError."""
        shown = self._call("GET")
        try:
            return Knobs(int(shown["max_batch_rows"]), float(shown["max_wait_seconds"]), str(shown["policy"]))
        except (KeyError, TypeError, ValueError) as error:
            raise AdminError(f"{self.url}{_PATH} answered {shown}; expected the service's knobs ({error})") from None

    def turn(self, knobs: Knobs) -> None:
        """All three knobs at once; AdminError, of a wrong token too."""
        change = {
            "policy": knobs.policy,
            "max_batch_rows": knobs.max_batch_rows,
            "max_wait_seconds": knobs.max_wait_seconds,
        }
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        self._call("PATCH", json=change, headers=headers)

    def reading(self) -> Reading:
        """The service's counts; AdminError."""
        text = self._send("GET", "/metrics").text
        kept = "".join(line + "\n" for line in text.splitlines() if line.startswith(_READ))
        sums: dict[str, float] = {}
        counts: dict[str, float] = {}
        gauges: dict[str, float] = {}
        model, cpu_seconds = "", None
        for family in text_string_to_metric_families(kept):
            for sample in family.samples:
                if sample.name in _GAUGES:
                    gauges[sample.name] = sample.value
                elif sample.name == names.BUILD_INFO:
                    model = sample.labels.get("model", "")
                elif sample.name == names.PROCESS_CPU:
                    cpu_seconds = sample.value
                elif _counts(sample.labels):
                    name, _, part = sample.name.rpartition("_")
                    into = sums if part == "sum" else counts
                    into[name] = into.get(name, 0.0) + sample.value
        if names.REQUEST_DURATION not in counts:
            raise AdminError(f"{self.url}/metrics has no {names.REQUEST_DURATION}; expected Tailboard's admin port")
        return Reading(sums, counts, gauges, model, cpu_seconds)

    def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        response = self._send(method, _PATH, **arguments)
        try:
            shown = response.json()
        except ValueError:
            shown = None
        if not isinstance(shown, dict):
            raise AdminError(f"{self.url}{_PATH} answered no JSON object; expected Tailboard's admin port")
        return shown

    def _send(self, method: str, path: str, **arguments: Any) -> requests.Response:
        try:
            response = self._session.request(method, self.url + path, timeout=_TIMEOUT_SECONDS, **arguments)
        except requests.RequestException as error:
            raise AdminError(
                f"the admin port {self.url} does not answer ({_short(error)}); expected a service that runs, such as "
                "that of make up, its admin port in --admin"
            ) from None
        if not response.ok:
            raise AdminError(f"{method} {self.url}{path} answered {response.status_code}: {_said(response)}")
        return response


def _counts(labels: Mapping[str, str]) -> bool:
    """Whether a series is about inference; scrapes and pages have a duration too."""
    return labels.get("route", names.ROUTE_PREDICT) in names.INFERENCE_ROUTES


def _said(response: requests.Response) -> str:
    try:
        return str(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        return response.text[:200].strip()


def _short(error: requests.RequestException) -> str:
    return "timed out" if isinstance(error, requests.Timeout) else type(error).__name__
