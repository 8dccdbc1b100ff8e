"""A page's data from a Prometheus that answers, is silent, refuses, or is gone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from stack.live.dashboard import Dashboard, parse_dashboard
from stack.live.gather import Gatherer, Wish
from stack.live.intervals import Window
from stack.live.prometheus import Prometheus, QueryFailed, Unreachable
from stack.live.series import Series

NOW = 1_800_000_002.0
DASHBOARD = parse_dashboard("""
{"uid": "a", "title": "A",
 "templating": {"list": [{"type": "query", "name": "model", "query": "label_values(up, model)"},
                         {"type": "datasource", "name": "datasource", "query": "prometheus"}]},
 "annotations": {"list": [{"name": "Alerts", "expr": "ALERTS", "titleFormat": "{{alertname}}", "textFormat": "page"}]},
 "panels": [
  {"id": 1, "type": "stat", "title": "p99", "targets": [{"expr": "p99{model=\\"$model\\"}", "instant": true}]},
  {"id": 2, "type": "timeseries", "title": "Latency", "gridPos": {"y": 5},
   "targets": [{"refId": "A", "expr": "p99{model=\\"$model\\"}"}, {"refId": "B", "expr": "bad("}]},
  {"id": 3, "type": "stat", "title": "lost", "gridPos": {"y": 6}, "targets": [{"expr": "x{y=\\"$z\\"}"}]},
  {"id": 4, "type": "row", "title": "More", "collapsed": true, "gridPos": {"y": 20},
   "panels": [{"id": 5, "type": "stat", "title": "inside", "targets": [{"expr": "deep", "instant": true}]}]}
 ]}
""")


class Answers:
    """Stands for Prometheus: fixed answers, and a record of what was asked."""

    def __init__(self, traffic: float | None = 100.0) -> None:
        self.traffic = traffic
        self.asked: list[str] = []
        self.gone = False
        self.hold = threading.Event()
        self.hold.set()

    def query(self, expr: str, at: float) -> tuple[Series, ...]:
        self._record(expr)
        if "increase(" in expr:
            return () if self.traffic is None else (Series({}, (at,), (self.traffic,)),)
        return (Series({}, (at,), (0.05,)),)

    def query_range(self, expr: str, window: Window, step: float) -> tuple[Series, ...]:
        self._record(expr)
        if expr == "bad(":
            raise QueryFailed("bad_data: unclosed left parenthesis")
        if expr == "ALERTS":
            return (Series({"alertname": "LatencySLOBreach"}, (window.end - step, window.end), (1.0, 1.0)),)
        return (Series({}, (window.end,), (0.05,)),)

    def label_values(self, label: str, selector: str, window: Window) -> tuple[str, ...]:
        self._record(f"{label} of {selector}")
        return ("digits", "other")

    def close(self) -> None:
        self.asked.append("closed")

    def _record(self, expr: str) -> None:
        self.asked.append(expr)
        self.hold.wait(10)
        if self.gone:
            raise Unreachable("no Prometheus at http://127.0.0.1:1: connection refused")


@contextmanager
def gatherer(answers: Answers, page_seconds: float = 10.0) -> Iterator[Gatherer]:
    made = Gatherer(cast(Prometheus, answers), 5.0, page_seconds, now=lambda: NOW)
    try:
        yield made
    finally:
        answers.hold.set()
        made.close()


def page(answers: Answers, wish: Wish | None = None, dashboard: Dashboard = DASHBOARD) -> dict[str, Any]:
    with gatherer(answers) as made:
        return made.page(dashboard, wish or Wish())


def test_a_page() -> None:
    answers = Answers()
    found = page(answers)
    assert found["status"] == {"state": "ok", "message": ""}
    assert found["window"] == {"start": 1_799_999_102_000, "end": 1_800_000_002_000, "live": True}
    assert set(found["panels"]) == {"1", "2", "3"}  # a closed row is not asked for
    assert found["panels"]["1"]["stats"][0]["text"] == "0.05"
    assert found["panels"]["1"]["queries"] == ['p99{model="digits"}']
    assert found["variables"] == [
        {
            "name": "model",
            "label": "model",
            "options": ["digits", "other"],
            "chosen": ["digits"],
            "multi": False,
            "all": False,
        }
    ]
    assert found["firing"] == [{"title": "LatencySLOBreach", "text": "page", "since": 1_799_999_995_000}]


def test_a_failed_query_is_its_panel_s_matter_and_carries_the_message() -> None:
    panel = page(Answers())["panels"]["2"]
    assert (panel["state"], panel["message"]) == ("error", "Query B failed: bad_data: unclosed left parenthesis")


def test_an_unknown_variable_is_its_panel_s_matter() -> None:
    panel = page(Answers())["panels"]["3"]
    assert panel["state"] == "error"
    assert panel["message"] == "the query names the variable '$z', which the dashboard does not define"


def test_the_chosen_variable_reaches_the_queries() -> None:
    found = page(Answers(), Wish(variables={"model": ["other"]}))
    assert found["panels"]["1"]["queries"] == ['p99{model="other"}']


def test_an_opened_row_is_asked_for() -> None:
    assert "5" in page(Answers(), Wish(open_rows=frozenset({4})))["panels"]


@pytest.mark.parametrize(("traffic", "state"), [(None, "no_service"), (0.0, "no_traffic"), (0.5, "ok")])
def test_what_the_page_says_about_traffic(traffic: float | None, state: str) -> None:
    assert page(Answers(traffic))["status"]["state"] == state


def test_without_prometheus_one_question_is_asked_and_the_page_says_why() -> None:
    answers = Answers()
    answers.gone = True
    with gatherer(answers) as made:
        found = made.page(DASHBOARD, Wish())
        assert len(answers.asked) == 1
    assert found["status"] == {
        "state": "no_prometheus",
        "message": "no Prometheus at http://127.0.0.1:1: connection refused",
    }
    assert found["panels"] == {}


def test_a_silent_prometheus_holds_a_page_no_longer_than_its_limit() -> None:
    answers = Answers()
    answers.hold.clear()
    with gatherer(answers, page_seconds=0.05) as made:
        found = made.page(DASHBOARD, Wish())
    assert found["status"]["state"] == "no_prometheus"
    assert "slow" in found["status"]["message"]


def test_two_viewers_ask_once() -> None:
    answers = Answers()
    with gatherer(answers) as made:
        first, second = made.page(DASHBOARD, Wish()), made.page(DASHBOARD, Wish())
        assert len(answers.asked) == len(set(answers.asked)) + 1  # p99 once as instant, once over the range
    assert first == second


def test_a_time_range_that_is_none_is_refused() -> None:
    with gatherer(Answers()) as made, pytest.raises(ValueError, match="'soon' is no time"):
        made.page(DASHBOARD, Wish(start="soon"))
