"""Where things are drawn: nothing that was lost is left out."""

import json
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.analysis.report import distribution, timeline
from loadtest.analysis.report.axes import LatencyAxis, Rows, TailAxis, tail

ResultOf = Callable[[str], dict[str, Any]]
Figure = dict[str, Any]


def trace(figure: Figure, name: str) -> Figure:
    return next(each for each in figure["data"] if each["name"] == name)


def by_share(result: dict[str, Any]) -> Figure:
    return distribution.latency_by_share(distribution.tail_lines(result), result["slo"])


@given(st.lists(st.one_of(st.none(), st.floats(1e-6, 1e4)), max_size=30))
def test_every_latency_is_inside_its_axis_and_the_infinite_one_above_all_others(seconds: list[float | None]) -> None:
    axis = LatencyAxis(seconds, infinite=True, shown=[0.05])
    low, high = axis.layout()["range"]
    for each in (*seconds, 0.05):
        if each is not None:
            assert low <= math.log10(axis.place(each)) <= math.log10(axis.top)
    assert math.log10(axis.top) < math.log10(axis.place(math.inf)) < high
    assert all(low <= math.log10(tick) <= high for tick in axis.layout()["tickvals"])
    assert 2 <= len(axis.layout()["tickvals"]) <= 12


def test_equal_steps_lead_from_90_to_99_to_999() -> None:
    assert tail(0.99) - tail(0.9) == pytest.approx(tail(0.999) - tail(0.99))
    assert TailAxis(0.99999).layout()["ticktext"] == ["50%", "90%", "99%", "99.9%", "99.99%", "99.999%"]


def test_rows_lie_one_above_another_with_room_for_their_words() -> None:
    rows = Rows(300, 120, 90)
    domains = [rows.domain(row) for row in range(3)]
    assert domains[0][1] == 1
    assert domains[-1][0] == pytest.approx(0, abs=1e-9)
    pixels = [(high - low) * (rows.layout()["height"] - 10 - 46) for low, high in domains]
    assert pixels == pytest.approx([300, 120, 90])
    assert all(upper[0] > lower[1] for upper, lower in pairwise(domains))


def test_the_curve_leaves_for_infinity_exactly_where_the_lost_ones_begin(result_of: ResultOf) -> None:
    result = result_of("drops")
    measured = result["measured"]
    lost = 1 - measured["completed"] / measured["offered"]
    line = trace(by_share(result), "total time")
    assert line["x"][-3:-1] == pytest.approx([-math.log10(lost)] * 2)
    assert line["y"][-2] == line["y"][-1] > max(line["y"][:-2])
    assert line["customdata"][-1].endswith("got no good answer: <b>∞</b>")
    assert "<b>p99 ∞</b>" in trace(by_share(result), "percentiles")["text"]


def test_without_a_loss_there_is_no_band(result_of: ResultOf) -> None:
    figure = by_share(result_of("pass"))
    assert "<b>∞</b>" not in figure["layout"]["yaxis"]["ticktext"]
    assert [shape["type"] for shape in figure["layout"]["shapes"]] == ["line", "line"]


def test_the_marks_beside_the_curve_are_the_percentiles_of_the_result(result_of: ResultOf) -> None:
    result = result_of("stall")
    marks = dict(zip(distribution.MARKED, trace(by_share(result), "percentiles")["y"], strict=False))
    assert marks[0.99] == pytest.approx(result["latency_seconds"]["p99"])
    assert marks[0.99] > 0.7


def test_over_time_a_lost_percentile_is_in_the_band_and_a_second_without_arrivals_is_a_gap(result_of: ResultOf) -> None:
    result = result_of("drops")
    over_time = {**result["series"]["over_time"]}
    over_time["offered_per_second"] = [*over_time["offered_per_second"][:-1], 0]
    for name in ("p50", "p95", "p99", "mean"):
        over_time[name] = [*over_time[name][:-1], None]
    figure = timeline.latency_over_time({**result, "series": {"over_time": over_time}})
    p99 = trace(figure, "p99")
    assert p99["customdata"][10] == "∞"
    assert p99["y"][10] > 10 ** figure["layout"]["yaxis"]["range"][1] / 5
    assert (p99["y"][-1], p99["customdata"][-1]) == (None, "–")


def test_what_was_lost_has_a_row_of_its_own_and_none_when_nothing_was(result_of: ResultOf) -> None:
    lossy, whole = timeline.arrivals_over_time(result_of("drops")), timeline.arrivals_over_time(result_of("pass"))
    assert max(value or 0 for value in trace(lossy, "dropped")["y"]) > 100
    assert max(value or 0 for value in trace(lossy, "failed")["y"]) > 5
    assert {each["name"] for each in whole["data"]} == {"due", "sent", "in flight", "oldest"}
    assert lossy["layout"]["height"] > whole["layout"]["height"]
    for figure in (lossy, whole):  # every trace has an axis with a place, and the time axis is under the lowest
        layout = figure["layout"]
        domains = {f"y{name[5:]}": layout[name]["domain"] for name in layout if name.startswith("yaxis")}
        assert {each["yaxis"] for each in figure["data"]} <= {*domains}
        assert domains[layout["xaxis"]["anchor"]] == min(domains.values())


def test_the_histogram_shows_the_lost_beside_the_slow(result_of: ResultOf) -> None:
    result = result_of("drops")
    figure = distribution.histogram(result)
    lost = trace(figure, "lost")
    measured = result["measured"]
    assert lost["y"] == [measured["offered"] - measured["completed"]]
    assert lost["x"][0] > result["series"]["histogram"]["edges_seconds"][-1]
    assert sum(count or 0 for count in trace(figure, "arrivals")["y"]) == measured["completed"]
    assert {*trace(figure, "arrivals")["marker"]["color"]} == {"@served", "@late"}
    assert [each["name"] for each in distribution.histogram(result_of("pass"))["data"]] == ["arrivals"]


@pytest.mark.parametrize("kind", ["pass", "stall", "invalid", "drops", "closed", "all lost"])
def test_figures_are_plain_json(result_of: ResultOf, kind: str) -> None:
    result = result_of(kind)
    figures = [
        by_share(result),
        timeline.latency_over_time(result),
        timeline.arrivals_over_time(result),
        distribution.histogram(result),
        timeline.lateness(result, 0.005),
    ]
    assert json.dumps(figures, allow_nan=False)
    warmups = [any(s.get("fillcolor") == "@warm" for s in figure["layout"]["shapes"]) for figure in figures]
    assert warmups == [False, True, True, False, True]
