"""Answers of Prometheus become figures, tiles and tables: whole expectations on small literal panels."""

import math
from typing import Any

import pytest

from stack.live.dashboard import Panel, parse_dashboard
from stack.live.intervals import Window
from stack.live.panels import Answer, Mark, draw
from stack.live.panels.heatmap import bucket_counts
from stack.live.series import Series

WINDOW = Window(1000.0, 1020.0)
NAN = math.nan


def panel(kind: str, targets: str, fields: str = "{}", options: str = "{}", transformations: str = "[]") -> Panel:
    """A panel out of literal JSON, by the way that a file takes."""
    dashboard = parse_dashboard(
        f'{{"uid": "a", "panels": [{{"id": 1, "type": "{kind}", "title": "t", "targets": {targets}, '
        f'"fieldConfig": {fields}, "options": {options}, "transformations": {transformations}}}]}}'
    )
    return next(dashboard.panels())


def answers(given: Panel, *values: list[Series]) -> list[Answer]:
    return [Answer(target, tuple(series), WINDOW, 5.0) for target, series in zip(given.targets, values, strict=True)]


def series(*values: float, **labels: str) -> Series:
    return Series(labels, tuple(1000.0 + 5 * index for index in range(len(values))), values)


def payload(given: Panel, *values: list[Series], marks: list[Mark] | None = None) -> dict[str, Any]:
    return draw(given, answers(given, *values), WINDOW, marks or []).payload()


# --- time series ------------------------------------------------------------------------------------------------

LATENCY = panel(
    "timeseries",
    '[{"refId": "A", "expr": "p99", "legendFormat": "p99"}, {"refId": "B", "expr": "slo", "legendFormat": "SLO"}]',
    """{"defaults": {"unit": "s", "custom": {"lineWidth": 2}},
        "overrides": [{"matcher": {"id": "byName", "options": "SLO"}, "properties": [
          {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [8, 6]}},
          {"id": "color", "value": {"mode": "fixed", "fixedColor": "red"}}]}]}""",
)


def test_lines_in_milliseconds_with_their_names_colours_and_gaps() -> None:
    drawn = payload(LATENCY, [series(0.031, NAN, 0.042, 0.061, 0.058)], [series(*[0.05] * 5)])
    p99, slo = drawn["figure"]["data"]
    assert p99["x"] == [1_000_000, 1_005_000, 1_010_000, 1_015_000, 1_020_000]
    assert p99["y"] == [31.0, None, 42.0, 61.0, 58.0]
    assert (p99["name"], p99["line"]["color"], p99["line"]["dash"], p99["connectgaps"]) == (
        "p99",
        "@series-0",
        "solid",
        False,
    )
    assert (slo["line"]["color"], slo["line"]["dash"]) == ("@red", "dash")
    layout = drawn["figure"]["layout"]
    assert layout["xaxis"]["range"] == [1_000_000, 1_020_000]
    assert layout["yaxis"]["ticksuffix"] == " ms"
    assert layout["yaxis"]["range"] == [0.0, 80.0]
    assert [note["text"] for note in layout["annotations"]] == ["SLO 50 ms"]  # the dashed constant names itself
    assert drawn["legend"]["entries"] == [
        {"name": "p99", "colour": "@series-0", "dash": "solid", "values": ["58 ms"]},
        {"name": "SLO", "colour": "@red", "dash": "dash", "values": ["50 ms"]},
    ]
    assert "overlay" not in drawn


def test_no_traffic_and_no_data_are_told_apart() -> None:
    assert payload(LATENCY, [series(NAN, NAN)], []) == {
        "kind": "message", "state": "no_traffic", "message": "No traffic in this time range",
    }  # fmt: skip
    assert payload(LATENCY, [], []) == {
        "kind": "message", "state": "no_data", "message": "No data in this time range",
    }  # fmt: skip


def test_an_objective_alone_does_not_hide_that_there_is_no_traffic() -> None:
    slo = [series(0.05, 0.05)]
    assert payload(LATENCY, [series(NAN, NAN)], slo)["overlay"] == "No traffic in this time range"
    assert payload(LATENCY, [], slo)["overlay"] == "No data in this time range"


def test_thresholds_are_drawn_and_labelled() -> None:
    given = panel(
        "timeseries",
        '[{"expr": "p99", "legendFormat": "p99"}]',
        """{"defaults": {"unit": "s", "custom": {"thresholdsStyle": {"mode": "dashed+area"}},
            "thresholds": {"steps": [{"color": "green", "value": null}, {"color": "red", "value": 0.05}]}}}""",
    )
    layout = payload(given, [series(0.02, 0.03)])["figure"]["layout"]
    line, area = layout["shapes"]
    assert (line["type"], line["y0"], line["y1"], line["line"]["color"]) == ("line", 50.0, 50.0, "@red")
    assert (area["type"], area["y0"], area["y1"]) == ("rect", 50.0, layout["yaxis"]["range"][1])
    assert [(note["text"], note["y"]) for note in layout["annotations"]] == [("limit 50 ms", 50.0)]
    # Far below the limit the data keeps its room, and the limit is named at the edge.
    far = payload(given, [series(0.001, 0.002)])["figure"]["layout"]
    assert far["yaxis"]["range"][1] < 50
    assert [(note["text"], note["yref"]) for note in far["annotations"]] == [("↑ limit 50 ms", "paper")]
    assert far["shapes"] == []


def test_a_logarithmic_axis() -> None:
    given = panel(
        "timeseries",
        '[{"expr": "p99", "legendFormat": "p99"}, {"expr": "s", "legendFormat": "SLO 50 ms"}]',
        """{"defaults": {"unit": "s", "custom": {"scaleDistribution": {"type": "log", "log": 10}}},
            "overrides": [{"matcher": {"id": "byName", "options": "SLO 50 ms"},
                           "properties": [{"id": "custom.lineStyle", "value": {"fill": "dash"}}]}]}""",
    )
    drawn = payload(given, [series(0.004, 1.5)], [series(0.05, 0.05)])
    axis = drawn["figure"]["layout"]["yaxis"]
    assert axis["type"] == "log"
    assert axis["ticktext"] == ["5 ms", "10 ms", "20 ms", "50 ms", "100 ms", "200 ms", "500 ms", "1 s"]
    assert axis["tickvals"] == [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
    assert axis["range"][0] < math.log10(4) < math.log10(1500) < axis["range"][1]
    (label,) = drawn["figure"]["layout"]["annotations"]
    assert (label["text"], label["y"]) == ("SLO 50 ms", pytest.approx(math.log10(50)))
    assert drawn["legend"]["entries"][1]["values"] == []  # its name says it


def test_another_unit_has_its_own_axis() -> None:
    given = panel(
        "timeseries",
        '[{"expr": "p99", "legendFormat": "p99"}, {"expr": "rps", "legendFormat": "served"}]',
        """{"defaults": {"unit": "s"}, "overrides": [
            {"matcher": {"id": "byName", "options": "served"}, "properties": [{"id": "unit", "value": "reqps"}]}]}""",
    )
    drawn = payload(given, [series(0.02, 0.03)], [series(900.0, 950.0)])
    assert [trace["yaxis"] for trace in drawn["figure"]["data"]] == ["y", "y2"]
    assert drawn["figure"]["layout"]["yaxis2"]["ticksuffix"] == " req/s"
    assert drawn["figure"]["layout"]["yaxis2"]["range"] == [0.0, 1000.0]


def test_alert_marks_cross_the_figure_and_end_at_its_edges() -> None:
    marks = [
        Mark(100, 200, "old", "", "red", False),  # over before the figure begins
        Mark(900, 1010, "LatencySLOBreach", "page <b>", "#e03131", False),
        Mark(1005, 1015, "LoadShed", "ticket", "#e03131", False),
    ]
    layout = payload(LATENCY, [series(0.03, 0.04)], [], marks=marks)["figure"]["layout"]
    shapes = [shape for shape in layout["shapes"] if shape["name"] == "mark"]
    # One tint for both, so that two alerts at once do not hide the lines; a line where each begins.
    assert [(s["type"], s["x0"], s["x1"]) for s in shapes] == [
        ("rect", 1_000_000, 1_015_000), ("line", 1_000_000, 1_000_000), ("line", 1_005_000, 1_005_000),
    ]  # fmt: skip
    assert shapes[0]["fillcolor"] == "#e03131/0.1"
    flags = [note for note in layout["annotations"] if note.get("name") == "mark"]
    assert [(flag["text"], flag["hovertext"], flag["x"]) for flag in flags] == [
        ("LatencySLOBreach", "page &lt;b&gt;", 1_000_000), ("LoadShed", "ticket", 1_005_000),
    ]  # fmt: skip


def test_a_mark_that_was_there_before_has_no_line_where_the_figure_begins() -> None:
    marks = [Mark(1000, 1010, "LoadShed", "", "red", False, earlier=True)]
    layout = payload(LATENCY, [series(0.03, 0.04)], [], marks=marks)["figure"]["layout"]
    assert [shape["type"] for shape in layout["shapes"]] == ["rect"]


def test_zero_is_a_gap_on_a_logarithmic_axis() -> None:
    fields = '{"defaults": {"unit": "s", "custom": {"scaleDistribution": {"type": "log"}}}}'
    given = panel("timeseries", '[{"expr": "x", "legendFormat": "x"}]', fields)
    assert payload(given, [series(0.01, 0.0, 0.02)])["figure"]["data"][0]["y"] == [10.0, None, 20.0, None, None]


def test_ends_that_the_file_fixes_hold_unless_they_hide_everything() -> None:
    given = panel(
        "timeseries", '[{"expr": "x", "legendFormat": "x"}]', '{"defaults": {"unit": "percent", "min": 0, "max": 100}}'
    )
    ends = [
        payload(given, [series(*values)])["figure"]["layout"]["yaxis"]["range"] for values in ((50.0, 140.0), (-90.0,))
    ]
    assert ends == [[0.0, 100.0], [-100.0, 0.0]]


def test_zeros_lie_on_the_floor() -> None:
    given = panel("timeseries", '[{"expr": "x", "legendFormat": "x"}]', '{"defaults": {"unit": "reqps"}}')
    assert payload(given, [series(0.0, 0.0)])["figure"]["layout"]["yaxis"]["range"] == [0.0, 1.0]


def test_a_lonely_sample_is_seen() -> None:
    assert payload(LATENCY, [series(NAN, 0.03, NAN)], [])["figure"]["data"][0]["mode"] == "lines+markers"
    assert payload(LATENCY, [series(0.02, 0.03, NAN)], [])["figure"]["data"][0]["mode"] == "lines"


# --- stats ------------------------------------------------------------------------------------------------------

THRESHOLDS = """{"steps": [{"color": "#2f9e44", "value": null}, {"color": "#e03131", "value": 0.05}]}"""
STAT = f"""{{"defaults": {{"unit": "s", "noValue": "no traffic", "thresholds": {THRESHOLDS}}}}}"""


@pytest.mark.parametrize(
    ("value", "text", "suffix", "colour", "note"),
    [
        (0.0312, "31.2", " ms", "#2f9e44", ""),
        (0.05, "50", " ms", "#e03131", "over 50 ms"),
        (2.0, "2", " s", "#e03131", "over 50 ms"),
    ],
)
def test_a_stat_says_by_more_than_colour_that_a_limit_is_passed(
    value: float, text: str, suffix: str, colour: str, note: str
) -> None:
    given = panel("stat", '[{"expr": "p99", "instant": true}]', STAT, '{"colorMode": "background"}')
    answer = Answer(given.targets[0], (Series({}, (1020.0,), (value,)),), Window(1020, 1020), 5.0)
    (stat,) = draw(given, [answer], WINDOW, []).payload()["stats"]
    assert (stat["text"], stat["suffix"], stat["colour"], stat["fill"], stat["note"]) == (
        text,
        suffix,
        colour,
        colour,
        note,
    )


def test_a_budget_is_bad_when_it_is_low() -> None:
    steps = '[{"color": "red", "value": null}, {"color": "orange", "value": 0}, {"color": "green", "value": 0.25}]'
    fields = f'{{"defaults": {{"unit": "percentunit", "thresholds": {{"steps": {steps}}}}}}}'
    given = panel("stat", '[{"expr": "left"}]', fields)
    notes = [payload(given, [series(*[value] * 5)])["stats"][0]["note"] for value in (0.6, 0.1, -0.5)]
    assert notes == ["", "under 25%", "under 0%"]


def test_a_stat_without_a_number() -> None:
    given = panel("stat", '[{"expr": "p99"}]', STAT)
    nothing = payload(given, [])
    assert (nothing["state"], nothing["stats"][0]["text"]) == ("no_data", "no traffic")
    idle = payload(given, [series(NAN, NAN)])
    assert (idle["state"], idle["stats"][0]["text"]) == ("no_traffic", "no traffic")
    plain = panel("stat", '[{"expr": "p99"}]')  # no words in the file: the reason itself
    assert payload(plain, [series(NAN)])["stats"][0]["text"] == "No traffic in this time range"
    assert payload(plain, [])["stats"][0]["text"] == "No data in this time range"


def test_an_old_value_says_its_age() -> None:
    window = Window(1000, 1100)
    given = panel("stat", '[{"expr": "p99"}]', STAT)
    answer = Answer(given.targets[0], (series(0.03, 0.03),), window, 5.0)
    assert draw(given, [answer], window, []).payload()["stats"][0]["note"] == "1.58 min ago"


def test_a_sparkline_where_the_panel_asks_for_one() -> None:
    given = panel("stat", '[{"expr": "p99"}]', STAT, '{"graphMode": "area"}')
    figure = payload(given, [series(0.01, 0.02, 0.03, 0.03, 0.03)])["stats"][0]["figure"]
    assert figure["data"][0]["y"] == [0.01, 0.02, 0.03, 0.03, 0.03]
    assert "figure" not in payload(panel("stat", '[{"expr": "p99"}]', STAT), [series(0.01)])["stats"][0]


def test_several_series_are_several_named_tiles() -> None:
    given = panel("stat", '[{"expr": "up", "legendFormat": "{{job}}"}]')
    stats = payload(given, [series(1.0, job="inference"), series(0.0, job="loadgen")])["stats"]
    assert [(stat["name"], stat["text"]) for stat in stats] == [("inference", "1"), ("loadgen", "0")]


# --- heatmaps ---------------------------------------------------------------------------------------------------

HEATMAP = panel(
    "heatmap",
    '[{"expr": "b", "format": "heatmap", "legendFormat": "{{le}}"}]',
    "{}",
    '{"yAxis": {"unit": "s"}, "cellValues": {"unit": "reqps"}}',
)


def test_cumulative_buckets_are_taken_apart() -> None:
    assert bucket_counts([0.1, 0.2, math.inf], [[1.0, None], [4.0, 2.0], [3.9, 5.0]]) == [
        [1.0, None],
        [3.0, 2.0],
        [0.0, 3.0],  # a rounding error is no negative count
    ]


def test_a_heatmap_of_buckets() -> None:
    buckets = [
        series(10.0, 10.0, le="0.02"), series(0.0, 0.0, le="0.01"), series(0.0, 0.0, le="0.005"),
        series(10.0, 14.0, le="0.04"), series(10.0, 14.0, le="0.08"), series(10.0, 14.0, le="+Inf"),
    ]  # fmt: skip
    drawn = payload(HEATMAP, buckets)
    (trace,) = drawn["figure"]["data"]
    # One empty row on each side of the two that are used; edges, so one more than rows.
    assert trace["y"] == [0.005, 0.01, 0.02, 0.04, 0.08]
    assert [row[:2] for row in trace["z"]] == [[None, None], [3.162, 3.162], [None, 2.0], [None, None]]
    assert trace["x"][:2] == [995_000, 1_000_000]
    assert len(trace["x"]) == len(trace["z"][0]) + 1
    assert trace["text"][1][0] == "10 ms – 20 ms<br><b>10 req/s</b>"
    assert drawn["figure"]["layout"]["yaxis"]["type"] == "log"


def test_the_last_bucket_is_said_to_be_open() -> None:
    drawn = payload(HEATMAP, [series(0.0, le="5"), series(0.0, le="10"), series(3.0, le="+Inf")])
    assert drawn["figure"]["data"][0]["text"][-1][0] == "over 10 s<br><b>3 req/s</b>"


def test_a_heatmap_without_le_says_what_it_needs() -> None:
    drawn = payload(HEATMAP, [series(1.0, job="x")])
    assert (drawn["state"], drawn["message"][:43]) == ("error", "A heatmap needs series with the label le: s")


def test_an_idle_histogram_is_no_traffic() -> None:
    assert payload(HEATMAP, [series(0.0, le="1"), series(0.0, le="+Inf")])["state"] == "no_traffic"


# --- XY ---------------------------------------------------------------------------------------------------------

XY = panel(
    "xychart",
    """[{"refId": "A", "expr": "rps", "legendFormat": "served"}, {"refId": "B", "expr": "p99", "legendFormat": "p99"},
        {"refId": "C", "expr": "vector(0.05)", "legendFormat": "SLO 50 ms"}]""",
    """{"defaults": {"unit": "s"}, "overrides": [{"matcher": {"id": "byName", "options": "served"},
        "properties": [{"id": "unit", "value": "reqps"}, {"id": "custom.axisLabel", "value": "requests/s"}]}]}""",
    """{"mapping": "manual", "series": [
        {"x": {"matcher": {"id": "byName", "options": "served"}},
         "y": {"matcher": {"id": "byName", "options": "p99"}}},
        {"x": {"matcher": {"id": "byName", "options": "served"}},
         "y": {"matcher": {"id": "byName", "options": "SLO 50 ms"}}}]}""",
    '[{"id": "joinByField", "options": {"byField": "Time"}}]',
)


def test_p99_against_throughput() -> None:
    drawn = payload(XY, [series(100.0, 200.0, NAN, 400.0)], [series(0.01, NAN, 0.03, 0.06)], [series(*[0.05] * 4)])
    points, ring = drawn["figure"]["data"]
    assert (points["x"], points["y"]) == ([100.0, 400.0], [10.0, 60.0])  # only where both are known
    assert points["clock"] == [1_000_000, 1_015_000]
    assert points["marker"]["opacity"][0] < points["marker"]["opacity"][1]  # older points fade
    assert (ring["x"], ring["y"]) == ([400.0], [60.0])
    layout = drawn["figure"]["layout"]
    assert (layout["xaxis"]["title"]["text"], layout["xaxis"]["ticksuffix"]) == ("requests/s", " req/s")
    assert (layout["yaxis"]["title"]["text"], layout["yaxis"]["ticksuffix"]) == ("p99", " ms")
    assert [(shape["y0"], shape["x0"], shape["x1"]) for shape in layout["shapes"]] == [(50.0, 0, 1)]
    assert [note["text"] for note in layout["annotations"]] == ["SLO 50 ms"]


def test_a_logarithmic_y_axis_of_an_xy_chart() -> None:
    fields = """{"defaults": {"unit": "s", "custom": {"scaleDistribution": {"type": "log", "log": 10}}}, "overrides": [
        {"matcher": {"id": "byName", "options": "x"}, "properties": [{"id": "unit", "value": "reqps"}]}]}"""
    targets = """[{"expr": "rps", "legendFormat": "x"}, {"expr": "p99", "legendFormat": "y"},
        {"expr": "vector(0.05)", "legendFormat": "SLO"}]"""
    drawn = payload(panel("xychart", targets, fields), [series(5.0, 6.0, 7.0)], [series(0.002, 0.0, 2.0)],
                    [series(0.05, 0.05, 0.05)])  # fmt: skip
    points, _ = drawn["figure"]["data"]
    layout = drawn["figure"]["layout"]
    assert points["x"] == [5.0, 7.0]  # zero has no place on it
    assert layout["yaxis"]["type"] == "log"
    low, high = layout["yaxis"]["range"]
    assert low < math.log10(points["y"][0]) < math.log10(points["y"][1]) < high
    [label], [shape] = layout["annotations"], layout["shapes"]
    assert label["y"] == pytest.approx(math.log10(shape["y0"]))  # where Plotly wants each of them
    assert layout["xaxis"].get("type") != "log"


def test_an_xy_chart_of_which_nothing_came_back() -> None:
    assert payload(XY, [], [], [series(0.05, 0.05)])["message"] == "No data in this time range"


def test_the_first_series_is_x_where_nothing_is_mapped() -> None:
    given = panel("xychart", '[{"expr": "rps", "legendFormat": "x"}, {"expr": "p99", "legendFormat": "y"}]')
    points, _ = payload(given, [series(1.0, 2.0)], [series(3.0, 4.0)])["figure"]["data"]
    assert (points["name"], points["x"], points["y"]) == ("y", [1.0, 2.0], [3.0, 4.0])


def test_an_xy_chart_without_traffic() -> None:
    slo = [series(0.05, 0.05)]  # an objective alone is no cloud of points
    assert payload(XY, [series(0.0, 0.0)], [series(NAN, NAN)], slo)["message"] == "No traffic in this time range"
    assert payload(XY, [series(0.0, 0.0)], [], slo)["message"] == "No data in this time range"


# --- tables and texts -------------------------------------------------------------------------------------------


def test_a_table_of_two_queries_joined_by_labels() -> None:
    given = panel(
        "table",
        '[{"refId": "A", "expr": "a", "instant": true}, {"refId": "B", "expr": "b", "instant": true}]',
        """{"defaults": {}, "overrides": [{"matcher": {"id": "byName", "options": "p99"},
            "properties": [{"id": "unit", "value": "s"}]}]}""",
        '{"sortBy": [{"displayName": "p99", "desc": true}]}',
        """[{"id": "merge"}, {"id": "organize", "options": {"excludeByName": {"job": true},
            "renameByName": {"Value #A": "p99", "Value #B": "up"}}}, {"id": "reduce"}]""",
    )
    drawn = payload(
        given,
        [series(0.02, __name__="x", job="j", route="/a"), series(0.07, job="j", route="/b")],
        [series(1.0, job="j", route="/a")],
    )
    assert drawn["table"] == {
        "columns": [
            {"name": "route", "number": False}, {"name": "p99", "number": True}, {"name": "up", "number": True},
        ],
        "rows": [
            [{"text": "/b"}, {"text": "70 ms"}, {"text": "–"}],
            [{"text": "/a"}, {"text": "20 ms"}, {"text": "1"}],
        ],
    }  # fmt: skip
    assert drawn["note"] == "the transformation 'reduce' is not applied here"


def test_an_empty_table_says_what_the_file_says() -> None:
    given = panel("table", '[{"expr": "ALERTS"}]', '{"defaults": {"noValue": "nothing fires"}}')
    assert payload(given, [])["message"] == "nothing fires"


def test_an_unknown_type_is_a_table_that_says_so() -> None:
    drawn = payload(panel("nodeGraph", '[{"expr": "x"}]'), [series(3.0, a="b")])
    assert (drawn["kind"], drawn["note"]) == ("table", "the panel type 'nodeGraph' is shown as a table here")


def test_a_panel_without_a_query_says_so() -> None:
    assert payload(panel("timeseries", "[]"))["message"] == "This panel has no query"


@pytest.mark.parametrize(
    ("content", "html"),
    [
        ("# Read me", "<h3>Read me</h3>"),
        ("one **two** `a < b`", "<p>one <strong>two</strong> <code>a &lt; b</code></p>"),
        ("- a\\n- b", "<ul><li>a</li><li>b</li></ul>"),
        ("[docs](https://example.org/a?b=c&d)", '<p><a href="https://example.org/a?b=c&amp;d">docs</a></p>'),
        ("[bad](javascript:alert(1))", "<p>[bad](javascript:alert(1))</p>"),
        ("<script>x</script>", "<p>&lt;script&gt;x&lt;/script&gt;</p>"),
        ("snake_case_name", "<p>snake_case_name</p>"),
    ],
)
def test_texts_are_safe_markdown(content: str, html: str) -> None:
    given = panel("text", "[]", "{}", f'{{"mode": "markdown", "content": "{content}"}}')
    assert payload(given) == {"kind": "text", "state": "ok", "html": html}
