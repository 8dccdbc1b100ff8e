"""The inbox over HTTP, in the test's own process: status codes, sentences, escaping, bounded labels."""

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from slo.names import INBOX_ALERTS
from stack.inbox.held import Held
from stack.inbox.metrics import MOST_NAMES, InboxMetrics
from stack.inbox.store import NoticeStore
from stack.inbox.web import MAX_BODY_BYTES, create_app

NOW = 1_769_860_800.0  # 2026-01-31T12:00:00Z


def alert(name: str = "LatencySLOBreach", **changes: Any) -> dict[str, Any]:
    return {
        "status": "firing",
        "labels": {"alertname": name, "severity": "page"},
        "annotations": {},
        "startsAt": "2026-01-31T11:58:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "",
        "fingerprint": name,
        **changes,
    }


@pytest.fixture
def store(tmp_path: Path) -> NoticeStore:
    return NoticeStore(tmp_path / "inbox.jsonl", lambda: NOW - 600)


@pytest.fixture
def client(store: NoticeStore) -> FlaskClient:
    return create_app(store, InboxMetrics(), lambda: NOW).test_client()


def post(client: FlaskClient, *alerts: Any) -> Any:
    return client.post("/webhook", json={"version": "4", "alerts": list(alerts)})


def metric(client: FlaskClient, name: str, status: str) -> float | None:
    found = re.search(
        rf'^{INBOX_ALERTS}{{alertname="{name}",status="{status}"}} (\S+)$', client.get("/metrics").text, re.M
    )
    return float(found[1]) if found else None


def test_a_delivered_alert_is_kept_counted_listed_and_shown(client: FlaskClient) -> None:
    reply = post(client, alert(), alert("Other", status="resolved", endsAt="2026-01-31T11:59:00Z"))
    assert (reply.status_code, reply.json) == (200, {"received": 2})
    listed = client.get("/api/alerts").json
    assert [(entry["labels"]["alertname"], entry["status"]) for entry in listed] == [
        ("Other", "resolved"),
        ("LatencySLOBreach", "firing"),
    ]
    assert {"received_at", "status", "labels", "annotations", "startsAt", "endsAt"} <= set(listed[0])
    assert listed[0]["received_at"] == NOW
    assert metric(client, "LatencySLOBreach", "firing") == 1
    assert metric(client, "LatencySLOBreach", "resolved") == 0, "exists from the start of the other"
    page = client.get("/").text
    assert "<title>(1) Alert inbox</title>" in page
    assert "firing for 2 m 00 s" in page
    assert "lasted 1 m 00 s" in page


def test_an_empty_inbox_says_so(client: FlaskClient) -> None:
    page = client.get("/").text
    assert page.startswith("<!doctype html>")
    assert "Nothing is firing." in page
    assert "No alert has arrived so far." in page
    assert client.get("/api/alerts").json == []


def test_the_newest_few_can_be_asked_for(client: FlaskClient) -> None:
    post(client, alert("a"), alert("b"), alert("c"))
    assert [entry["fingerprint"] for entry in client.get("/api/alerts?limit=2").json] == ["c", "b"]
    for wrong in ("0", "-1", "x", "1001", "٣"):
        reply = client.get("/api/alerts", query_string={"limit": wrong})
        assert reply.status_code == 400
        assert "expected a whole number from 1 to 1000" in reply.json["error"]


def test_what_is_malformed_gets_a_sentence_and_costs_nothing(client: FlaskClient) -> None:
    post(client, alert("before"))
    reply = client.post("/webhook", data=b'{"alerts": [', content_type="application/json")
    assert reply.status_code == 400
    assert reply.json["error"].startswith("the body is not JSON")
    reply = post(client, {"status": "x"}, alert("beside"))
    assert reply.status_code == 400
    assert "1 of 2 alerts were kept" in reply.json["error"]
    assert [entry["fingerprint"] for entry in client.get("/api/alerts").json] == ["beside", "before"]


def test_a_body_that_is_too_large_is_refused(client: FlaskClient) -> None:
    reply = client.post("/webhook", data=b" " * (MAX_BODY_BYTES + 1), content_type="application/json")
    assert reply.status_code == 413
    assert str(MAX_BODY_BYTES) in reply.json["error"]


def test_a_form_of_some_other_page_is_refused(client: FlaskClient) -> None:
    reply = client.post("/webhook", data=json.dumps({"alerts": [alert()]}), content_type="text/plain")
    assert reply.status_code == 415
    assert "expected application/json" in reply.json["error"]


def test_a_full_disk_asks_for_the_alert_again(
    client: FlaskClient, store: NoticeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(notices: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "add", full)
    reply = post(client, alert())
    assert reply.status_code == 503, "Alertmanager repeats what gets 5xx and drops what gets 4xx"
    assert "No space left on device" in reply.json["error"]
    assert metric(client, "LatencySLOBreach", "firing") is None


@pytest.mark.parametrize("status", ["firing", "resolved"])
def test_nothing_that_arrives_can_write_on_the_page(client: FlaskClient, status: str) -> None:
    evil = '"><script>alert(1)</script>'
    post(
        client,
        alert(
            evil,
            status=status,
            labels={"alertname": evil, "severity": evil, evil: evil},
            annotations={"summary": evil, "description": evil, "runbook_url": f"javascript:{evil}"},
            generatorURL=f"javascript:{evil}",
        ),
    )
    page = client.get("/").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert 'href="javascript' not in page
    assert "script-src 'self'" in client.get("/").headers["Content-Security-Policy"]


def test_odd_texts_do_not_break_the_page(client: FlaskClient) -> None:
    post(client, alert("\ud800", labels={}, endsAt="9999-12-31T23:59:59-23:00", status="resolved"))
    assert client.get("/").status_code == client.get("/metrics").status_code == 200


def test_labels_are_bounded_however_many_names_arrive(client: FlaskClient) -> None:
    names = [f"n{number}" for number in range(MOST_NAMES + 30)]
    post(client, *(alert(name) for name in names), alert("x" * 5000))
    series = [line for line in client.get("/metrics").text.splitlines() if line.startswith(INBOX_ALERTS + "{")]
    assert len(series) == 2 * (MOST_NAMES + 1)
    assert metric(client, "other", "firing") == 31
    assert metric(client, names[0], "firing") == 1


def test_health_and_unknown_routes(client: FlaskClient) -> None:
    assert client.get("/healthz").json == {"status": "ok"}
    assert client.get("/nowhere").status_code == 404
    assert client.get("/webhook").status_code == 405


def test_the_page_says_what_alertmanager_no_longer_holds(store: NoticeStore) -> None:
    asked: list[list[str]] = []

    def held(fingerprints: Collection[str]) -> Held:
        asked.append(list(fingerprints))
        return Held(NOW + 100, {}, dict.fromkeys(fingerprints, NOW + 50))

    client = create_app(store, InboxMetrics(), lambda: NOW, held).test_client()
    assert "No longer held" not in client.get("/").text
    assert asked == []  # nothing fires, so there is nothing to ask
    post(client, alert(fingerprint="f1"))
    page = client.get("/").text
    assert asked == [["f1"]]
    assert "No longer held by Alertmanager" in page
    assert "Nothing is firing." in page
    assert "figures of" in page
