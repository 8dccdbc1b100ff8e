"""The report as a person sees it: in both themes, on a phone, without a network."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stack.demo.record import Record
from stack.demo.report import write

SIZES = {"wide": (1280, 900), "phone": (390, 844)}


@pytest.fixture
def look(open_offline: Callable[[Path, str, str], Any], record: Record, tmp_path: Path) -> Callable[..., Any]:
    """Opens the report once both plots are drawn."""
    report = write(record, tmp_path)

    def open_page(size: str, scheme: str) -> Any:
        page = open_offline(report, size, scheme)
        for plot in ("#over-time", "#against-throughput"):
            page.wait_for_selector(f"{plot} .plot-container .main-svg")
        return page

    return open_page


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_draws_both_plots_fits_the_screen_and_asks_nobody(look: Callable[..., Any], size: str, scheme: str) -> None:
    page = look(size, scheme)
    assert page.locator("#over-time .scatterlayer .trace").count() == 7
    assert page.locator("#against-throughput .scatterlayer .trace").count() == 4
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for plot in ("over-time", "against-throughput"):
        box = page.locator(f"#{plot} .main-svg").first.bounding_box()
        assert 250 < box["width"] <= SIZES[size][0]
        assert box["height"] > 380
    assert page.troubles == []


def test_marks_do_not_cover_one_another_and_lie_above_the_plot(look: Callable[..., Any]) -> None:
    for size in SIZES:
        page = look(size, "light")
        top = page.locator("#over-time .nsewdrag").first.bounding_box()["y"]
        boxes = [mark.bounding_box() for mark in page.locator("#over-time .annotation .bg").all()]
        assert len(boxes) == 9
        assert all(box["y"] + box["height"] <= top + 2 for box in boxes)
        for index, a in enumerate(boxes):
            for b in boxes[index + 1 :]:
                apart = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
                assert apart or a["y"] + a["height"] <= b["y"] + 1 or b["y"] + b["height"] <= a["y"] + 1, (size, a, b)


def test_a_change_of_theme_is_followed_at_once(look: Callable[..., Any]) -> None:
    page = look("wide", "light")
    ink = "getComputedStyle(document.querySelector('#over-time .xtick text')).fill"
    p99 = "getComputedStyle(document.querySelectorAll('#over-time .scatterlayer .trace path.js-line')[3]).stroke"
    light = page.evaluate(ink), page.evaluate(p99)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{ink} !== '{light[0]}'")
    assert page.evaluate(p99) != light[1]
    assert page.troubles == []


def test_pointing_at_a_moment_tells_what_was_lost(look: Callable[..., Any]) -> None:
    page = look("wide", "light")
    page.locator("#over-time").scroll_into_view_if_needed()
    box = page.locator("#over-time .nsewdrag").first.bounding_box()
    for share in (0.14, 0.15):  # a hover begins with a move inside
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] * 0.5)
    label = page.locator("#over-time .hoverlayer .legend")
    label.wait_for(state="attached")
    said = label.evaluate("legend => legend.textContent")
    assert "p99 : ∞ (42% lost)" in said
    assert re.search(r"1\d s", said)
