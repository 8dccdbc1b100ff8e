"""Everything but inference: health, metadata, the page, the document, and errors as JSON."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from service import web
from service.health import Health
from service.links import PARTS, Link, from_environment


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/healthz", {"live": True}),
        ("/readyz", {"ready": True}),
        ("/v2/health/live", {"live": True}),
        ("/v2/health/ready", {"ready": True}),
        ("/v2/models/sums/ready", {"ready": True}),
        ("/v2", {"name": "tailboard", "version": "0", "extensions": ["binary_tensor_data"]}),
    ],
)
def test_probes_and_metadata(world: Any, path: str, body: dict[str, Any]) -> None:
    answer = world.call("GET", path)
    assert (answer.status, answer.json) == (200, body)
    assert [(record.route, record.outcome) for record in world.records] == [(path.replace("sums", "{name}"), "ok")]


@pytest.mark.parametrize("path", ["/readyz", "/v2/health/ready", "/v2/models/sums/ready"])
def test_draining_is_not_ready_but_alive(world: Any, path: str) -> None:
    world.health.draining = True
    answer = world.call("GET", path)
    assert (answer.status, answer.json) == (503, {"error": "the service is draining"})
    assert world.call("GET", "/healthz").status == 200


def test_without_a_model_it_is_not_ready_but_alive() -> None:
    up = False
    health = Health(ScriptedHealth(), lambda: up)
    assert health.not_ready() == "no model worker runs; one is being started"
    assert health.not_live() is None
    up = True
    assert health.not_ready() is None


class ScriptedHealth:
    healthy = True


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v2/health/live"])
def test_a_batcher_that_stopped_is_not_alive(world: Any, path: str) -> None:
    world.batcher.healthy = False
    answer = world.call("GET", path)
    assert (answer.status, answer.json) == (503, {"error": "the batcher's loops have stopped; restart the service"})
    assert world.records[0].outcome == "failed"


@pytest.mark.parametrize("body", [b"", b"{}", b'{"ready": true}'])
def test_the_repository_names_the_model(world: Any, body: bytes, document: dict[str, Any]) -> None:
    ready = {"name": "sums", "version": "1", "state": "READY", "reason": ""}
    answer = world.call("POST", "/v2/repository/index", body)
    assert (answer.status, answer.json) == (200, [ready])
    world.health.draining = True
    drained = world.call("POST", "/v2/repository/index", body)
    assert (drained.status, drained.json) == (
        200,
        [ready | {"state": "UNAVAILABLE", "reason": "the service is draining"}],
    )
    assert {(record.route, record.outcome) for record in world.records} == {("/v2/repository/index", "ok")}
    operation = document["paths"]["/v2/repository/index"]["post"]
    entry = operation["responses"]["200"]["content"]["application/json"]["schema"]["items"]
    assert set(entry["required"]) == set(ready)
    assert {answer.json[0]["state"], drained.json[0]["state"]} == set(entry["properties"]["state"]["enum"])


def test_the_repository_is_asked_by_post(world: Any) -> None:
    assert world.call("GET", "/v2/repository/index").status == 405


def test_model_metadata_of_another_model(world: Any) -> None:
    answer = world.call("GET", "/v2/models/other")
    assert answer.status == 404
    assert answer.json == {"error": "model 'other' is not served here; this service serves 'sums'"}


def test_unknown_paths_share_one_route(world: Any) -> None:
    for number in range(20):
        answer = world.call("GET", f"/{number}/x")
        assert answer.status == 404
    assert answer.json == {"error": "nothing is served at /19/x; expected one of the routes in /openapi.json"}
    assert {(record.route, record.outcome) for record in world.records} == {("other", "client_error")}


def test_a_wrong_method_says_which_are_right(world: Any) -> None:
    answer = world.call("GET", "/predict")
    assert answer.status == 405
    assert answer.json == {"error": "GET is not allowed at /predict; expected OPTIONS, POST"}
    assert answer.headers["allow"] == "OPTIONS, POST"


def test_a_fault_of_the_service_is_json_too(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    def fault() -> None:
        raise RuntimeError("secret detail")

    world.app.view_functions["readyz"] = fault
    answer = world.call("GET", "/readyz")
    assert (answer.status, answer.json) == (500, {"error": "the service failed on this request; its log says why"})
    assert "secret detail" in caplog.text


def test_the_routes_of_the_label_are_the_apps_rules(build: Callable[[], Any]) -> None:
    rules = {rule.rule.replace("<", "{").replace(">", "}") for rule in build().app.url_map.iter_rules()}
    assert rules | {"other"} == set(web.ROUTES)
    assert len(web.ROUTES) == len(set(web.ROUTES))


def test_the_document_has_every_route_and_method(build: Callable[[], Any], document: dict[str, Any]) -> None:
    app = build().app
    served = {
        (re.sub(r"<(\w+)>", r"{\1}", rule.rule), method.lower())
        for rule in app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    described = {
        (path, method) for path, item in document["paths"].items() for method in item if method != "parameters"
    }
    assert described == served


def test_the_page_shows_model_knobs_and_a_row_that_works(world: Any) -> None:
    page = world.call("GET", "/").body.decode()
    assert "sums" in page
    assert "128" in page
    assert "5 ms" in page
    command = re.search(r"<pre id=\"curl\">(.*?)</pre>", page, re.DOTALL)
    assert command
    text = command.group(1).replace("&#34;", '"').replace("&#39;", "'")
    body = re.search(r"-d '(.*)'", text)
    assert body
    answer = world.call("POST", "/predict", body.group(1).encode(), {"Content-Type": "application/json"})
    assert answer.json == {"predictions": [6.0]}
    assert "http://localhost:8089/" in page


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:9090/"),
        ("box", "http://box:9090/"),
        ("[::1]:8000", "http://[::1]:9090/"),
        ("[::1]", "http://[::1]:9090/"),
    ],
)
def test_links_use_the_visitors_host(host: str, address: str) -> None:
    assert Link("P", "", "PROMETHEUS_PORT", 9090).address(host) == address


def test_links_follow_moved_ports() -> None:
    moved = from_environment({"GRAFANA_PORT": "3300", "LIVE_PORT": "many", "LOCUST_PORT": ""})
    ports = {link.variable: link.port for link in moved}
    assert (ports["GRAFANA_PORT"], ports["LIVE_PORT"], ports["LOCUST_PORT"]) == (3300, 8050, 8089)
    assert len(moved) == len(PARTS)
