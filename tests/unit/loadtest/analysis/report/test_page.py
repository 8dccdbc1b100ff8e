"""The page of one run: it says what the result says, whole and safe to send."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from loadtest.analysis.report import html, telling

ResultOf = Callable[[str], dict[str, Any]]
Read = Callable[[str], Any]
KINDS = ("pass", "stall", "invalid", "drops", "closed", "nothing", "all lost")


@pytest.mark.parametrize("kind", KINDS)
def test_it_says_the_verdict_with_every_reason_and_note_and_asks_nobody(
    result_of: ResultOf, read: Read, kind: str
) -> None:
    result = result_of(kind)
    page = read(html(result))
    for sentence in (result["verdict"], *result["reasons"], *result["notes"]):
        assert sentence in page.text
    assert page.addresses == ["data:,"]
    assert ("A closed loop hides stalls" in page.text) == (kind == "closed")


def test_the_figures_are_those_of_the_result(result_of: ResultOf, read: Read) -> None:
    text = read(html(result_of("stall"))).text
    result = result_of("stall")
    assert f"p99, total time {result['latency_seconds']['p99'] * 1000:.0f} ms" in text
    assert "objective is 99%" in text
    assert "20 s with 2 s of warm-up" in text
    assert f"offered {result['offered']:,} {result['measured']['offered']:,}" in text
    cut = result["excluded"][0]["samples"]
    assert f"Left out: {cut} arrivals from 0 to 2 s (warm-up)." in text
    for fact in ("bench-1", "Example CPU @ 2.60GHz", "8.0 GiB", "rows per request 1,8,64", "seed 7", "locust 2.47.0"):
        assert fact in text


def test_a_lost_percentile_is_infinite_and_says_why(result_of: ResultOf, read: Read) -> None:
    result = result_of("drops")
    text = read(html(result)).text
    assert "p99, total time ∞" in text
    assert result["latency_reasons"]["p99"] in text
    assert text.count(result["latency_reasons"]["p99"]) == 1
    assert "HTTP 503 297" in text


def test_a_run_that_measured_nothing_has_a_page_without_plots(result_of: ResultOf, read: Read) -> None:
    source = html(result_of("nothing"))
    assert 'class="plot"' not in source
    assert len(source) < 50_000
    assert "∞" not in read(source).text  # nothing was lost either
    assert read(source).text.count("nothing was measured") == 3


def test_a_closed_loop_is_not_told_as_if_it_had_a_schedule(result_of: ResultOf, read: Read) -> None:
    closed, opened = (read(html(result_of(kind))).text for kind in ("closed", "stall"))
    for words in ("by a schedule", "Was the generator punctual?", "generator's lateness", "/s planned"):
        assert words not in closed
        assert words in opened
    assert "the load was what it was meant to be" not in closed


def test_early_ends_are_said(result_of: ResultOf, read: Read) -> None:
    result = result_of("pass")
    assert "was interrupted" not in read(html(result)).text
    assert "was interrupted" in read(html({**result, "ended": "interrupted"})).text
    assert "was ended early" in read(html({**result, "ended": "aborted"})).text


def test_what_others_wrote_is_text_and_never_markup(result_of: ResultOf, read: Read) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    result = {
        **result_of("pass"),
        "target": evil,
        "reasons": [evil],
        "notes": [evil],
        "settings": {evil: evil},
        "failures": [{"what": evil, "count": 1}],
    }
    source = html(result)
    assert evil not in source
    assert "<img" not in re.sub(r"<script>.*?</script>", "", source, flags=re.DOTALL)
    assert read(source).text.count("onerror=alert(1)") >= 6


def test_every_colour_that_a_plot_asks_for_is_in_both_themes(result_of: ResultOf) -> None:
    source = html(result_of("drops"))
    light, dark = re.findall(r":root \{(.*?)\}", source, re.DOTALL)[:2]
    names = re.search(r"names = (\[.*?\])", source)
    assert names is not None
    asked = {*re.findall(r'"(\w+)"', names[1])}
    assert {"p99", "served", "lost", "band", "warm", "ink"} <= asked
    for theme in (light, dark):
        assert asked <= {*re.findall(r"--(\w+):", theme)}


def test_key_figures_are_good_or_bad_by_the_objective(result_of: ResultOf) -> None:
    colors = {
        kind: [card.css for card in telling.cards(result_of(kind))] for kind in ("pass", "stall", "drops", "invalid")
    }
    assert colors == {
        "pass": ["good", "good", "", "", ""],
        "stall": ["bad", "bad", "", "", ""],
        "drops": ["bad", "bad", "", "bad", ""],
        "invalid": ["", "", "", "", "bad"],  # the generator was late; what the service did is not known
    }


@pytest.mark.parametrize(
    ("objective", "name", "css"), [(0.999, "p99.9", "bad"), (0.95, "p95", "good"), (0.97, "p99", "")]
)
def test_the_first_figure_is_the_percentile_of_the_objective(
    result_of: ResultOf, objective: float, name: str, css: str
) -> None:
    result = result_of("pass")
    latency = {**result["latency_seconds"], "p999": 0.08}
    first = telling.cards({**result, "latency_seconds": latency, "slo": {**result["slo"], "objective": objective}})[0]
    assert (first.name, first.css) == (f"{name}, total time", css)
