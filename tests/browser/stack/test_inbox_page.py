"""The inbox's page in a real browser: both themes, a phone, and that it keeps itself fresh and honest."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from stack.inbox.metrics import InboxMetrics
from stack.inbox.notice import Notice
from stack.inbox.store import NoticeStore
from stack.inbox.web import create_app

EVIL = '"><img src=x onerror="document.title=666">'


def now() -> float:
    return datetime.now(UTC).timestamp()


def notice(name: str, status: str = "firing", severity: str = "page", age: float = 125, **annotations: str) -> Notice:
    starts = datetime.fromtimestamp(now() - age, UTC).isoformat()
    ends = datetime.now(UTC).isoformat() if status == "resolved" else "0001-01-01T00:00:00Z"
    labels = {"alertname": name, "severity": severity, "job": "inference", "long": "x" * 300}
    return Notice(now(), status, labels, annotations, starts, ends, "http://127.0.0.1:9090/graph", name)


@dataclass
class Served:
    url: str
    store: NoticeStore
    stop: Callable[[], None]


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Served]:
    store = NoticeStore(tmp_path / "inbox.jsonl", now)
    server = make_server("127.0.0.1", 0, create_app(store, InboxMetrics(), now), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def stop() -> None:
        if thread.is_alive():
            server.shutdown()
            thread.join()
            server.server_close()

    yield Served(f"http://127.0.0.1:{server.server_port}/", store, stop)
    stop()


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport={"width": 1100, "height": 800}, color_scheme="light")
    page = context.new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda line: page.complaints.append(line.text) if line.type == "error" else None)
    yield page
    context.close()


def test_an_empty_inbox_says_so(inbox: Served, page: Any) -> None:
    page.goto(inbox.url)
    assert page.get_by_text("Nothing is firing.").is_visible()
    assert page.get_by_text("No alert has arrived so far.").is_visible()
    assert page.title() == "Alert inbox"
    assert page.complaints == []


def test_an_alert_appears_and_resolves_without_a_reload(inbox: Served, page: Any) -> None:
    page.goto(inbox.url)
    page.evaluate("window.sameDocument = true")
    firing = notice("LatencySLOBreach", summary="6% of requests were slow")
    inbox.store.add([firing])
    card = page.locator("article.card.page", has_text="LatencySLOBreach")
    card.wait_for(timeout=15_000)
    assert "6% of requests were slow" in card.inner_text()
    assert "firing for 2 m" in card.inner_text()
    assert page.title() == "(1) Alert inbox"
    inbox.store.add([replace(firing, status="resolved", endsAt=datetime.now(UTC).isoformat())])
    page.get_by_text("Nothing is firing.").wait_for(timeout=15_000)
    assert page.locator(".history li", has_text="LatencySLOBreach").is_visible()
    assert page.evaluate("window.sameDocument")
    assert page.complaints == []


def test_when_the_inbox_stops_answering_the_page_says_so(inbox: Served, page: Any) -> None:
    page.goto(inbox.url)
    inbox.stop()
    page.get_by_text("The inbox does not answer; this is as of").wait_for(timeout=20_000)


def test_times_are_in_the_readers_own_zone(inbox: Served, chromium: Any) -> None:
    context = chromium.new_context(timezone_id="Asia/Kolkata", locale="en-GB")
    page = context.new_page()
    inbox.store.add([notice("A")])
    page.goto(inbox.url)
    shown = page.locator("article time").first
    utc = datetime.fromisoformat(shown.get_attribute("datetime"))
    assert shown.inner_text().endswith(datetime.fromtimestamp(utc.timestamp() + 5.5 * 3600, UTC).strftime("%H:%M:%S"))
    assert shown.get_attribute("title").endswith("UTC")
    context.close()


def test_what_arrives_cannot_run_on_the_page(inbox: Served, page: Any) -> None:
    inbox.store.add([notice(EVIL, severity=EVIL, summary=EVIL, description=EVIL, runbook_url=f"javascript:{EVIL}")])
    page.goto(inbox.url)
    assert page.get_by_role("heading", name=EVIL).is_visible()
    assert page.title() == "(1) Alert inbox"
    assert page.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
def test_everything_fits_and_can_be_read(inbox: Served, page: Any, scheme: str, width: int) -> None:
    inbox.store.add(
        [notice("P"), notice("T", severity="ticket"), notice("O", severity="else"), notice("R", "resolved")]
    )
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(inbox.url)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    texts = ".severity, .age, .chips li, .chips span, footer span, h1, h2, h3, .lasted, .span, small, a"
    ratios = page.evaluate(CONTRAST, texts)
    assert len(ratios) > 30
    assert min(ratio for ratio, _ in ratios) >= 4.5, min(ratios)  # WCAG AA for text


CONTRAST = """selector => {
  const channel = value => value <= 10.314 ? value / 255 / 12.92 : ((value / 255 + .055) / 1.055) ** 2.4;
  const numbers = color => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
  const paper = element => {
    for (let e = element; e; e = e.parentElement) {
      const color = numbers(getComputedStyle(e).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll(selector)].filter(e => e.textContent.trim()).map(e => {
    const [a, b] = [light(numbers(getComputedStyle(e).color)), light(paper(e))];
    return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.textContent.trim().slice(0, 40)];
  });
}"""
