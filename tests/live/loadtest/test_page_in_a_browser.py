"""Locust's page as a person uses it: start, edit, a refused edit, the tab of the open loop; alone and with workers."""

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

Locust = Callable[..., Any]
PATIENCE = 60_000  # milliseconds, on a loaded machine
FROZEN_SECONDS = 8.0
# Half a second, so that a noisy machine neither breaks the objective nor makes the generator late.
SLO = """
services:
  - {job: inference, objective: 0.99, threshold_seconds: 0.5, window_days: 30, profile: local}
profiles:
  local: {windows: [30s, 2m], min_requests: 100, for: 15s, keep_firing_for: 30s}
"""


@pytest.fixture
def page(chromium: Any) -> Any:
    context = chromium.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    yield page
    context.close()


@pytest.fixture
def workers(root: Path, locust_command: list[str], tmp_path: Path) -> Callable[[int], Any]:
    """A context manager that runs two processes of their own which join the master on a port."""

    @contextmanager
    def run(port: int) -> Iterator[None]:
        command = [*locust_command, "--worker", "--master-port", str(port)]
        with (tmp_path / "workers.log").open("w") as log:
            processes = [subprocess.Popen(command, cwd=root, stdout=log, stderr=log) for _ in range(2)]
        try:
            yield
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(5)

    return run


def start(page: Any, **values: str) -> None:
    """Fill in the form's custom parameters and start."""
    page.get_by_role("button", name="Custom parameters").click()
    set_parameters(page, **values)
    page.get_by_role("button", name="Start", exact=True).click()


def edit(page: Any, **values: str) -> float:
    """Change custom parameters in mid-run; the instant of the click."""
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("button", name="Custom parameters").click()
    set_parameters(page, **values)
    clicked = time.monotonic()
    page.get_by_role("button", name="Update").click()
    return clicked


def set_parameters(page: Any, **values: str) -> None:
    for name, value in values.items():
        if page.locator(f"select[name={name}]").count():
            page.locator(f"select[name={name}]").select_option(value)
        else:
            page.locator(f"input[name={name}]").fill(value)


def test_a_person_starts_and_edits_a_load(locust: Locust, page: Any, tmp_path: Any) -> None:
    with locust() as run:
        page.goto(run.ui)
        strip = page.locator("#tailboard")
        assert "cap on requests in flight" in strip.inner_text()
        box = strip.bounding_box()
        assert box["y"] + box["height"] <= 1000  # in view without scrolling
        start(page, rate="-5")
        page.locator("form").get_by_text("rate is '-5'; expected a number above 0").wait_for()  # the form's own error
        assert run.stats()["state"] == "ready"

        set_parameters(page, rate="40", arrivals="constant")
        page.get_by_role("button", name="Start", exact=True).click()
        run.wait(lambda now: now["target_rate"] == 40, 30)
        page.locator("#tailboard-account").get_by_text("Now 40.0/s").wait_for()

        edit(page, rate="80")
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


def figure(page: Any, name: str) -> str:
    return str(page.locator(f"#open-loop [data-text={name}]").inner_text())


def test_the_tab_tells_how_a_run_stands_and_shows_a_frozen_server_at_once(
    locust: Locust, server: Any, page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slo.yaml").write_text(SLO)
    monkeypatch.setenv("SLO_FILE", str(tmp_path / "slo.yaml"))
    with locust() as run:
        page.goto(run.ui)
        panel = page.locator("#open-loop")
        assert not panel.is_visible()
        start(page, rate="200", arrivals="constant")
        page.get_by_role("tab", name="Open loop").click()
        panel.get_by_text("PASS so far").wait_for()  # after a thousand arrivals: five seconds
        assert figure(page, "target_rate") == "200.0/s"
        assert int(figure(page, "completed").replace(",", "")) >= 1000
        assert figure(page, "dropped") == "0"
        assert figure(page, "first_reason").startswith("p99 holds so far")
        assert re.fullmatch(r"[\d.]+ (ms|µs|s)", panel.locator("tr.main td").nth(3).inner_text())
        bar = page.get_by_role("tablist").bounding_box()
        assert bar["y"] < panel.bounding_box()["y"] < bar["y"] + 200  # right below the tabs
        panel.screenshot(path=str(tmp_path / "pass.png"))

        server.hold_until = time.monotonic() + FROZEN_SECONDS
        panel.get_by_text("FAIL so far").wait_for()
        assert time.monotonic() < server.hold_until, "the verdict waited for replies"
        page.locator(".bad [data-text=oldest]").get_by_text(re.compile(r"^[12]\.\d+ s")).wait_for()
        assert time.monotonic() < server.hold_until
        assert "waiting for longer than the threshold right now" in panel.locator("li").first.inner_text()
        page.screenshot(path=str(tmp_path / "frozen.png"))

        # Other tabs are Locust's own; this one comes back as it was, also in the dark.
        page.get_by_role("tab", name="Charts").click()
        panel.wait_for(state="hidden")
        page.get_by_role("tab", name="Open loop").click()
        panel.wait_for()
        light = panel.get_attribute("data-theme")
        page.locator("header button").last.click()
        page.wait_for_function("theme => document.getElementById('open-loop').dataset.theme !== theme", arg=light)
        page.screenshot(path=str(tmp_path / "other-scheme.png"))
        page.set_viewport_size({"width": 420, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
    assert page.errors == []


def test_an_edit_reaches_two_separate_workers_within_two_seconds(
    locust: Locust, server: Any, page: Any, workers: Callable[[int], Any], free_port: Callable[[], int], tmp_path: Path
) -> None:
    port = free_port()
    with locust("--master", "--master-bind-port", str(port)) as run, workers(port):
        end = time.monotonic() + PATIENCE / 1000
        while run.stats().get("worker_count") != 2:
            assert time.monotonic() < end, run.output
            time.sleep(0.2)
        page.goto(run.ui)
        start(page, rate="50", arrivals="constant")
        page.get_by_role("tab", name="Open loop").click()
        run.wait(lambda now: now["run"]["completed"] >= 150, 30)
        before = time.monotonic()
        assert server.rate(before - 1.5, before) == pytest.approx(50, rel=0.15)

        clicked = edit(page, rate="150")
        time.sleep(4.5)
        assert server.rate(clicked + 2, clicked + 4) == pytest.approx(150, rel=0.1)  # at the server, on both
        page.locator("#open-loop [data-text=target_rate]").get_by_text("150.0/s").wait_for()
        workers_of_run = run.stats()["workers"]
        assert [worker["state"] for worker in workers_of_run] == ["running", "running"]
        page.screenshot(path=str(tmp_path / "workers.png"))
        page.get_by_role("button", name="Stop").click()
        # Each worker's last report comes up to a second later.
        run.wait(lambda now: now["run"]["offered"] == now["run"]["completed"] == len(server.arrivals), 20)
    assert page.errors == []
