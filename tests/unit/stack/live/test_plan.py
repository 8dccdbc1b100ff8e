"""Panels and annotations become questions; samples of an annotation become marks."""

import pytest

from stack.live.dashboard import Annotation, Grid, Panel, Target
from stack.live.intervals import Window
from stack.live.panels.base import Mark
from stack.live.plan import Query, annotation_query, marks_of, panel_queries
from stack.live.series import Series
from stack.live.variables import UnknownVariable

NOW = 1_800_000_003.0
WINDOW = Window(NOW - 900, NOW)


def panel(*targets: Target, width: int = 12, interval: str = "") -> Panel:
    return Panel(1, "timeseries", "", "", Grid(0, 0, width, 8), targets, interval=interval)


def test_a_range_query_on_the_scrapes_grid() -> None:
    target = Target("A", "rate(x[$__rate_interval])")
    assert panel_queries(panel(target), WINDOW, {}, 5.0) == [
        (target, Query("rate(x[20s])", Window(1_799_999_100, 1_800_000_000), 5.0))
    ]


def test_an_instant_query_looks_at_the_end() -> None:
    ((_, query),) = panel_queries(panel(Target("A", "up", instant=True)), WINDOW, {}, 5.0)
    assert query == Query("up", Window(1_800_000_000, 1_800_000_000), 5.0, instant=True)


def test_hidden_and_empty_targets_are_not_asked() -> None:
    assert panel_queries(panel(Target("A", "up", hidden=True), Target("B", "  ")), WINDOW, {}, 5.0) == []


@pytest.mark.parametrize(
    ("width", "interval", "seconds", "step"),
    [
        (12, "", 900, 5),
        (12, "30s", 900, 30),
        (12, ">30s", 900, 30),
        (12, "nonsense", 900, 5),
        (24, "", 7200, 15),
        (4, "", 7200, 120),
    ],
)
def test_steps_by_width_and_interval(width: int, interval: str, seconds: float, step: float) -> None:
    window = Window(NOW - seconds, NOW)
    ((_, query),) = panel_queries(panel(Target("A", "up"), width=width, interval=interval), window, {}, 5.0)
    assert query.step == step


def test_equal_questions_are_equal() -> None:
    later = Window(WINDOW.start + 1, WINDOW.end + 1)  # another viewer, a second later
    targets = panel(Target("A", "up"))
    assert panel_queries(targets, WINDOW, {}, 5.0) == panel_queries(targets, later, {}, 5.0)


def test_an_unknown_variable_is_named() -> None:
    with pytest.raises(UnknownVariable, match=r"\$nowhere"):
        panel_queries(panel(Target("A", 'up{job="$nowhere"}')), WINDOW, {}, 5.0)


ALERTS = Annotation("Alerts", "ALERTS", "{{alertname}}", "{{severity}} for {{job}}", "#e03131", step="5s")


def test_each_unbroken_stretch_is_one_mark() -> None:
    query = annotation_query(ALERTS, WINDOW, {}, 5.0)
    end = query.window.end
    labels = {"__name__": "ALERTS", "alertname": "LatencySLOBreach", "severity": "page", "job": "inference"}
    times = (end - 800, end - 795, end - 790, end - 400, end - 10, end - 5, end)
    marks = marks_of(ALERTS, query, [Series(labels, times, (1.0,) * len(times))])
    title, text, paint = "LatencySLOBreach", "page for inference", "#e03131"
    assert marks == [
        Mark(end - 800, end - 790, title, text, paint, ongoing=False),
        Mark(end - 400, end - 400, title, text, paint, ongoing=False),
        Mark(end - 10, end, title, text, paint, ongoing=True),
    ]


def test_what_was_there_before_has_no_known_start() -> None:
    query = annotation_query(ALERTS, WINDOW, {}, 5.0)
    first = query.window.start
    mark, later = marks_of(ALERTS, query, [Series({"alertname": "A"}, (first, first + 5, first + 100), (1.0,) * 3)])
    assert (mark.earlier, later.earlier) == (True, False)


def test_nothing_is_ongoing_in_the_past() -> None:
    query = annotation_query(ALERTS, Window(NOW - 1800, NOW - 900, live=False), {}, 5.0)
    (mark,) = marks_of(ALERTS, query, [Series({"alertname": "A"}, (query.window.end,), (1.0,))])
    assert not mark.ongoing


def test_marks_without_formats_name_themselves() -> None:
    plain = Annotation("deploys", "x")
    query = annotation_query(plain, WINDOW, {}, 5.0)
    (mark,) = marks_of(plain, query, [Series({"__name__": "x", "version": "7"}, (query.window.end - 99,), (1.0,))])
    assert (mark.title, mark.text) == ("deploys", "version=7")
