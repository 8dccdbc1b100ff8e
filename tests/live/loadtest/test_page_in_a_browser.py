"""Locust's page as a person uses it: start, edit, a refused edit, the account in view."""

from collections.abc import Callable
from typing import Any

import pytest

Locust = Callable[..., Any]
PATIENCE = 60_000  # milliseconds, on a loaded machine


@pytest.fixture
def page(chromium: Any) -> Any:
    context = chromium.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    yield page
    context.close()


def test_a_person_starts_and_edits_a_load(locust: Locust, page: Any, tmp_path: Any) -> None:
    with locust() as run:
        page.goto(run.ui)
        strip = page.locator("#tailboard")
        assert "cap on requests in flight" in strip.inner_text()
        box = strip.bounding_box()
        assert box["y"] + box["height"] <= 1000  # in view without scrolling
        page.get_by_role("button", name="Custom parameters").click()
        page.locator("input[name=rate]").fill("-5")
        page.get_by_role("button", name="Start", exact=True).click()
        page.locator("form").get_by_text("rate is '-5'; expected a number above 0").wait_for()  # the form's own error
        assert run.stats()["state"] == "ready"

        page.locator("input[name=rate]").fill("40")
        page.locator("select[name=arrivals]").select_option("constant")
        page.get_by_role("button", name="Start", exact=True).click()
        run.wait(lambda now: now["target_rate"] == 40, 30)
        page.locator("#tailboard-account").get_by_text("Now 40.0/s").wait_for()

        page.get_by_role("button", name="Edit").click()
        page.get_by_role("button", name="Custom parameters").click()
        assert page.locator("input[name=rate]").input_value() == "40"
        page.locator("input[name=rate]").fill("80")
        page.get_by_role("button", name="Update").click()
        run.wait(lambda now: now["target_rate"] == 80, 5)

        # Another person opens the page: it offers the values in force, not those of the command line.
        page.reload()
        page.get_by_role("button", name="Edit").click()
        page.get_by_role("button", name="Custom parameters").click()
        assert page.locator("input[name=rate]").input_value() in ("80", "80.0")
        assert page.locator("select[name=arrivals]").input_value() == "constant"

        page.locator("input[name=rate]").fill("0")
        page.get_by_role("button", name="Update").click()
        refused = page.locator("#tailboard-refused")
        refused.get_by_text("rate is '0'; expected a number above 0").wait_for()  # Locust's dialog closes in silence
        assert run.load()["target_rate"] == 80
        page.screenshot(path=str(tmp_path / "locust.png"))

        page.get_by_role("button", name="Stop").click()
        run.wait(lambda now: now["target_rate"] == 0, 20)
    assert page.errors == []
