"""The page of a search as a person sees it: on a screen and on a phone, without a network."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadtest.analysis.report import answer, tuned
from loadtest.analysis.report.tuned import About
from loadtest.analysis.tuner.found import Found

FoundOf = Callable[[str], Found]
SIZES = {"wide": (1280, 900), "phone": (390, 844)}
PLOTS = ("frontier", "near", "goodput", "price")


@pytest.fixture
def look(open_offline: Callable[[Path, str, str], Any], tmp_path: Path) -> Callable[..., Any]:
    """Opens a search's page."""

    def open_page(source: str, size: str, scheme: str = "light") -> Any:
        path = tmp_path / "report.html"
        path.write_text(source, encoding="utf-8")
        return open_offline(path, size, scheme)

    return open_page


@pytest.mark.parametrize(("size", "scheme"), [("wide", "light"), ("phone", "dark")])
def test_it_says_the_answer_draws_every_plot_and_fits_the_screen(
    look: Callable[..., Any], found_of: FoundOf, about: About, size: str, scheme: str
) -> None:
    found = found_of("chosen")
    page = look(tuned.html(found, about, 20_000), size, scheme)
    for plot in PLOTS:
        page.wait_for_selector(f"#{plot} .plot-container .main-svg")
    assert page.get_by_role("heading", level=1).inner_text() == answer.sentence(found, about)
    assert page.get_by_role("heading", level=1).bounding_box()["y"] < 200
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.locator("#frontier .scatterlayer .trace").count() == 2 * len(found.frontiers) + 2
    assert page.locator("#frontier .points path.point").count() == len(found.trials) + 2
    for plot in PLOTS:
        box = page.locator(f"#{plot} .main-svg").first.bounding_box()
        assert 250 < box["width"] <= SIZES[size][0]
        for words in page.locator(f"#{plot} .annotation-text").all():
            inner = words.bounding_box()
            assert box["x"] <= inner["x"]
            assert inner["x"] + inner["width"] <= box["x"] + box["width"], words.text_content()
    parts = page.locator(".bar span").all()
    assert len(parts) == 3
    assert all(part.bounding_box()["height"] > 20 for part in parts)
    trials = page.locator("details tbody tr")
    assert not trials.first.is_visible()
    page.locator("summary").click()
    assert trials.first.is_visible()
    assert trials.count() == len(found.trials)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.troubles == []


@pytest.mark.parametrize("kind", ["cannot meet", "nothing"])
def test_what_is_the_matter_is_a_whole_page_too(
    look: Callable[..., Any], found_of: FoundOf, about: About, kind: str
) -> None:
    found = found_of(kind)
    page = look(tuned.html(found, about), "phone")
    assert page.get_by_text(answer.BADGES[found.kind][0], exact=True).is_visible()
    assert page.get_by_role("heading", level=1).inner_text() == answer.sentence(found, about)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.troubles == []
