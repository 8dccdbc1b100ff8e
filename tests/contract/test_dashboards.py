"""Lint of the shipped dashboards: what would make a panel lie, stay empty, or break in another Grafana."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from slo import names
from slo.buckets import duration_edges
from slo.config import SCRAPE_SECONDS, SHORTEST_WINDOW_SECONDS
from slo.durations import parse_duration
from stack.grafana import environment
from stack.settings import StackSettings

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
PANELS = {"stat", "timeseries", "xychart", "heatmap", "table"}  # what the live page draws as well
RED = "#e03131"
UNITS = {"s", "reqps", "ops", "short", "percentunit", "bytes"}


def dashboards(root: Path) -> dict[str, dict[str, Any]]:
    return {path.name: json.loads(path.read_text()) for path in sorted((root / "grafana/dashboards").glob("*.json"))}


def panels(root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, dashboard in dashboards(root).items():
        for panel in dashboard["panels"]:
            yield f"{name}: {panel['title']}", panel


def queries(root: Path) -> Iterator[tuple[str, str]]:
    for where, panel in panels(root):
        for target in panel["targets"]:
            yield where, target["expr"]
    for name, dashboard in dashboards(root).items():
        for annotation in dashboard["annotations"]["list"]:
            yield f"{name}: annotation", annotation["expr"]


def rule_expressions(root: Path) -> Iterator[tuple[str, str]]:
    for path in sorted((root / "prometheus/rules").glob("*.yml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                yield f"{path.name}: {rule.get('alert') or rule['record']}", rule["expr"]


def recorded(root: Path) -> set[str]:
    return {where.partition(": ")[2] for where, _ in rule_expressions(root) if ": job:" in where}


KEYWORDS = {"and", "or", "unless", "by", "on", "without", "ignoring", "group_left", "group_right", "bool", "offset"}


def metric_names(expression: str) -> set[str]:
    """Names of the series that a PromQL expression reads."""
    bare = re.sub(r'"(\\.|[^"\\])*"', "", expression)
    bare = re.sub(r"\{[^{}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|on|without|ignoring|group_left|group_right)\s*\([^()]*\)", " ", bare)
    return set(re.findall(r"\b[a-zA-Z_:][\w:]*\b(?!\s*\()", bare)) - KEYWORDS


def test_metric_names_are_found_in_expressions() -> None:
    expression = (
        'sum by (job) (rate(a_total{b=~"c{2}"}[$__rate_interval])) / on (d) group_left () x:y:z > 0 and e or vector(1)'
    )
    assert metric_names(expression) == {"a_total", "x:y:z", "e"}


def test_every_metric_has_its_home_in_names_or_is_recorded(root: Path) -> None:
    home = {value for key, value in vars(names).items() if key.isupper() and isinstance(value, str)}
    known = home | recorded(root)
    for where, expression in [*queries(root), *rule_expressions(root)]:
        found = metric_names(expression)
        assert found or expression.startswith("vector("), where
        for name in found:
            assert name in known or re.sub(r"_(bucket|count|sum)$", "", name) in home, f"{where} reads {name}"


def test_every_label_value_is_one_that_exists(root: Path) -> None:
    """A panel on outcome="error" would be empty for ever."""
    bounded = {
        "outcome": names.OUTCOMES,
        "trigger": names.TRIGGERS,
        "reason": names.REJECT_REASONS,
        "state": names.ARRIVAL_STATES,
    }
    for where, expression in [*queries(root), *rule_expressions(root)]:
        for label, value in re.findall(r'(outcome|trigger|reason|\bstate)!?=~?"([^"]*)"', expression):
            assert set(value.split("|")) <= set(bounded[label]), where


def test_every_recording_is_read_by_somebody(root: Path) -> None:
    expressions = [*queries(root), *rule_expressions(root)]
    annotations = " ".join(path.read_text() for path in (root / "prometheus/rules").glob("*.yml"))
    read = {name for _, expression in expressions for name in metric_names(expression)}
    for name in recorded(root) - read:
        assert annotations.count(name) > 1, f"nothing reads {name}"


def test_uids_are_stable_and_file_names_follow(root: Path) -> None:
    assert {name: dashboard["uid"] for name, dashboard in dashboards(root).items()} == {
        "latency-vs-throughput.json": "latency-vs-throughput",
        "batcher.json": "batcher",
        "slo.json": "slo",
        "stack-health.json": "stack-health",
    }


def test_the_datasource_is_a_variable_everywhere(root: Path) -> None:
    for name, dashboard in dashboards(root).items():
        assert "__inputs" not in dashboard
        assert "DS_PROMETHEUS" not in json.dumps(dashboard)
        [variable] = dashboard["templating"]["list"]
        assert (variable["name"], variable["type"], variable["query"]) == ("datasource", "datasource", "prometheus"), (
            name
        )
        assert dashboard["annotations"]["list"][0]["datasource"] == DATASOURCE
    for where, panel in panels(root):
        assert panel["datasource"] == DATASOURCE, where
        assert all(target.get("datasource", DATASOURCE) == DATASOURCE for target in panel["targets"]), where


def test_every_panel_explains_itself(root: Path) -> None:
    for where, panel in panels(root):
        assert panel["type"] in PANELS, where
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, where
        assert len(panel["description"]) > 20, where
        assert panel["targets"], where
        assert all(target["legendFormat"] for target in panel["targets"]), where
        legends = [target["legendFormat"] for target in panel["targets"]]
        assert len(set(legends)) == len(legends), where


def test_figures_are_asked_now_and_say_so_when_there_is_nothing(root: Path) -> None:
    """A range query with "last" shows the last value before traffic stopped, for as long as the range is."""
    for where, panel in panels(root):
        if panel["type"] in ("stat", "table"):
            assert all(target["instant"] and not target["range"] for target in panel["targets"]), where
            assert panel["fieldConfig"]["defaults"]["noValue"], where
        else:
            assert all(target["range"] and not target.get("instant") for target in panel["targets"]), where


def test_rates_follow_the_zoom_or_are_at_least_four_scrapes(root: Path) -> None:
    for where, expression in queries(root):
        for text in re.findall(r"\[([^\]]+)\]", re.sub(r'"[^"]*"', '""', expression)):
            assert text == "$__rate_interval" or parse_duration(text) >= SHORTEST_WINDOW_SECONDS, where
        assert "$__interval" not in expression, where


def test_heatmaps_keep_le_and_are_asked_as_such(root: Path) -> None:
    heatmaps = [(where, panel) for where, panel in panels(root) if panel["type"] == "heatmap"]
    assert heatmaps
    for where, panel in heatmaps:
        [target] = panel["targets"]
        assert re.match(r"sum by \(le\) \(rate\(\w+_bucket\{", target["expr"]), where
        assert (target["format"], target["legendFormat"]) == ("heatmap", "{{le}}"), where


def test_quantiles_keep_le(root: Path) -> None:
    for where, expression in [*queries(root), *rule_expressions(root)]:
        for labels in re.findall(r"histogram_quantile\([\d.]+, sum by \(([^)]*)\)", expression):
            assert "le" in labels.split(", "), where
        assert expression.count("histogram_quantile(") == len(
            re.findall(r"histogram_quantile\([\d.]+, sum by \(", expression)
        ), where


def test_panels_do_not_overlap(root: Path) -> None:
    for name, dashboard in dashboards(root).items():
        taken: set[tuple[int, int]] = set()
        for panel in dashboard["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert not cells & taken, f"{name}: {panel['title']}"
            assert all(x < 24 for x, _ in cells), f"{name}: {panel['title']}"
            taken |= cells
        assert [panel["id"] for panel in dashboard["panels"]] == list(range(1, len(dashboard["panels"]) + 1))


def test_the_main_dashboard_shows_what_it_promises(root: Path) -> None:
    dashboard = dashboards(root)["latency-vs-throughput.json"]
    by_title = {(panel["type"], panel["title"]): panel for panel in dashboard["panels"]}
    stats = [panel["title"] for panel in dashboard["panels"] if panel["type"] == "stat"]
    assert stats == ["p50", "p95", "p99", "Throughput", "Not good", "Error budget left, 30 d"]

    def legends(kind: str, title: str) -> list[str]:
        return [target["legendFormat"] for target in by_title[kind, title]["targets"]]

    assert legends("timeseries", "Latency") == ["p99", "p95", "mean", "SLO 50 ms", "p99 is beyond 10 s"]
    assert legends("timeseries", "Throughput")[:3] == ["offered", "served", "shed"]
    assert legends("xychart", "p99 against throughput") == ["requests/s served", "p99", "SLO 50 ms"]
    assert legends("timeseries", "p99: client against server")[0] == "client, from schedule"
    assert ("heatmap", "Latency distribution") in by_title

    def limit(title: str) -> tuple[str, float]:
        last = by_title["stat", title]["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]
        return last["color"], last["value"]

    assert [limit(title) for title in ("p50", "p95", "p99")] == [(RED, 0.05)] * 3
    assert limit("Not good") == (RED, 0.01)
    # Green from a quarter of the budget on, red below nothing.
    budget = by_title["stat", "Error budget left, 30 d"]["fieldConfig"]["defaults"]
    assert budget["thresholds"]["steps"][0]["color"] == RED


def test_the_other_dashboards_show_what_they_promise(root: Path) -> None:
    def titles(uid: str) -> list[tuple[str, str]]:
        return [(panel["type"], panel["title"]) for panel in dashboards(root)[f"{uid}.json"]["panels"]]

    assert titles("batcher") == [
        ("stat", "Largest batch"),
        ("stat", "Longest hold"),
        ("stat", "Rows a batch"),
        ("stat", "Queue"),
        ("stat", "Model busy"),
        ("stat", "Worker restarts"),
        ("timeseries", "Where the time goes"),
        ("timeseries", "Queue wait"),
        ("timeseries", "Queue depth"),
        ("timeseries", "Rows a batch"),
        ("timeseries", "Why batches are flushed"),
        ("timeseries", "Refused and lost"),
        ("timeseries", "Cost of a run"),
        ("heatmap", "Rows a batch, distribution"),
    ]
    assert titles("slo") == [
        ("stat", "Objective"),
        ("stat", "Threshold"),
        ("stat", "Burn rate, 30s"),
        ("stat", "Burn rate, 2m"),
        ("stat", "Error budget left, 30 d"),
        ("stat", "Alerts firing"),
        ("timeseries", "Requests that are not good"),
        ("timeseries", "Error budget left"),
        ("timeseries", "What became of requests"),
        ("timeseries", "Traffic in the alert's window"),
        ("table", "Alerts now"),
        ("timeseries", "Alerts"),
    ]
    assert titles("stack-health") == [
        ("stat", "Targets down"),
        ("stat", "Generator lateness, p99"),
        ("stat", "Dropped arrivals"),
        ("stat", "Watchdog"),
        ("stat", "Rule failures"),
        ("stat", "Alerts not delivered"),
        ("timeseries", "Targets"),
        ("timeseries", "Scrape duration"),
        ("timeseries", "In flight"),
        ("timeseries", "Oldest request in flight"),
        ("timeseries", "Load generator"),
        ("timeseries", "Generator lateness"),
        ("timeseries", "Alerts in the inbox"),
        ("timeseries", "Notifications"),
        ("timeseries", "CPU"),
        ("timeseries", "Memory"),
        ("timeseries", "Rule evaluation"),
        ("table", "What runs"),
    ]


def test_every_dashboard_marks_the_alerts_that_page_or_ask_for_work(root: Path) -> None:
    for name, dashboard in dashboards(root).items():
        alerts, tuned = dashboard["annotations"]["list"]
        assert alerts["expr"] == 'ALERTS{alertstate="firing",severity=~"page|ticket"}', name
        assert (alerts["enable"], alerts["titleFormat"]) == (True, "{{alertname}}"), name
        assert alerts["target"]["expr"] == alerts["expr"], name
        assert (tuned["enable"], tuned["titleFormat"]) == (True, "tuned knobs"), name
        assert tuned["expr"] == (
            "(inference_tuned_requests_per_second > 0) unless (inference_tuned_requests_per_second offset 30s > 0)"
        ), name


def test_every_dashboard_refreshes_and_cannot_be_edited_in_grafana(root: Path) -> None:
    for name, dashboard in dashboards(root).items():
        assert (dashboard["refresh"], dashboard["editable"]) == ("5s", False), name
        assert dashboard["time"] == {"from": "now-1h" if name == "slo.json" else "now-15m", "to": "now"}, name
        assert dashboard["timezone"] == "browser", name
        assert dashboard["description"], name


def test_a_quantile_at_the_last_edge_is_flagged_and_never_a_flat_line(root: Path) -> None:
    """Case M5: the truth lies anywhere beyond the last bucket, and no line may pretend to know it."""
    last = duration_edges()[-1]
    durations = (names.REQUEST_DURATION, names.LOADGEN_REQUEST_DURATION, names.LOADGEN_SERVICE_DURATION)
    for where, panel in panels(root):
        flags = []
        for target in panel["targets"]:
            if not re.match(rf"histogram_quantile\(.*\b({'|'.join(durations)})_bucket", target["expr"]):
                continue
            if panel["type"] == "stat":
                [mapping] = panel["fieldConfig"]["defaults"]["mappings"]
                assert mapping["type"] == "range", where
                assert (mapping["options"]["from"], mapping["options"]["to"]) == (last, None), where
                assert mapping["options"]["result"] == {"color": RED, "text": f"> {last:g} s"}, where
            elif f") >= {last:g} and" in target["expr"]:
                flags.append(target["legendFormat"])
            else:
                assert f") < {last:g} and" in target["expr"], f"{where}: {target['legendFormat']}"
        if panel["type"] == "timeseries" and panel["title"] in ("Latency", "p99: client against server"):
            assert [flag.endswith(f"is beyond {last:g} s") for flag in flags] == [True], where


def test_nothing_is_said_of_a_service_without_traffic(root: Path) -> None:
    """Case M1: a figure about requests is empty rather than 0, NaN or the last one that was; its tile says why."""
    for where, panel in panels(root):
        for target in panel["targets"]:
            expression = target["expr"]
            if panel["type"] == "stat" and names.REQUEST_DURATION in expression:
                assert " > 0" in expression, where
                assert panel["fieldConfig"]["defaults"]["noValue"] == "no traffic", where
            # A plain quotient of two rates is NaN where both are 0.
            assert not re.search(r"\)\) / sum\(", expression), f"{where}: {expression}"


@pytest.mark.filterwarnings("ignore:Prefer using dashboardv2")  # files for Grafana are still of this kind
def test_every_dashboard_is_one_that_grafana_s_own_types_can_hold(root: Path) -> None:
    """Read into the SDK's classes and written again, nothing is lost and nothing has another type."""
    for name, dashboard in dashboards(root).items():
        again = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(copy.deepcopy(dashboard))))
        for item in (*again["links"], *again["annotations"]["list"]):
            item.pop("placement")  # the SDK's own default, which we leave out
        assert again == dashboard, name


def test_tables_show_only_what_they_name(root: Path) -> None:
    tables = [(where, panel) for where, panel in panels(root) if panel["type"] == "table"]
    assert tables
    for where, panel in tables:
        [target] = panel["targets"]
        assert (target["format"], target["instant"]) == ("table", True), where
        [organise] = panel["transformations"]
        by = re.match(r"max by \(([^)]*)\) \(", target["expr"])
        assert by, where
        shown = {*by[1].split(", "), "Value", "Time"} - {
            name for name, hidden in organise["options"]["excludeByName"].items() if hidden
        }
        assert shown == set(organise["options"]["renameByName"]) == set(organise["options"]["indexByName"]), where


def test_the_xy_chart_finds_its_fields(root: Path) -> None:
    for where, panel in panels(root):
        if panel["type"] != "xychart":
            continue
        legends = {target["legendFormat"] for target in panel["targets"]}
        [join] = panel["transformations"]
        assert join == {"id": "joinByField", "options": {"byField": "Time", "mode": "outer"}}
        for series in panel["options"]["series"]:
            for axis in ("x", "y"):
                assert series[axis]["matcher"]["id"] == "byName", where
                assert series[axis]["matcher"]["options"] in legends, where


# Keys of Grafana's provisioning files, from its documentation ("Provision Grafana", "Configure the Prometheus data
# source"): it ignores a key that it does not know, so a misspelt one would go unnoticed.
DATASOURCE_KEYS = {
    *("name", "type", "access", "orgId", "uid", "url", "user", "database", "basicAuth", "basicAuthUser"),
    *("withCredentials", "isDefault", "jsonData", "secureJsonData", "version", "editable"),
}
PROMETHEUS_JSON_KEYS = {
    *("httpMethod", "timeInterval", "queryTimeout", "manageAlerts", "prometheusType", "prometheusVersion"),
    *("cacheLevel", "disableRecordingRules", "incrementalQuerying", "exemplarTraceIdDestinations"),
}
PROVIDER_KEYS = {
    *("name", "orgId", "folder", "folderUid", "type", "disableDeletion", "updateIntervalSeconds"),
    *("allowUiUpdates", "options"),
}


def test_the_datasource_is_provisioned_as_grafana_documents_it(root: Path) -> None:
    [path] = (root / "grafana/provisioning/datasources").glob("*.yml")
    content = yaml.safe_load(path.read_text())
    assert content.keys() == {"apiVersion", "datasources"}
    assert content["apiVersion"] == 1
    [source] = content["datasources"]
    assert source.keys() <= DATASOURCE_KEYS
    assert source["jsonData"].keys() <= PROMETHEUS_JSON_KEYS
    assert (source["type"], source["access"], source["isDefault"]) == ("prometheus", "proxy", True)
    assert source["editable"] is False
    assert source["url"] == "${PROMETHEUS_URL}"  # replaced from the environment, as in every value of these files
    assert source["jsonData"]["httpMethod"] in ("GET", "POST")
    scrape = yaml.safe_load((root / "prometheus/prometheus.yml").read_text())["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scrape == f"{SCRAPE_SECONDS}s"


def test_the_dashboards_are_provisioned_as_grafana_documents_it(root: Path) -> None:
    [path] = (root / "grafana/provisioning/dashboards").glob("*.yml")
    content = yaml.safe_load(path.read_text())
    assert content.keys() == {"apiVersion", "providers"}
    assert content["apiVersion"] == 1
    [provider] = content["providers"]
    assert provider.keys() <= PROVIDER_KEYS
    assert (provider["type"], provider["options"]) == ("file", {"path": "${DASHBOARDS_DIR}"})
    assert provider["updateIntervalSeconds"] == 30
    assert provider["allowUiUpdates"] is False


def test_both_ways_to_run_grafana_give_what_the_provisioning_asks_for(root: Path, tmp_path: Path) -> None:
    asked = set()
    for path in (root / "grafana/provisioning").rglob("*.yml"):
        asked |= set(re.findall(r"\$\{(\w+)\}", path.read_text()))
    assert asked == {"PROMETHEUS_URL", "DASHBOARDS_DIR"}
    compose = yaml.safe_load((root / "docker-compose.yml").read_text())["services"]["grafana"]["environment"]
    native = environment(StackSettings(state_dir=tmp_path))
    assert asked <= compose.keys()
    assert asked <= native.keys()
