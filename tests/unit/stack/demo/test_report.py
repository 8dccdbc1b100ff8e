"""The report's content and figures, without a browser (tests/browser looks at the page itself)."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import plotly.graph_objects
import pytest

from stack.demo import plots
from stack.demo.experiment import Times, Verdict
from stack.demo.record import Record
from stack.demo.report import render, write


def without_plotly(page: str) -> str:
    """The page without the one long script."""
    return re.sub(r"<script>/\*\*.*?</script>", "", page, count=1, flags=re.DOTALL)


def test_it_tells_the_story_in_words(record: Record) -> None:
    page = without_plotly(render(record))
    assert len(page) < 100_000
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for said in (
        "PASS",
        "Under one unchanged load of 400/s the alert fired and resolved.",
        "Poisson arrivals at 400 requests/s of one row each, where one row at a time can serve about 201.",
        "26.0 s 3 the alert LatencySLOBreach fires in Prometheus",
        "34.0 s 5 the batch is set to 128 rows at run time; the load is left alone",
        "∞ (42% lost) p99",
        "up to 190 requests/s stay inside the SLO of 50 ms",
        "max batch offered rps served rps mean p50 p95 p99 mean batch rows SLO met",
        "8 1,344 1,344 23 ms 22 ms 37 ms 48 ms 7.7 yes",
        "tuned max_wait_seconds 0.005",
        "Python 3.11.7",
    ):
        assert said in text, said


def test_it_needs_no_network_and_shows_nothing_of_the_template(record: Record) -> None:
    page = without_plotly(render(record))
    assert not re.search(r"""(src|href)=["'](?!data:)""", page)
    assert "{{" not in page
    assert "{%" not in page


def test_what_comes_from_outside_is_escaped(record: Record) -> None:
    evil = dataclasses.replace(
        record, verdict=Verdict(False, "<img src=x>"), settings={"SERVICE_MODEL": "</script><b>"}, alert="<i>"
    )
    page = without_plotly(render(evil))
    assert "<img" not in page
    assert "<b>" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "<i>" not in page


@pytest.mark.parametrize("missing", ["ramp", "after", "everything"])
def test_a_partial_record_makes_a_partial_report(record: Record, missing: str) -> None:
    partial = dataclasses.replace(record, verdict=None, interrupted=True, ramp=[])
    if missing != "ramp":
        partial = dataclasses.replace(partial, after=None)
    if missing == "everything":
        partial = dataclasses.replace(partial, before=None, series=[], times=Times(), load_rps=None, tuned={})
    page = without_plotly(render(partial))
    assert "PARTIAL" in page
    assert "The demo was interrupted" in page
    assert "against-throughput" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    assert ('id="over-time"' in page) is (missing != "everything")


def test_both_files_are_written(record: Record, tmp_path: Path) -> None:
    report = write(record, tmp_path / "new" / "folder")
    assert report == tmp_path / "new" / "folder" / "report.html"
    assert "Plotly" in report.read_text(encoding="utf-8")
    assert json.loads(report.with_name("result.json").read_text(encoding="utf-8"))["verdict"] == "PASS"


def coloured(figure: dict[str, Any]) -> dict[str, Any]:
    """The figure with some colour for every name."""
    return json.loads(re.sub(r'"@[a-z0-9]+"', '"#123456"', json.dumps(figure)))  # type: ignore[no-any-return]


def test_plotly_accepts_the_figures(record: Record) -> None:
    for figure in (plots.over_time(record), plots.against_throughput(record)):
        plotly.graph_objects.Figure(coloured(figure))


def test_every_colour_is_defined_in_both_themes(record: Record) -> None:
    page = without_plotly(render(record))
    used = set(re.findall(r'"@([a-z0-9]+)"', page)) | set(re.findall(r"var\(--([a-z0-9]+)\)", page))
    light, dark = page.split("prefers-color-scheme: dark)", 1)
    assert used
    for theme in (light, dark.split("box-sizing", 1)[0]):
        assert used <= set(re.findall(r"--([a-z0-9]+):", theme))


def test_latency_over_time_has_the_lines_the_marks_and_a_place_for_infinity(record: Record) -> None:
    figure = plots.over_time(record)
    names = [trace["name"] for trace in figure["data"]]
    assert names == [
        "p50",
        "mean, answered",
        "p95",
        "p99",
        "SLO: p99 ≤ 50 ms",
        "offered requests/s",
        "served requests/s",
    ]
    p99 = figure["data"][3]
    assert None not in p99["y"]
    finite = max(figures.p99 * 1000 for figures in record.series if figures.p99 and figures.p99 < 100)
    assert p99["y"][10] > finite
    assert p99["customdata"][10] == "∞ (42% lost)"
    assert figure["data"][4]["y"] == [50.0, 50.0]
    lines = [shape for shape in figure["layout"]["shapes"] if shape["type"] == "line"]
    assert [line["x0"] for line in lines] == [2.0, 9.0, 26.0, 28.4, 34.0, 38.0, 63.0, 101.0, 104.2]
    numbers = figure["layout"]["annotations"]
    assert [number["text"] for number in numbers] == [f"<b>{n}</b>" for n in range(1, 10)]
    assert numbers[3]["yshift"] > numbers[2]["yshift"], "2.4 s apart: one above the other"


def test_without_losses_there_is_no_band_for_infinity(record: Record) -> None:
    calm = dataclasses.replace(record, series=[figures for figures in record.series if figures.slo_met])
    figure = plots.over_time(calm)
    assert "∞" not in figure["layout"]["yaxis"]["ticktext"]
    assert [shape for shape in figure["layout"]["shapes"] if shape["type"] == "rect"] == []
    assert "∞" in plots.over_time(record)["layout"]["yaxis"]["ticktext"]


def test_p99_against_throughput_has_a_line_per_batch_size_and_labels_its_best_point(record: Record) -> None:
    figure = plots.against_throughput(record)
    lines = figure["data"][:-1]
    assert [line["name"] for line in lines] == ["max batch: one row", "max batch: 8 rows", "max batch: 128 rows"]
    assert [text for text in lines[0]["text"] if text] == ["<b>190/s</b>"]
    hollow = [color == "@card" for color in lines[0]["marker"]["color"]]
    assert hollow == [False, False, False, True, True]
    assert lines[0]["x"] == pytest.approx([100, 160, 190, 200, 200])
