"""Lint of the shipped dashboards: what would make a panel lie, stay empty, or break in another Grafana."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo import names
from slo.config import SCRAPE_SECONDS, SHORTEST_WINDOW_SECONDS
from slo.durations import parse_duration

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
PANELS = {"stat", "timeseries", "xychart", "heatmap"}  # what the live page draws as well
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
        if panel["type"] == "stat":
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
    assert stats == ["p50", "p95", "p99", "Throughput", "Not good", "Error budget left"]

    def legends(kind: str, title: str) -> list[str]:
        return [target["legendFormat"] for target in by_title[kind, title]["targets"]]

    assert legends("timeseries", "Latency") == ["p99", "p95", "mean", "SLO 50 ms"]
    assert legends("timeseries", "Throughput")[:3] == ["offered", "served", "shed"]
    assert legends("xychart", "p99 against throughput") == ["requests/s served", "p99", "SLO 50 ms"]
    assert legends("timeseries", "p99: client against server")[0] == "client, from schedule"
    assert ("heatmap", "Latency distribution") in by_title
    threshold = by_title["stat", "p99"]["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]
    assert threshold["value"] == 0.05
    assert dashboard["annotations"]["list"][0]["expr"].startswith('ALERTS{alertstate="firing"')


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


@pytest.mark.parametrize("where", ["datasources", "dashboards"])
def test_provisioning(root: Path, where: str) -> None:
    [path] = (root / "grafana/provisioning" / where).glob("*.yml")
    content = yaml.safe_load(path.read_text())
    assert content["apiVersion"] == 1
    if where == "datasources":
        [source] = content["datasources"]
        assert source["type"] == "prometheus"
        assert source["isDefault"]
        assert source["jsonData"]["timeInterval"] == f"{SCRAPE_SECONDS}s"
    else:
        [provider] = content["providers"]
        assert provider["updateIntervalSeconds"] == 30
        assert provider["allowUiUpdates"] is False
