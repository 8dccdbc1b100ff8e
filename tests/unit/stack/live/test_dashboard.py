"""A dashboard file becomes sections of panels; whatever is odd in it is left alone or refused in one sentence."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stack.live.dashboard import DashboardError, Grid, parse_dashboard

LITERAL = """
{
  "uid": "tail", "title": "Tail", "description": "how it is", "schemaVersion": 42,
  "time": {"from": "now-30m", "to": "now"},
  "templating": {"list": [
    {"type": "datasource", "name": "datasource", "query": "prometheus"},
    {"type": "query", "name": "model", "label": "Model", "query": {"query": "label_values(up, model)", "refId": "x"},
     "multi": true, "includeAll": true, "current": {"text": ["All"], "value": ["$__all"]}, "sort": 1},
    {"type": "custom", "name": "q", "query": "0.5, 0.99", "hide": 2, "current": {"value": "0.99"}}
  ]},
  "annotations": {"list": [
    {"builtIn": 1, "name": "Annotations & Alerts", "enable": true},
    {"name": "Alerts", "enable": true, "expr": "ALERTS", "titleFormat": "{{alertname}}", "iconColor": "#e03131"},
    {"name": "off", "enable": false, "expr": "ALERTS"}
  ]},
  "panels": [
    {"id": 2, "type": "timeseries", "title": "Latency", "description": "the tail",
     "gridPos": {"x": 0, "y": 4, "w": 12, "h": 9},
     "fieldConfig": {"defaults": {"unit": "s"}, "overrides": []},
     "targets": [
       {"refId": "A", "expr": "p99", "legendFormat": "p99", "range": true},
       {"refId": "B", "expr": "up", "instant": true, "format": "table", "hide": true}
     ]},
    {"id": 1, "type": "stat", "title": "p99", "gridPos": {"x": 0, "y": 0, "w": 4, "h": 4}, "targets": [{"expr": "x"}]},
    {"id": 7, "type": "row", "title": "Open", "collapsed": false, "gridPos": {"x": 0, "y": 20, "w": 24, "h": 1},
     "panels": []},
    {"id": 8, "type": "table", "title": "below", "gridPos": {"x": 12, "y": 21, "w": 12, "h": 5}},
    {"id": 9, "type": "row", "title": "Closed", "collapsed": true, "gridPos": {"x": 0, "y": 30, "w": 24, "h": 1},
     "panels": [{"id": 10, "type": "heatmap", "title": "inside", "gridPos": {"x": 0, "y": 31, "w": 24, "h": 8}}]}
  ]
}
"""


def test_a_literal_dashboard() -> None:
    dashboard = parse_dashboard(LITERAL)

    assert (dashboard.uid, dashboard.title, dashboard.time_from, dashboard.time_to) == (
        "tail",
        "Tail",
        "now-30m",
        "now",
    )
    assert [(s.title, s.collapsed, [p.id for p in s.panels]) for s in dashboard.sections] == [
        ("", False, [1, 2]),  # by place on the grid, not by order in the file
        ("Open", False, [8]),
        ("Closed", True, [10]),
    ]
    latency = dashboard.sections[0].panels[1]
    assert latency.grid == Grid(x=0, y=4, w=12, h=9)
    assert latency.description == "the tail"
    assert [(t.ref_id, t.expr, t.legend, t.instant, t.format, t.hidden) for t in latency.targets] == [
        ("A", "p99", "p99", False, "time_series", False),
        ("B", "up", "", True, "table", True),
    ]
    assert [(v.name, v.type, v.query, v.multi, v.hidden, v.current) for v in dashboard.variables] == [
        ("datasource", "datasource", "prometheus", False, False, ()),
        ("model", "query", "label_values(up, model)", True, False, ("$__all",)),
        ("q", "custom", "0.5, 0.99", False, True, ("0.99",)),
    ]
    assert [(a.name, a.expr, a.title, a.colour) for a in dashboard.annotations] == [
        ("Alerts", "ALERTS", "{{alertname}}", "#e03131")
    ]


def test_the_version_follows_the_text() -> None:
    assert parse_dashboard(LITERAL).version == parse_dashboard(LITERAL).version
    assert parse_dashboard(LITERAL).version != parse_dashboard(LITERAL.replace("now-30m", "now-1h")).version


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON: Expecting property name enclosed in double quotes at line 1, column 2"),
        ("[]", "the JSON is a list; expected a dashboard object"),
        ('{"panels": []}', "the dashboard has no uid; expected a text such as latency-vs-throughput"),
        ('{"uid": "a"}', "the dashboard has no list of panels"),
    ],
)
def test_what_is_no_dashboard(text: str, message: str) -> None:
    with pytest.raises(DashboardError) as refusal:
        parse_dashboard(text)
    assert str(refusal.value) == message


def test_panels_without_an_id_or_with_one_twice_get_their_own() -> None:
    panels = [{"type": "stat"}, {"id": 3, "type": "stat"}, {"id": 3, "type": "stat"}]
    dashboard = parse_dashboard(json.dumps({"uid": "a", "panels": panels}))
    ids = [panel.id for panel in dashboard.panels()]
    assert len(set(ids)) == 3
    assert 3 in ids


@pytest.mark.parametrize(
    ("place", "grid"),
    [
        ({"x": 20, "y": 1, "w": 12, "h": 2}, Grid(12, 0, 12, 2)),  # never over the right edge
        ({"x": -4, "y": -1, "w": 0, "h": 0}, Grid(0, 0, 1, 1)),
        ({"x": "a"}, Grid(0, 0, 12, 8)),
        (None, Grid(0, 0, 12, 8)),
    ],
)
def test_places_stay_on_the_grid(place: Any, grid: Grid) -> None:
    dashboard = parse_dashboard(json.dumps({"uid": "a", "panels": [{"type": "stat", "gridPos": place}]}))
    assert next(dashboard.panels()).grid == grid


def test_gaps_close_as_in_grafana() -> None:
    places = [(0, 0, 12, 4), (12, 0, 12, 9), (0, 20, 6, 3), (6, 30, 18, 2), (0, 900, 24, 1)]
    panels = [{"type": "stat", "gridPos": dict(zip("xywh", place, strict=True))} for place in places]
    dashboard = parse_dashboard(json.dumps({"uid": "a", "panels": panels}))
    assert [panel.grid.y for panel in dashboard.panels()] == [0, 0, 4, 9, 11]


KEYS = st.sampled_from(["uid", "panels", "targets", "gridPos", "x", "w", "id", "type", "fieldConfig", "list", "expr"])
KEYS |= st.sampled_from(
    ["templating", "annotations", "options", "query", "current", "value", "name", "hide", "defaults"]
)
LEAVES = st.none() | st.booleans() | st.integers(-5, 99) | st.sampled_from(["", "row", "a", "timeseries"])
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))


@given(TREES, TREES, TREES)
def test_any_json_is_a_dashboard_or_refused(panels: Any, templating: Any, annotations: Any) -> None:
    document = {"uid": "a", "panels": [panels], "templating": templating, "annotations": annotations}
    parse_dashboard(json.dumps(document))
