"""The real programs under a steady load: every series that is read is exported, and every panel shows what is so.

One run of the stack serves the whole module. Beside the shipped rules it has an alert that always fires, for there
must be something that the panels and marks about alerts can show.
"""

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from slo import names
from stack.binaries import BinariesError, obtain
from stack.native import NativeStack
from stack.settings import StackSettings

PARTS = ("service", "locust", "inbox", "prometheus", "alertmanager", "live")
PORTS = (
    *("SERVICE", "SERVICE_ADMIN", "LOCUST", "LOCUST_METRICS", "PROMETHEUS"),
    *("ALERTMANAGER", "GRAFANA", "LIVE", "INBOX"),
)
WITHIN_SECONDS = 120
RATE = 40.0  # requests per second
TUNED_RATE = 400.0
DRILL = """
groups:
  - name: drill
    rules:
      - alert: Drill
        expr: vector(1)
        labels: {severity: ticket, job: drill}
"""


@dataclass(frozen=True)
class Loaded:
    """The stack's addresses, and its Prometheus."""

    urls: dict[str, str]

    def ask(self, query: str) -> list[Any]:
        return self._result("query", {"query": query})

    def last_values(self, query: str, seconds: float, instant: bool) -> list[float]:
        """The newest value of each series over the last seconds, those that are NaN left out."""
        if instant:
            return [value for one in self.ask(query) if not math.isnan(value := float(one["value"][1]))]
        now = time.time()
        asked = {"query": query, "start": str(now - seconds), "end": str(now), "step": "5"}
        series = ([float(value) for _, value in one["values"]] for one in self._result("query_range", asked))
        known = ([value for value in values if not math.isnan(value)] for values in series)
        return [values[-1] for values in known if values]

    def _result(self, kind: str, parameters: dict[str, str]) -> list[Any]:
        answer = requests.get(f"{self.urls['prometheus']}/api/v1/{kind}", params=parameters, timeout=30).json()
        assert answer["status"] == "success", f"{parameters['query']}: {answer}"
        result: list[Any] = answer["data"]["result"]
        return result

    def page(self, uid: str) -> dict[str, Any]:
        """What the live page shows of a dashboard."""
        found: dict[str, Any] = requests.get(f"{self.urls['live']}/api/d/{uid}", timeout=30).json()
        return found


@pytest.fixture(scope="module")
def loaded(
    root: Path, tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], missing: Callable[[str], None]
) -> Iterator[Loaded]:
    try:
        obtain(say=lambda line: None)
    except BinariesError as error:
        missing(str(error))
    directory = tmp_path_factory.mktemp("loaded")
    rules = directory / "rules"
    rules.mkdir()
    for path in (root / "prometheus/rules").glob("*.yml"):
        (rules / path.name).write_bytes(path.read_bytes())
    (rules / "drill.yml").write_text(DRILL)
    settings = StackSettings.from_environment(
        {name: value for name, value in os.environ.items() if not name.startswith(("SERVICE_", "TAILBOARD_"))}
        | {f"{name}_PORT": str(free_port()) for name in PORTS}
        | {
            "TAILBOARD_STATE_DIR": str(directory / "state"),
            "TAILBOARD_RULES_DIR": str(rules),
            "SERVICE_MODEL": "digits?trees=10",
            "SERVICE_MODEL_WORKERS": "0",
            "SERVICE_TUNED_RATE": str(TUNED_RATE),
            "SERVICE_MODEL_CACHE_DIR": str(directory / "models"),
        }
    )
    with NativeStack(settings, say=lambda line: None, only=PARTS) as stack:
        load = {"user_count": 20, "spawn_rate": 20, "host": stack.urls["service"], "arrivals": "poisson", "rate": RATE}
        started = requests.post(f"{stack.urls['locust']}/swarm", data=load, timeout=30)
        assert started.json()["success"], started.text
        yield Loaded(stack.urls)


# --- names ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """One query of one panel, with a window in the place of Grafana's variable, and the unit that its values have."""

    uid: str
    title: str
    legend: str
    expr: str
    unit: str
    instant: bool

    @property
    def where(self) -> str:
        return f"{self.uid}: {self.title}: {self.legend}"


def shown(root: Path) -> Iterator[Shown]:
    for path in sorted((root / "grafana/dashboards").glob("*.json")):
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            fields = panel["fieldConfig"]
            for target in panel["targets"]:
                unit = fields["defaults"]["unit"]
                for override in fields["overrides"]:
                    if override["matcher"]["options"] == target["legendFormat"]:
                        unit = next((p["value"] for p in override["properties"] if p["id"] == "unit"), unit)
                expr = target["expr"].replace("$__rate_interval", "20s")
                yield Shown(
                    dashboard["uid"], panel["title"], target["legendFormat"], expr, unit, bool(target["instant"])
                )


def expressions(root: Path) -> list[str]:
    """Of every panel, every variable with a query, every annotation and every rule."""
    found = [one.expr for one in shown(root)]
    for path in (root / "grafana/dashboards").glob("*.json"):
        dashboard = json.loads(path.read_text())
        found += [annotation["expr"] for annotation in dashboard["annotations"]["list"]]
        # The only variable chooses the datasource; one with a query would have to be asked for here.
        assert [variable["type"] for variable in dashboard["templating"]["list"]] == ["datasource"]
    for path in (root / "prometheus/rules").glob("*.yml"):
        for group in yaml.safe_load(path.read_text())["groups"]:
            found += [rule["expr"] for rule in group["rules"]]
    return found


def selectors(expression: str) -> set[str]:
    """The vector selectors in a PromQL expression, with their matchers and without their range."""
    known = {value for key, value in vars(names).items() if key.isupper() and isinstance(value, str)}
    found = re.findall(r'[a-zA-Z_][\w:]*(?:\{(?:"(?:\\.|[^"\\])*"|[^{}"])*\})?', expression)
    return {
        text
        for text in found
        if re.sub(r"_(bucket|count|sum)$", "", text.partition("{")[0]) in known or text.startswith("job:")
    }


@pytest.mark.timeout(400)
def test_every_series_that_is_read_is_exported(root: Path, loaded: Loaded) -> None:
    for expression in expressions(root):
        loaded.ask(expression)  # valid in this Prometheus, whatever it gives
    unseen = {one for expression in expressions(root) for one in selectors(expression)}
    assert len(unseen) > 60
    end = time.monotonic() + WITHIN_SECONDS
    while unseen and time.monotonic() < end:
        time.sleep(2)
        unseen = {selector for selector in unseen if not loaded.ask(f"count({selector})")}
    assert unseen == set()


# --- panels -----------------------------------------------------------------------------------------------------

# Lowest and highest value by unit: what no figure of a healthy stack with this load leaves. Milliseconds that pass for
# seconds, percent for a share, or megabytes for bytes would.
BY_UNIT = {
    "s": (1e-6, 4.0),
    "reqps": (0.0, 3 * RATE),
    "ops": (0.0, 3 * RATE),
    "percentunit": (-100.0, 1.0),  # a budget may be overspent a hundred times
    "bytes": (5e6, 4e9),
    "short": (0.0, 1100.0),
}
STEADY = (0.5 * RATE, 1.5 * RATE)
EXACT = {
    ("batcher", "Largest batch"): (128.0, 128.0),
    ("batcher", "Longest hold"): (0.005, 0.005),
    ("batcher", "Queue depth", "capacity"): (1024.0, 1024.0),
    ("batcher", "Rows a batch", "cap"): (128.0, 128.0),
    ("batcher", "Rows a batch", "mean"): (1.0, 20.0),
    ("batcher", "Where the time goes", "the rest"): (0.0, 1.0),
    ("batcher", "Rows a batch, distribution"): (0.0, 3 * RATE),
    ("batcher", "Model busy"): (0.001, 1.0),
    ("batcher", "Cost of a run", "per row"): (0.0, 0.1),
    ("batcher", "Cost of a run", "fixed"): (0.0, 0.1),
    ("latency-vs-throughput", "Throughput", "served"): STEADY,
    ("latency-vs-throughput", "Throughput", "offered"): STEADY,
    ("latency-vs-throughput", "Throughput", "confirmed by the tuner"): (TUNED_RATE, TUNED_RATE),
    ("latency-vs-throughput", "p99 against throughput", "requests/s served"): STEADY,
    ("latency-vs-throughput", "Latency distribution"): (0.0, 3 * RATE),
    ("latency-vs-throughput", "Not good"): (0.0, 1.0),
    ("slo", "Objective"): (0.99, 0.99),
    ("slo", "Threshold"): (0.05, 0.05),
    ("slo", "Burn rate, 30s"): (0.0, 100.0),
    ("slo", "Burn rate, 2m"): (0.0, 100.0),
    ("slo", "Alerts firing"): (1.0, 20.0),
    ("slo", "Alerts"): (1.0, 1.0),
    ("slo", "Requests that are not good"): (0.0, 1.0),
    ("slo", "Error budget left", "spent"): (0.0, 0.0),
    ("slo", "What became of requests", "good"): (0.0, 1.5 * RATE),
    ("slo", "Traffic in the alert's window", "requests"): (100.0, 1.5 * RATE * 120),
    ("stack-health", "Targets down"): (0.0, 0.0),
    ("stack-health", "Targets"): (1.0, 1.0),
    ("stack-health", "Watchdog"): (1.0, 1.0),
    ("stack-health", "Rule failures"): (0.0, 0.0),
    ("stack-health", "Alerts not delivered"): (0.0, 0.0),
    ("stack-health", "In flight"): (0.0, 100.0),
    ("stack-health", "Load generator", "target"): (RATE, RATE),
    ("stack-health", "Load generator", "offered"): STEADY,
    ("stack-health", "Load generator", "started"): STEADY,
    ("stack-health", "CPU"): (0.0, 2.0),
    ("stack-health", "Oldest request in flight"): (0.0, 4.0),
    ("stack-health", "What runs"): (1.0, 1.0),
}


def bounds(one: Shown) -> tuple[float, float]:
    for key in ((one.uid, one.title, one.legend), (one.uid, one.title)):
        if key in EXACT:
            return EXACT[key]
    if one.title == "Alerts now":
        return (0.0, 3600.0)  # how long an alert has been active
    return BY_UNIT[one.unit]


def only_when_wrong(one: Shown) -> bool:
    """The flag that the truth is beyond the last bucket."""
    return "is beyond" in one.legend


def trouble(one: Shown, loaded: Loaded) -> str:
    """What is wrong with the values of a query; empty when nothing is."""
    values = loaded.last_values(one.expr, 60, one.instant)
    if only_when_wrong(one):
        return f"{one.where} shows {values}" if values else ""
    low, high = bounds(one)
    if not values:
        return f"{one.where} is empty: {one.expr}"
    # Sums of floats land a hair beside: 4.0000000000000001 is not above 4.
    outside = [value for value in values if not low - 1e-9 <= value <= high + 1e-9]
    return f"{one.where} in {one.unit!r} shows {outside}, outside of {low:g} to {high:g}" if outside else ""


def test_what_the_expectations_name_is_there(root: Path) -> None:
    there = {key for one in shown(root) for key in ((one.uid, one.title, one.legend), (one.uid, one.title))}
    assert EXACT.keys() <= there


@pytest.mark.timeout(400)
def test_every_panel_has_values_of_the_right_size(root: Path, loaded: Loaded) -> None:
    queries = list(shown(root))
    assert len(queries) > 70
    end = time.monotonic() + WITHIN_SECONDS
    while True:  # the budget is evaluated every 30 s, and a rate settles
        wrong = [found for one in queries if (found := trouble(one, loaded))]
        if not wrong or time.monotonic() > end:
            break
        queries = [one for one in queries if trouble(one, loaded)] or queries
        time.sleep(2)
    assert wrong == []


@pytest.mark.timeout(400)
def test_percentiles_are_in_order_and_those_of_the_client_are_not_below_its_own_service_time(
    root: Path, loaded: Loaded
) -> None:
    by_key = {(one.title, one.legend): one for one in shown(root) if one.uid == "latency-vs-throughput"}

    def value(title: str, legend: str) -> float:
        one = by_key[title, legend]
        [found] = loaded.ask(one.expr)
        return float(found["value"][1])

    p50, p95, p99 = (value(name, name) for name in ("p50", "p95", "p99"))
    assert 0 < p50 <= p95 <= p99
    assert 0 < value("Latency", "mean") < 2 * p99
    scheduled = value("p99: client against server", "client, from schedule")
    sent = value("p99: client against server", "client, from send")
    assert scheduled >= 0.7 * sent  # asked one after the other, a scrape may come between
    [marks] = {
        annotation["expr"]
        for path in (root / "grafana/dashboards").glob("*.json")
        for annotation in json.loads(path.read_text())["annotations"]["list"]
        if annotation["name"] == "Alerts"
    }
    assert "Drill" in {one["metric"]["alertname"] for one in loaded.ask(marks)}


@pytest.mark.timeout(400)
def test_the_live_page_draws_every_panel_of_the_real_stack(root: Path, loaded: Loaded) -> None:
    for path in sorted((root / "grafana/dashboards").glob("*.json")):
        dashboard = json.loads(path.read_text())
        titles = {str(panel["id"]): panel["title"] for panel in dashboard["panels"]}
        end = time.monotonic() + 60
        while True:  # over an hour a point is 15 s, so that the page is a little behind
            found = loaded.page(dashboard["uid"])
            silent = {titles[number]: panel for number, panel in found["panels"].items() if panel["state"] != "ok"}
            if not silent or time.monotonic() > end:
                break
            time.sleep(2)
        assert silent == {}
        assert found["status"] == {"state": "ok", "message": ""}, dashboard["uid"]
        assert "Drill" in {alert["title"] for alert in found["firing"]}
        kinds = {"stat": "stat", "table": "table", "timeseries": "figure", "xychart": "figure", "heatmap": "figure"}
        assert {number: panel["kind"] for number, panel in found["panels"].items()} == {
            str(panel["id"]): kinds[panel["type"]] for panel in dashboard["panels"]
        }
    table = next(panel for panel in loaded.page("slo")["panels"].values() if panel["kind"] == "table")["table"]
    assert [column["name"] for column in table["columns"]] == ["Alert", "State", "Severity", "Job", "Active for"]
    assert ["Drill", "firing", "ticket", "drill"] in [[cell["text"] for cell in row[:4]] for row in table["rows"]]


@pytest.mark.timeout(400)
def test_when_the_load_stops_the_tiles_say_so_and_no_alert_comes_of_it(root: Path, loaded: Loaded) -> None:
    """Case M1, at the end of the module: nobody asks for anything any more."""
    requests.post(f"{loaded.urls['locust']}/stop", timeout=30).raise_for_status()
    about_requests = {"p50", "p95", "p99", "Throughput", "Not good"}
    dashboard = json.loads((root / "grafana/dashboards/latency-vs-throughput.json").read_text())
    titles = {str(panel["id"]): panel["title"] for panel in dashboard["panels"] if panel["type"] == "stat"}
    end = time.monotonic() + 60
    texts: dict[str, str] = {}
    while time.monotonic() < end:
        panels = loaded.page("latency-vs-throughput")["panels"]
        texts = {title: panels[number]["stats"][0]["text"] for number, title in titles.items()}
        if {title for title, text in texts.items() if text == "no traffic"} == about_requests:
            break
        time.sleep(2)
    assert {title for title, text in texts.items() if text == "no traffic"} == about_requests
    assert "NaN" not in json.dumps(texts)
    # No requests are no breach: nothing that is said of them may fire for want of any.
    firing = loaded.ask(f'{names.ALERTS}{{alertstate="firing",severity=~"page|ticket"}}')
    about = {"SLOBucketMissing", "InferenceTargetAbsent", "ErrorRatioHigh", "LoadShed", "BatcherStalled"}
    assert not {one["metric"]["alertname"] for one in firing} & about
