"""Two runs on one page: each under its name, the lost ones of either in sight."""

from collections.abc import Callable
from typing import Any

import pytest

from loadtest.analysis.compare import compared
from loadtest.analysis.report import compared_html, distribution, pairing, timeline

ResultOf = Callable[[str], dict[str, Any]]
Read = Callable[[str], Any]


def test_both_are_told_under_their_names(result_of: ResultOf, read: Read) -> None:
    closed, opened = result_of("closed"), result_of("stall")
    page = read(compared_html(closed, opened, compared(closed, opened, ("closed", "open"))))
    assert closed["reasons"][0] in page.text
    assert opened["reasons"][0] in page.text
    assert "closed: a closed loop hides stalls" in page.text
    assert "open: a closed loop" not in page.text
    assert page.addresses == ["data:,"]


def test_each_side_has_its_own_cell_and_a_lost_percentile_is_infinite(result_of: ResultOf) -> None:
    rows = {pair.name: pair for pair in pairing.figures((result_of("pass"), result_of("drops")))}
    assert rows["p99.9"].cells[1] == "∞"
    assert rows["p99.9"].cells[0].endswith(" ms")
    assert rows["p99.9"].differs
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
    sides = (result_of(kinds[0]), result_of(kinds[1]))
    page = read(compared_html(*sides, compared(*sides)))
    assert result_of(kinds[0])["reasons"][0] in page.text


def test_names_are_text(result_of: ResultOf) -> None:
    result = result_of("pass")
    source = compared_html(result, result, compared(result, result, ("<b>x</b><script>", "B")))
    assert "<b>x</b>" not in source
    assert "&lt;b&gt;x&lt;/b&gt;" in source


def figure(name: str, a: float | None, b: float | None, real: bool | None = True, **options: Any) -> dict[str, Any]:
    change = b / a - 1 if a and b else None
    interval = [None, None] if change is None else [change * 0.9, change * 1.1]
    return {
        "name": name,
        "what": name,
        "a": a,
        "b": b,
        "change": change,
        "change_ci95": interval,
        "real": real,
        **options,
    }


@pytest.mark.parametrize(
    ("p99", "said"),
    [
        (figure("p99", 0.021, 0.843), "p99 of new is 40.1 times that of old: 843 ms against 21.0 ms."),
        (figure("p99", 0.020, 0.025), "p99 of new is 25% higher than that of old: 25.0 ms against 20.0 ms."),
        (figure("p99", 0.020, 0.005), "p99 of new is 75% lower than that of old: 5.00 ms against 20.0 ms."),
        (
            figure("p99", 0.020, 0.021, real=False),
            "p99 of old is 20.0 ms and of new 21.0 ms; the difference may be chance.",
        ),
        (figure("p99", None, None, real=None), "These runs cannot tell whether p99 of old and new differ."),
        (figure("p99", 0.020, None), "p99 of new is ∞, because so many arrivals were lost, and that of old 20.0 ms."),
        (figure("p99", None, 0.020), "p99 of old is ∞, because so many arrivals were lost, and that of new 20.0 ms."),
    ],
)
def test_the_headline_says_what_became_of_p99(p99: dict[str, Any], said: str) -> None:
    assert pairing.headline({"names": ["old", "new"], "figures": [p99]}).startswith(said)


@pytest.mark.parametrize(
    ("told", "cells", "change", "verdict"),
    [
        (figure("p50", 0.020, 0.025), ("20.0 ms", "25.0 ms"), "+25.0% +22.5 to +27.5%", "real"),
        (figure("p99", 0.020, 0.8, real=False), ("20.0 ms", "800 ms"), "×40 ×36.1 to ×43.9", "may be chance"),
        (
            figure("good", 0.99, 0.95, change=-0.04, change_ci95=[-0.05, -0.03]),
            ("99%", "95%"),
            "-4.00 points -5.00 to -3.00 points",
            "real",
        ),
        (
            figure("p99", 0.02, None, change_ci95=[-0.03, None], real=False),
            ("20.0 ms", "∞"),
            " -3.0% to ∞",
            "may be chance",
        ),
        (figure("p99", 0.02, None), ("20.0 ms", "∞"), " ", "real"),
        (figure("p99", 0.02, None, change_ci95=[3.0, None]), ("20.0 ms", "∞"), " ×4 to ∞", "real"),
        (
            figure("mean", 0.01, 0.03, real=False, change_ci95=[-1 + 1e-8, 4e7]),
            ("10.0 ms", "30.0 ms"),
            "×3 ×0 to more than ×1,000",
            "may be chance",
        ),
        (figure("mean", None, 0.02, real=None), ("–", "20.0 ms"), "– ", "cannot be told"),
        (figure("throughput", 100.0, 90.0), ("100/s", "90/s"), "-10.0% -9.0 to -11.0%", "real"),
    ],
)
def test_a_change_is_told_with_its_interval(
    told: dict[str, Any], cells: tuple[str, str], change: str, verdict: str
) -> None:
    row = pairing.changes({"figures": [told]})[0]
    assert (row.cells, f"{row.change} {row.interval}", row.verdict) == (cells, change, verdict)


def test_cautions_name_the_runs(result_of: ResultOf, read: Read) -> None:
    closed, opened = result_of("closed"), result_of("stall")
    text = read(compared_html(closed, opened, compared(closed, opened, ("Locust", "Tailboard")))).text
    assert "Locust was a closed loop, which hides stalls" in text
