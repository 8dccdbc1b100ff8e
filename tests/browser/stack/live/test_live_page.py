"""What a viewer sees: the files' panels, numbers that move, alert marks, and plain words when there is nothing."""

import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stack.binaries import Binaries
from tests.live.stack.live.world import FakeService, exporter, live_page, prometheus, until

RULES = """
groups:
  - name: test
    rules:
      - alert: LatencySLOBreach
        expr: histogram_quantile(0.99, sum by (le) (rate(inference_request_duration_seconds_bucket[5s]))) > 0.05
        labels: {severity: page, job: inference}
"""
UID = "latency-vs-throughput"


@dataclass
class World:
    url: str
    service: FakeService
    dashboards: Path


def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def copied(root: Path, directory: Path) -> Path:
    for path in (root / "grafana" / "dashboards").glob("*.json"):
        (directory / path.name).write_bytes(path.read_bytes())
    return directory


@pytest.fixture(scope="module")
def world(root: Path, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    service = FakeService(rate=400, median_seconds=0.005)
    dashboards = copied(root, tmp_path_factory.mktemp("dashboards"))
    directory = tmp_path_factory.mktemp("world")
    with (
        exporter(service) as target,
        prometheus(binaries.prometheus, port(), directory, target, RULES) as prometheus_url,
        live_page(port(), prometheus_url, dashboards, directory / "live.log") as url,
    ):
        yield World(url, service, dashboards)


def drawn(page: Any) -> None:
    page.wait_for_selector("html[data-drawn]", state="attached")


def panel(page: Any, title: str, kind: str) -> Any:
    """The first panel of that title and type."""
    return page.locator(f'article[data-type="{kind}"][aria-label="{title}"]').first


def milliseconds(text: str) -> float:
    """The number that a tile shows: "31.7 ms" or "1.2 s"."""
    number, unit = text.replace(",", "").split()
    return float(number) * {"ms": 1.0, "s": 1000.0, "µs": 0.001}[unit]


def test_the_p99_moves_the_alert_is_marked_and_nothing_flickers(
    world: World, open_page: Callable[..., Any], complaints: list[str]
) -> None:
    page = open_page(f"{world.url}/d/{UID}?from=now-5m&to=now")
    drawn(page)
    p99 = panel(page, "p99", "stat").locator(".value")
    until(lambda: " ms" in p99.inner_text(), 40, "a p99 in milliseconds")
    before = milliseconds(p99.inner_text())
    assert 8 < before < 30
    latency = panel(page, "Latency", "timeseries")
    latency.locator(".main-svg .scatterlayer path.js-line").first.wait_for(state="attached")
    page.evaluate("() => { document.querySelector('article[data-type=timeseries] .main-svg').kept = true; }")

    world.service.median_seconds = 0.05

    until(lambda: milliseconds(p99.inner_text()) > 60, 60, "the p99 follows the service")
    assert "over 50 ms" in panel(page, "p99", "stat").inner_text()  # said, not only coloured
    page.locator("#firing:not([hidden]) b", has_text="LatencySLOBreach").wait_for()
    latency.locator(".annotation-text", has_text="LatencySLOBreach").wait_for(state="attached")
    # Redrawn in place all the while: the very same element.
    assert page.evaluate("() => document.querySelector('article[data-type=timeseries] .main-svg').kept") is True
    world.service.median_seconds = 0.005
    assert complaints == []


def test_a_panel_that_is_added_to_the_file_appears(
    world: World, open_page: Callable[..., Any], complaints: list[str]
) -> None:
    page = open_page(f"{world.url}/d/{UID}")
    drawn(page)
    file = next(path for path in world.dashboards.glob("*.json") if json.loads(path.read_text())["uid"] == UID)
    document = json.loads(file.read_text())
    added = {
        "id": 4711, "type": "timeseries", "title": "Added while looking",
        "gridPos": {"x": 0, "y": 900, "w": 24, "h": 6},
        "fieldConfig": {"defaults": {"unit": "reqps"}},
        "targets": [{"expr": "sum(rate(inference_request_duration_seconds_count[20s]))", "legendFormat": "answered"}],
    }  # fmt: skip
    file.write_text(json.dumps({**document, "panels": [*document["panels"], added]}))

    found = panel(page, "Added while looking", "timeseries")  # the open page notices by itself
    found.locator("path.js-line").wait_for(state="attached")
    assert "answered" in found.locator(".legend").inner_text()
    file.write_text(json.dumps(document))
    assert complaints == []


def test_a_failed_query_shows_its_message_in_its_panel(world: World, open_page: Callable[..., Any]) -> None:
    broken = {"id": 1, "type": "timeseries", "title": "Broken", "targets": [{"expr": "sum(rate("}]}
    (world.dashboards / "broken.json").write_text(json.dumps({"uid": "broken", "title": "B", "panels": [broken]}))
    page = open_page(f"{world.url}/d/broken")
    message = panel(page, "Broken", "timeseries").locator(".message.error")
    message.wait_for()
    assert "Query A failed: bad_data:" in message.inner_text()
    (world.dashboards / "broken.json").unlink()


VARIABLE = """
{"uid": "own", "title": "Own", "time": {"from": "now-5m", "to": "now"},
 "templating": {"list": [{"type": "query", "name": "outcome", "label": "Outcome", "sort": 1,
   "query": "label_values(inference_request_duration_seconds_count, outcome)"}]},
 "panels": [
  {"id": 1, "type": "stat", "title": "Requests", "gridPos": {"x": 0, "y": 0, "w": 6, "h": 4},
   "fieldConfig": {"defaults": {"unit": "reqps"}}, "targets": [{"instant": true,
    "expr": "sum(rate(inference_request_duration_seconds_count{outcome=\\"$outcome\\"}[$__rate_interval]))"}]},
  {"id": 2, "type": "table", "title": "By outcome", "gridPos": {"x": 6, "y": 0, "w": 12, "h": 8},
   "fieldConfig": {"defaults": {"unit": "short"}}, "targets": [{"instant": true, "format": "table",
    "expr": "sum by (outcome) (inference_request_duration_seconds_count)"}]}
 ]}
"""


def test_a_variable_is_chosen_and_a_table_has_its_rows(
    world: World, open_page: Callable[..., Any], complaints: list[str]
) -> None:
    (world.dashboards / "own.json").write_text(VARIABLE)
    page = open_page(f"{world.url}/d/own?var-outcome=ok")
    requests = panel(page, "Requests", "stat").locator(".value")
    until(lambda: "req/s" in requests.inner_text() and not requests.inner_text().startswith("0"), 40, "requests")
    picker = page.locator("#variables select")
    assert picker.locator("option").all_inner_texts() == ["failed", "ok", "shed"]
    picker.select_option("shed")
    until(lambda: requests.inner_text().split() == ["0", "req/s"], 30, "none is shed")
    assert "var-outcome=shed" in page.url
    rows = panel(page, "By outcome", "table").locator("tbody tr")
    assert sorted(row.split("\t")[0] for row in rows.all_inner_texts()) == ["failed", "ok", "shed"]
    (world.dashboards / "own.json").unlink()
    assert complaints == []


def test_every_dashboard_dark_on_a_wall_and_light_on_a_phone(
    world: World, open_page: Callable[..., Any], complaints: list[str]
) -> None:
    """Nothing is wider than the screen, every panel has something in it, and the browser has nothing to complain of."""
    screens = (
        {"viewport": {"width": 1920, "height": 1080}, "color_scheme": "dark"},
        {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "is_mobile": True, "has_touch": True},
    )
    for screen in screens:
        page = open_page(f"{world.url}/d/{UID}", **screen)
        for title in ("Latency vs throughput", "Batcher", "SLO", "Stack health"):
            page.locator(".dashboards a", has_text=title).first.click()
            page.wait_for_url(lambda url, title=title: url.split("/d/")[1].startswith(title.lower().split()[0]))
            drawn(page)
            width = screen["viewport"]["width"]  # type: ignore[index]
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width, (title, width)
            empty = page.locator("article .body:empty, article .waiting").count()
            assert empty == 0, (title, width)
            assert page.locator(".lead").inner_text().endswith("."), title  # what one looks at, in a sentence
        page.close()
    assert complaints == []


def test_each_kind_of_chart_is_drawn_and_the_whole_of_it_fits_a_wall(
    world: World, open_page: Callable[..., Any], complaints: list[str]
) -> None:
    world.service.median_seconds = 0.005
    page = open_page(f"{world.url}/d/{UID}", viewport={"width": 1920, "height": 1080})
    drawn(page)
    until(lambda: page.locator("article[data-type=xychart] .scatterlayer path.point").count() > 2, 40, "points")
    panel(page, "Latency", "timeseries").locator("path.js-line").first.wait_for(state="attached")
    panel(page, "Latency distribution", "heatmap").locator(".heatmaplayer image").wait_for(state="attached")
    slo = panel(page, "p99 against throughput", "xychart").locator(".annotation-text", has_text="SLO 50 ms")
    assert slo.count() == 1
    lowest = page.evaluate("() => document.querySelector('main .grid').getBoundingClientRect().bottom")
    assert 800 < lowest <= 1080  # all of it, and nearly the whole height
    assert page.evaluate("() => performance.getEntriesByName('first-chart')[0].startTime") < 20_000
    panel(page, "p99", "stat").locator("h3").click()  # a title explains itself
    page.locator(".about-text:popover-open", has_text="99% of the requests that count").wait_for()
    assert complaints == []


def test_time_range_legend_theme_and_enlarging(
    world: World, open_page: Callable[..., Any], complaints: list[str]
) -> None:
    page = open_page(f"{world.url}/d/{UID}", color_scheme="dark")
    drawn(page)
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    dark = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") != dark

    page.locator("#range").select_option("now-1h")
    assert "from=now-1h" in page.url

    throughput = panel(page, "Throughput", "timeseries")
    entry = throughput.locator(".legend button").first
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"

    throughput.hover()
    throughput.locator(".enlarge").click()
    box = throughput.bounding_box()
    assert box["width"] > 1300
    assert box["height"] > 700
    page.keyboard.press("Escape")
    assert throughput.bounding_box()["width"] < 1000
    assert complaints == []


def test_times_are_the_viewer_s_own_and_a_stretch_can_be_zoomed_into(
    world: World, open_page: Callable[..., Any], complaints: list[str]
) -> None:
    page = open_page(f"{world.url}/d/{UID}?from=now-5m&to=now", timezone_id="Asia/Kolkata")
    drawn(page)
    behind = page.evaluate("""() => {
        const end = document.querySelector("article[data-type=timeseries] .plot")._fullLayout.xaxis.range[1];
        return (Date.now() - new Date(end.replace(" ", "T")).getTime()) / 1000;  // both as the wall clock there
    }""")
    assert -5 < behind < 60

    plot = panel(page, "Throughput", "timeseries").locator(".nsewdrag").first.bounding_box()
    middle = plot["y"] + plot["height"] / 2
    page.mouse.move(plot["x"] + plot["width"] * 0.25, middle)
    page.mouse.down()
    page.mouse.move(plot["x"] + plot["width"] * 0.75, middle, steps=5)
    page.mouse.up()
    page.locator("#back:not([hidden])").wait_for()
    start, end = (int(page.evaluate(f"() => new URL(location).searchParams.get('{key}')")) for key in ("from", "to"))
    assert 140_000 < end - start < 160_000  # half of five minutes
    assert 60_000 < page.evaluate("() => Date.now()") - end < 200_000
    page.locator("#back").click()
    assert "to=now" in page.url
    assert complaints == []


def test_a_phone_needs_no_sideways_scrolling(
    world: World, open_page: Callable[..., Any], complaints: list[str]
) -> None:
    page = open_page(f"{world.url}/d/{UID}", viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    drawn(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    tile = panel(page, "p99", "stat").bounding_box()
    assert 150 < tile["width"] < 200  # two beside each other
    assert complaints == []


def test_without_prometheus_the_page_says_what_to_do(
    root: Path, free_port: Callable[[], int], tmp_path: Path, open_page: Callable[..., Any], complaints: list[str]
) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with live_page(free_port(), nobody, root / "grafana" / "dashboards", tmp_path / "log") as url:
        page = open_page(f"{url}/d/{UID}")
        banner = page.locator("#banner:not([hidden])")
        banner.wait_for()
        assert "No Prometheus." in banner.inner_text()
        assert f"no Prometheus at {nobody}: connection refused" in banner.inner_text()
        assert "make up" in banner.inner_text()
        page.close()
    assert complaints == []


def test_an_idle_service_is_not_an_error(
    root: Path, binaries: Binaries, free_port: Callable[[], int], tmp_path: Path, open_page: Callable[..., Any]
) -> None:
    service = FakeService(rate=0)
    with (
        exporter(service) as target,
        prometheus(binaries.prometheus, free_port(), tmp_path / "p", target) as prometheus_url,
        live_page(free_port(), prometheus_url, root / "grafana" / "dashboards", tmp_path / "log") as url,
    ):
        page = open_page(f"{url}/d/{UID}")
        page.locator("#banner:not([hidden])", has_text="No traffic yet.").wait_for()
        assert page.locator("#banner a").inner_text() == "Start load in Locust"
        assert "no traffic" in panel(page, "p99", "stat").inner_text().lower()
        page.close()
