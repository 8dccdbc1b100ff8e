"""Two runs on one page: each under its name, the lost ones of either in sight."""

from collections.abc import Callable
from typing import Any

import pytest

from loadtest.analysis.report import compared_html, distribution, pairing, timeline

ResultOf = Callable[[str], dict[str, Any]]
Read = Callable[[str], Any]


def test_both_are_told_under_their_names(result_of: ResultOf, read: Read) -> None:
    closed, opened = result_of("closed"), result_of("stall")
    page = read(compared_html(closed, opened, {}, ("closed", "open")))
    assert closed["reasons"][0] in page.text
    assert opened["reasons"][0] in page.text
    assert "closed is a closed loop, which hides stalls" in page.text
    assert "open is a closed loop" not in page.text
    assert page.addresses == ["data:,"]


def test_each_side_has_its_own_cell_and_a_lost_percentile_is_infinite(result_of: ResultOf) -> None:
    rows = {pair.name: pair for pair in pairing.figures((result_of("pass"), result_of("drops")))}
    assert rows["p99"].cells[1] == "∞"
    assert rows["p99"].cells[0].endswith(" ms")
    assert rows["p99"].differs
    assert not pairing.Pair("seed", ("7", "7")).differs


def test_settings_of_only_one_side_are_blank_for_the_other(result_of: ResultOf) -> None:
    result = result_of("pass")
    other = {**result, "settings": {**result["settings"], "trace": "bursty.csv"}, "versions": {}}
    headed = pairing.facts((result, other))
    trace = next(pair for pair in headed["Settings"] if pair.name == "trace")
    assert (trace.cells[0].strip(), trace.cells[1]) == ("", "bursty.csv")
    assert trace.differs
    assert all(pair.cells[1].strip() == "" for pair in headed["Versions"])
    assert [pair.name for pair in headed["Settings"] if pair.differs] == ["trace"]


def test_curves_of_both_are_overlaid_in_their_colours_and_one_band_serves_both(result_of: ResultOf) -> None:
    results = (result_of("pass"), result_of("drops"))
    lines = distribution.tail_lines_of_both(results, ("A", "B"))
    figure = distribution.latency_by_share(lines, results[0]["slo"])
    colors = {each["name"]: each["line"]["color"] for each in figure["data"] if "line" in each}
    assert (colors["A"], colors["B"]) == ("@one", "@two")
    assert {"A, service time", "B, service time"} <= {*colors}
    assert figure["layout"]["yaxis"]["ticktext"][-1] == "<b>∞</b>"
    over_time = timeline.p99_of_both(results, ("A", "B"))
    assert [each["name"] for each in over_time["data"]] == ["A p99", "B p99", "A completed", "B completed"]
    assert "∞" in over_time["data"][1]["customdata"]
    assert "∞" not in over_time["data"][0]["customdata"]


@pytest.mark.parametrize("kinds", [("nothing", "pass"), ("pass", "nothing"), ("all lost", "all lost")])
def test_a_side_without_a_measurement_is_no_obstacle(result_of: ResultOf, read: Read, kinds: tuple[str, str]) -> None:
    page = read(compared_html(result_of(kinds[0]), result_of(kinds[1]), {}))
    assert result_of(kinds[0])["reasons"][0] in page.text


def test_names_are_text(result_of: ResultOf) -> None:
    source = compared_html(result_of("pass"), result_of("pass"), {}, ("<b>x</b><script>", "B"))
    assert "<b>x</b>" not in source
    assert "&lt;b&gt;x&lt;/b&gt;" in source
