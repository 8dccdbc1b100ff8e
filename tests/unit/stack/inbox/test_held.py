"""What the inbox learns from Alertmanager's list of alerts, and what it makes of no answer."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from stack.inbox.held import Alertmanager, HeldAlert
from stack.inbox.notice import unix_seconds

ALERT = {
    "fingerprint": "f1",
    "annotations": {"summary": "now"},
    "updatedAt": "2026-01-31T12:00:00.500Z",
    "status": {"state": "suppressed", "inhibitedBy": ["f2"], "silencedBy": []},
}
UPDATED = unix_seconds(ALERT["updatedAt"]) or 0.0


class Asked:
    """A clock and an Alertmanager in one."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.now, self.urls = answer, UPDATED + 10, list[str]()

    def fetch(self, url: str) -> bytes:
        self.urls.append(url)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()


@pytest.fixture
def make() -> Callable[[Asked], Alertmanager]:
    return lambda asked: Alertmanager("http://a:9093/", lambda: asked.now, asked.fetch)


def test_it_knows_the_texts_and_when_they_were_written(make: Callable[[Asked], Alertmanager]) -> None:
    asked = Asked([ALERT])
    held = make(asked).held(["f1"])
    assert asked.urls == ["http://a:9093/api/v2/alerts"]
    assert held is not None
    assert held.alerts == {"f1": HeldAlert({"summary": "now"}, UPDATED)}
    assert held.missing_since == {}


def test_one_answer_serves_all_readers_for_two_seconds(make: Callable[[Asked], Alertmanager]) -> None:
    asked = Asked([ALERT])
    alertmanager = make(asked)
    first = alertmanager.held([])
    asked.now += 1.9
    assert alertmanager.held([]) == first
    asked.now += 0.2
    alertmanager.held([])
    assert len(asked.urls) == 2


def test_it_remembers_since_when_one_is_missing(make: Callable[[Asked], Alertmanager]) -> None:
    asked = Asked([])
    alertmanager, began = make(asked), asked.now
    for _ in range(3):
        held = alertmanager.held(["f1", "f3"])
        asked.now += 5
    assert held is not None
    assert held.missing_since == {"f1": began, "f3": began}
    asked.answer = [ALERT]
    held = alertmanager.held(["f1", "f3"])
    assert held is not None
    assert held.missing_since == {"f3": began}


@pytest.mark.parametrize(
    "answer",
    [
        ConnectionRefusedError("refused"),
        TimeoutError("late"),
        b"<html>",
        b"\xff",
        {"status": "error"},
        [{"labels": {}}],
        ["text"],
        [{**ALERT, "fingerprint": 7}],
    ],
    ids=str,
)
def test_what_is_no_answer_is_none(answer: Any, make: Callable[[Asked], Alertmanager]) -> None:
    asked = Asked(answer)
    alertmanager = make(asked)
    assert alertmanager.held(["f1"]) is None
    asked.answer, asked.now = [ALERT], asked.now + 3
    assert alertmanager.held(["f1"]) is not None


def test_odd_texts_and_times_do_no_harm(make: Callable[[Asked], Alertmanager]) -> None:
    asked = Asked([{"fingerprint": "f1", "annotations": {"summary": 1, "description": "d"}, "updatedAt": "x"}])
    held = make(asked).held([])
    assert held is not None
    assert held.alerts["f1"] == HeldAlert({"description": "d"}, asked.now)
