"""A run's report as a person sees it: in both themes, on a phone, on paper, without a network."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadtest.analysis.compare import compared
from loadtest.analysis.report import compared_html, html

ResultOf = Callable[[str], dict[str, Any]]
SIZES = {"wide": (1280, 900), "phone": (390, 844)}
PLOTS = ("by-share", "over-time", "arrivals", "histogram", "lateness")


@pytest.fixture
def look(open_offline: Callable[[Path, str, str], Any], tmp_path: Path) -> Callable[..., Any]:
    """Opens a report once all its plots are drawn."""

    def open_page(source: str, size: str = "wide", scheme: str = "light", plots: tuple[str, ...] = PLOTS) -> Any:
        path = tmp_path / "report.html"
        path.write_text(source, encoding="utf-8")
        page = open_offline(path, size, scheme)
        for plot in plots:
            page.wait_for_selector(f"#{plot} .plot-container .main-svg")
        return page

    return open_page


def fits(page: Any, plots: tuple[str, ...], width: int) -> None:
    """Nothing is wider than the screen, and the words over each plot end inside it."""
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for plot in plots:
        box = page.locator(f"#{plot} .main-svg").first.bounding_box()
        assert 250 < box["width"] <= width
        assert box["height"] > 180
        for words in page.locator(f"#{plot} .annotation-text, #{plot} .textpoint text").all():
            inner = words.bounding_box()
            assert box["x"] <= inner["x"]
            assert inner["x"] + inner["width"] <= box["x"] + box["width"], (plot, words.text_content())


@pytest.mark.parametrize(("size", "scheme"), [("wide", "light"), ("phone", "dark")])
def test_it_draws_every_plot_fits_the_screen_and_asks_nobody(
    look: Callable[..., Any], result_of: ResultOf, size: str, scheme: str
) -> None:
    page = look(html(result_of("drops")), size, scheme)
    fits(page, PLOTS, SIZES[size][0])
    assert page.locator("#by-share .scatterlayer .trace").count() == 3
    assert page.locator("#over-time .scatterlayer .trace").count() == 6
    assert page.locator("#arrivals .barlayer .trace").count() == 2
    assert page.locator("#histogram .barlayer .trace").count() == 2
    assert page.locator("#lateness .scatterlayer .trace").count() == 1
    assert page.get_by_text("FAIL", exact=True).is_visible()
    assert page.troubles == []


def test_pointing_at_the_tail_tells_what_was_lost(look: Callable[..., Any], result_of: ResultOf) -> None:
    page = look(html(result_of("drops")))
    page.locator("#by-share").scroll_into_view_if_needed()
    box = page.locator("#by-share .nsewdrag").first.bounding_box()
    for share in (0.97, 0.98):  # a hover begins with a move inside
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] * 0.04)
    label = page.locator("#by-share .hoverlayer .hovertext")
    label.first.wait_for(state="attached")
    assert "got no good answer: ∞" in label.first.evaluate("label => label.textContent")


def test_a_change_of_theme_is_followed_and_paper_is_white_and_narrow(
    look: Callable[..., Any], result_of: ResultOf
) -> None:
    page = look(html(result_of("stall")), scheme="dark")
    ink = "getComputedStyle(document.querySelector('#over-time .xtick text')).fill"
    dark = page.evaluate(ink)
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"{ink} !== '{dark}'")
    light = page.evaluate(ink)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{ink} === '{dark}'")
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_function(f"{ink} === '{light}'")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert max(svg.bounding_box()["width"] for svg in page.locator(".plot .main-svg").all()) <= 700
    assert page.troubles == []


@pytest.mark.parametrize("size", SIZES)
def test_two_runs_side_by_side(look: Callable[..., Any], result_of: ResultOf, size: str) -> None:
    closed, opened = result_of("closed"), result_of("stall")
    page = look(
        compared_html(closed, opened, compared(closed, opened, ("closed loop", "open loop"))),
        size,
        plots=("by-share", "over-time"),
    )
    fits(page, ("by-share", "over-time"), SIZES[size][0])
    assert page.locator("#by-share .scatterlayer .trace").count() == 6
    for table in page.locator(".scroll").all():
        assert table.evaluate("table => table.scrollWidth <= table.clientWidth"), table.text_content()
    assert page.troubles == []
