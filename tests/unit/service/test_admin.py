"""The admin port: who may turn the knobs, what they may be turned to, and what is shown."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from service import admin
from service.batching.policy import Knobs
from service.health import Health
from service.records import RequestRecord
from service.slowest import Slowest

TOKEN = {"Authorization": "Bearer s3cret"}


class Turned:
    capacity_rows = 1024
    healthy = True

    def __init__(self) -> None:
        self.knobs = Knobs("adaptive", 128, 0.005)


@pytest.fixture
def batcher() -> Turned:
    return Turned()


@pytest.fixture
def slowest() -> Slowest:
    return Slowest(lambda: 1000.0)


@pytest.fixture
def client(batcher: Turned, slowest: Slowest) -> Callable[..., Any]:
    def make(token: str | None = "s3cret") -> Any:
        return admin.create_app(
            admin.AdminServices(batcher, Health(batcher), lambda: b"one 1\n", slowest, token)
        ).test_client()

    return make


def patch(client: Any, change: object, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    """As `curl -d` sends it: with a form's content type."""
    data = change if isinstance(change, bytes) else json.dumps(change)
    response = client.patch(
        "/admin/batching",
        data=data,
        headers=TOKEN if headers is None else headers,
        content_type="application/x-www-form-urlencoded",
    )
    return response.status_code, response.json


def test_metrics_are_plain_text(client: Callable[..., Any]) -> None:
    response = client().get("/metrics")
    assert response.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert response.data == b"one 1\n"


def test_any_subset_of_the_knobs_can_be_turned(client: Callable[..., Any], batcher: Turned) -> None:
    assert patch(client(), {"max_batch_rows": 1}) == (
        200,
        {"policy": "adaptive", "max_batch_rows": 1, "max_wait_seconds": 0.005},
    )
    assert patch(client(), {"policy": "fixed", "max_wait_seconds": 0}) == (
        200,
        {"policy": "fixed", "max_batch_rows": 1, "max_wait_seconds": 0},
    )
    assert batcher.knobs == Knobs("fixed", 1, 0)
    assert client().get("/admin/batching").json == {"policy": "fixed", "max_batch_rows": 1, "max_wait_seconds": 0}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"max_batch_rows": 0}, "max_batch_rows is 0; expected a whole number of at least 1"),
        ({"max_batch_rows": 1.5}, "max_batch_rows is 1.5; expected a whole number of at least 1"),
        ({"max_batch_rows": True}, "max_batch_rows is True; expected a whole number of at least 1"),
        ({"max_batch_rows": 2000}, "max_batch_rows is 2000; expected at most the queue's capacity, 1024"),
        ({"max_wait_seconds": -1}, "max_wait_seconds is -1; expected a number from 0 to 60"),
        ({"max_wait_seconds": "5ms"}, "max_wait_seconds is '5ms'; expected a number from 0 to 60"),
        ({"policy": "eager"}, "policy is 'eager'; expected adaptive or fixed"),
        ({"policy": ["fixed"]}, "policy is ['fixed']; expected adaptive or fixed"),
        ({"batch": 3}, "unknown key 'batch'; expected 'policy', 'max_batch_rows' or 'max_wait_seconds'"),
        ({}, 'the change is empty; expected an object such as {"max_batch_rows": 128}'),
        ([1], 'the body is a list; expected an object such as {"max_batch_rows": 128}'),
        (b"", 'the body is empty; expected an object such as {"max_batch_rows": 128}'),
    ],
)
def test_a_wrong_change_changes_nothing(
    client: Callable[..., Any], batcher: Turned, change: object, sentence: str
) -> None:
    assert patch(client(), change) == (400, {"error": sentence})
    assert batcher.knobs == Knobs("adaptive", 128, 0.005)


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ({}, "no token was given; expected the header 'Authorization: Bearer <SERVICE_ADMIN_TOKEN>'"),
        ({"Authorization": "Basic s3cret"}, "no token was given; expected the header"),
        ({"Authorization": "Bearer wrong"}, "the token is wrong; expected the value of SERVICE_ADMIN_TOKEN"),
        ({"Authorization": "Bearer s3cre\u00e9"}, "the token is wrong; expected the value of SERVICE_ADMIN_TOKEN"),
        ({"Authorization": "Bearer"}, "the token is wrong; expected the value of SERVICE_ADMIN_TOKEN"),
    ],
)
def test_a_wrong_token_is_401(
    client: Callable[..., Any], batcher: Turned, headers: dict[str, str], sentence: str
) -> None:
    status, body = patch(client(), {"max_batch_rows": 1}, headers)
    assert status == 401
    assert body["error"].startswith(sentence)
    assert batcher.knobs.max_batch_rows == 128


def test_without_a_token_nobody_may(client: Callable[..., Any], batcher: Turned) -> None:
    assert patch(client(None), {"max_batch_rows": 1}) == (
        403,
        {"error": "changing the knobs is off, because the service was started without SERVICE_ADMIN_TOKEN"},
    )
    assert batcher.knobs.max_batch_rows == 128


def test_probes(client: Callable[..., Any], batcher: Turned) -> None:
    assert client().get("/healthz").json == {"live": True}
    assert client().get("/readyz").json == {"ready": True}
    batcher.healthy = False
    assert client().get("/healthz").status_code == 503


def test_errors_are_json(client: Callable[..., Any]) -> None:
    assert client().get("/nowhere").status_code == 404
    assert "error" in client().get("/nowhere").json
    assert client().post("/metrics").status_code == 405
    large = client().patch("/admin/batching", data=b"x" * 100_000, headers=TOKEN)
    assert large.status_code == 413


def test_the_slowest_come_first(client: Callable[..., Any], slowest: Slowest) -> None:
    for milliseconds in (5, 80, 20):
        slowest.on_request(
            RequestRecord(
                "/predict",
                "ok",
                200,
                milliseconds / 1e3,
                None,
                2,
                0.003,
                0.001,
                64,
                b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01",
            )
        )
    shown = client().get("/admin/slowest?limit=2").json["requests"]
    assert [entry["total_ms"] for entry in shown] == [80, 20]
    assert shown[0] == {
        "ended_at": 1000.0,
        "route": "/predict",
        "outcome": "ok",
        "status": 200,
        "reason": None,
        "total_ms": 80.0,
        "queue_ms": 3.0,
        "model_ms": 1.0,
        "rest_ms": 76.0,
        "rows": 2,
        "batch_rows": 64,
        "trace_id": "a" * 32,
    }


@pytest.mark.parametrize("limit", ["0", "-1", "many", "1000000", "²"])
def test_a_wrong_limit(client: Callable[..., Any], limit: str) -> None:
    response = client().get("/admin/slowest", query_string={"limit": limit})
    assert response.status_code == 400
    assert response.json == {"error": f"limit is {limit!r}; expected a whole number from 1 to 400"}
