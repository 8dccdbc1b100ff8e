"""Alertmanager's webhook taken apart: what is kept, what is refused, and that good alerts survive bad neighbours."""

import json
from typing import Any

import pytest

from stack.inbox.notice import BadNotice, Notice, parse_webhook, unix_seconds


def alert(**changes: Any) -> dict[str, Any]:
    return {
        "status": "firing",
        "labels": {"alertname": "LatencySLOBreach", "job": "inference", "severity": "page"},
        "annotations": {"summary": "too slow"},
        "startsAt": "2026-01-31T12:00:00.123456789Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://127.0.0.1:9090/graph?g0.expr=up",
        "fingerprint": "c0ffee",
        **changes,
    }


def body(*alerts: Any) -> bytes:
    return json.dumps({"version": "4", "status": "firing", "receiver": "inbox", "alerts": list(alerts)}).encode()


def test_every_alert_becomes_a_notice_with_the_moment_it_arrived() -> None:
    (notice,) = parse_webhook(body(alert()), 1000.5)
    assert notice == Notice(
        received_at=1000.5,
        status="firing",
        labels={"alertname": "LatencySLOBreach", "job": "inference", "severity": "page"},
        annotations={"summary": "too slow"},
        startsAt="2026-01-31T12:00:00.123456789Z",
        endsAt="0001-01-01T00:00:00Z",
        generatorURL="http://127.0.0.1:9090/graph?g0.expr=up",
        fingerprint="c0ffee",
    )
    assert notice.alertname == "LatencySLOBreach"


def test_a_notice_written_as_json_is_read_as_itself() -> None:
    (notice,) = parse_webhook(body(alert()), 1000.5)
    (again,) = parse_webhook(body(notice.as_json()), 1000.5)
    assert again == notice


def test_without_a_fingerprint_equal_labels_are_the_same_alert() -> None:
    one, two, other = parse_webhook(
        body(
            alert(fingerprint="", labels={"a": "1", "b": "2"}),
            alert(fingerprint=None, labels={"b": "2", "a": "1"}),
            alert(fingerprint="", labels={"a": "1", "b": "3"}),
        ),
        0,
    )
    assert one.fingerprint == two.fingerprint != other.fingerprint
    assert one.alertname == "(no name)"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "the body is not JSON"),
        (b"\xff\xfe", "the body is not JSON"),
        (b"{" * 100_000, "the body is not JSON"),
        (b"[" * 100_000, "the body is not JSON"),
        (b"[]", "no list 'alerts'"),
        (b"{}", "no list 'alerts'"),
        (b'{"alerts": {}}', "no list 'alerts'"),
        (body(7), r"alerts\[0\] is not an object"),
        (body(alert(status="burning")), r'alerts\[0\] has the status "burning"; expected firing or resolved'),
        (body(alert(status=[])), r"alerts\[0\] has the status \[\]"),
        (body(alert(labels=[1])), r"alerts\[0\] has labels \[1\]; expected an object of texts"),
        (body(alert(annotations={"summary": 3})), r"alerts\[0\] has annotations"),
        (body(alert(startsAt="soon")), r'alerts\[0\] has the startsAt "soon"'),
        (body(alert(startsAt=None)), r"alerts\[0\] has the startsAt null"),
        (body(alert(labels={"x": ["y" * 5000]})), r"…; expected an object of texts"),
    ],
)
def test_what_is_no_webhook_is_refused_in_one_short_sentence(data: bytes, expected: str) -> None:
    with pytest.raises(BadNotice, match=expected) as caught:
        parse_webhook(data, 0)
    assert caught.value.good == ()
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


def test_good_alerts_survive_bad_neighbours() -> None:
    with pytest.raises(BadNotice, match=r"alerts\[1\] .* and 1 more like it; 2 of 4 alerts were kept") as caught:
        parse_webhook(body(alert(fingerprint="a"), {}, 3, alert(fingerprint="b")), 5)
    assert [notice.fingerprint for notice in caught.value.good] == ["a", "b"]


def test_half_a_surrogate_pair_is_replaced_because_it_cannot_be_written() -> None:
    (notice,) = parse_webhook(body(alert(labels={"alertname": "\ud800"}, annotations={"\udfff": "x\ud800"})), 0)
    assert notice.labels == {"alertname": "?"}
    assert notice.annotations == {"?": "x?"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T01:00:10.5+01:00", 10.5),
        ("1970-01-01T00:00:10.123456789Z", 10.123456),
        ("0001-01-01T00:00:00Z", None),  # Go's zero: not yet
        ("9999-12-31T23:59:59-23:59", None),  # could not be shown
        ("", None),
        ("yesterday", None),
        (12, None),
    ],
)
def test_times_in_unix_seconds(text: Any, seconds: float | None) -> None:
    assert unix_seconds(text) == seconds
