"""The shipped compose file, run: healthy, confined, answering, scraped, loaded, paging.

The tests build on each other, in this order. What happens to several replicas, when parts of it end, and what is left
behind, is in the modules that come after this one; they use the same containers.
"""

import json
import re
import subprocess
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import requests

from tests.docker.asking import KNOBS, RATE, load, predict, query, start_load, targets, token, workers

pytestmark = pytest.mark.timeout(1200)  # the first test waits for images from Debian's packages and a build from PyPI


def test_all_are_healthy_and_none_was_restarted(compose: Any) -> None:
    containers = compose.containers()
    assert len(containers) == 8
    for container in containers:
        assert container["State"]["Health"]["Status"] == "healthy", container["Name"]
        assert container["RestartCount"] == 0, container["Name"]


def test_the_engine_confines_them_as_the_file_says(compose: Any) -> None:
    for container in compose.containers():
        host, name = container["HostConfig"], container["Name"]
        assert host["ReadonlyRootfs"], name
        assert host["CapDrop"] == ["ALL"], name
        assert not host["CapAdd"], name
        assert "no-new-privileges:true" in host["SecurityOpt"], name
        assert host["PidsLimit"] > 0, name
        assert host["Memory"] > 0, name
        assert host["NanoCpus"] > 0, name
        for bindings in host["PortBindings"].values():
            assert {binding["HostIp"] for binding in bindings} == {"127.0.0.1"}, name
        rows = compose.docker("top", container["Id"], "-eo", "pid,uid").splitlines()[1:]
        processes = [row.split()[1] for row in rows]
        assert processes, name
        assert "0" not in processes, f"{name} runs as root"


def test_the_root_file_system_cannot_be_written(compose: Any) -> None:
    done = subprocess.run(
        [compose.program, "-p", compose.project, "exec", "-T", "service", "sh", "-c", "echo x > /opt/tailboard/x"],
        cwd=compose.root,
        env=compose.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert "Read-only file system" in done.stderr


def test_haproxy_has_nothing_to_warn_of(compose: Any) -> None:
    config = "/usr/local/etc/haproxy/haproxy.cfg"
    said = compose("exec", "-T", "haproxy", "sh", "-c", f"haproxy -c -f {config} 2>&1")
    assert "WARNING" not in said


def test_predictions_come_back_through_haproxy(compose: Any, digits: tuple[Any, Any]) -> None:
    rows, labels = digits
    answer = predict(compose, rows[:64].tolist())
    assert answer.status_code == 200, answer.text
    assert np.mean(np.array(answer.json()["predictions"]) == labels[:64]) > 0.9
    assert re.search(r"queue;dur=.*model;dur=", answer.headers["Server-Timing"])


def test_wrong_input_is_told_apart_through_haproxy(compose: Any) -> None:
    answer = predict(compose, [[1.0, 2.0]])
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}
    assert requests.post(compose.url("SERVICE_PORT", "/predict"), data=b"{", timeout=10).status_code == 400


def test_a_body_that_fits_no_retry_buffer_still_arrives(compose: Any, digits: tuple[Any, Any]) -> None:
    rows = np.tile(digits[0][:500], (2, 1))
    answer = predict(compose, rows.tolist())
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["predictions"]) == 1000


def test_every_page_is_served(compose: Any) -> None:
    for port in ("SERVICE_PORT", "LOCUST_PORT", "PROMETHEUS_PORT", "INBOX_PORT", "LIVE_PORT"):
        page = requests.get(compose.url(port, "/"), timeout=10)
        assert page.status_code == 200, port
        assert "<html" in page.text.lower(), port
    page = requests.get(compose.url("LIVE_PORT", "/d/latency-vs-throughput"), timeout=20)
    assert page.status_code == 200
    assert requests.get(compose.url("ALERTMANAGER_PORT", "/-/ready"), timeout=10).status_code == 200


def test_the_services_page_links_to_where_the_parts_are_published(compose: Any) -> None:
    page = requests.get(compose.url("SERVICE_PORT", "/"), timeout=10).text
    for port in ("LOCUST_PORT", "PROMETHEUS_PORT", "ALERTMANAGER_PORT", "INBOX_PORT", "LIVE_PORT"):
        assert f":{compose.environment[port]}/" in page, port


def test_prometheus_has_every_target_up(compose: Any, until: Callable[..., Any]) -> None:
    jobs = {"inference", "loadgen", "inbox", "haproxy", "prometheus", "alertmanager"}
    until("all targets up", lambda: targets(compose) == {job: ["up"] for job in jobs}, seconds=60)
    rules = compose.get("PROMETHEUS_PORT", "/api/v1/rules")["data"]["groups"]
    assert {rule["health"] for group in rules for rule in group["rules"]} <= {"ok", "unknown"}
    assert any(rule["name"] == "LatencySLOBreach" for group in rules for rule in group["rules"])


def test_locusts_page_has_a_worker_and_says_how_many(compose: Any) -> None:
    assert workers(compose) == ["ready"]
    assert compose.get("LOCUST_PORT", "/stats/requests")["worker_count"] == 1
    page = requests.get(compose.url("LOCUST_PORT", "/"), timeout=10).text
    assert '"is_distributed": true' in page  # then it shows that number at its head and a tab of workers


def test_the_masters_port_is_for_workers_only(compose: Any) -> None:
    listening = {port for each in compose.containers() for port in each["NetworkSettings"]["Ports"]}
    assert "8089/tcp" in listening
    assert "5557/tcp" not in listening


def test_load_from_locust_reaches_the_service(compose: Any, until: Callable[..., Any]) -> None:
    start_load(compose)
    served = 'sum(inference_request_duration_seconds_count{job="inference",route="/predict",outcome="ok"})'
    until("requests counted at the service", lambda: query(compose, served) > 200, seconds=60)
    started = 'loadgen_arrivals_total{job="loadgen",state="started"}'
    until("requests counted at Locust", lambda: query(compose, started) > 200, seconds=15)
    passed_on = 'sum(haproxy_backend_http_responses_total{proxy="service",code="2xx"})'
    until("requests counted at HAProxy", lambda: query(compose, passed_on) > 200, seconds=15)
    run = load(compose)
    assert run["target_rate"] == RATE
    assert run["outcomes"]["ok"] == run["run"]["completed"] > 200


def test_the_image_has_what_runs_and_nothing_to_build_with(compose: Any) -> None:
    """The stand-in for Python's slim image brings pip, as that does; ours adds a virtual environment without it."""
    image = compose.environment["TAILBOARD_IMAGE"]
    sizes = [
        json.loads(compose.docker("image", "inspect", name))[0]["Size"]
        for name in (image, compose.environment["PYTHON_IMAGE"])
    ]
    compose.figures["image, MB"] = sizes[0] / 1e6
    compose.figures["image without its base, MB"] = (sizes[0] - sizes[1]) / 1e6
    assert sizes[0] - sizes[1] < 600e6
    found = compose("exec", "-T", "service", "sh", "-c", "ls /opt/venv/bin; ls /opt/venv/lib/python3*/site-packages")
    names = set(found.split())
    assert {"python", "locust", "sklearn"} <= names
    assert not names & {"pip", "pip3", "setuptools", "wheel", "mypy", "ruff", "playwright"}
    assert not compose("exec", "-T", "service", "sh", "-c", "command -v cc gcc g++ clang make ld || true").split()
    tests = compose("exec", "-T", "service", "find", "/opt", "-type", "d", "-name", "tests")
    assert tests.split() == []


def test_knobs_need_the_token_that_was_made_at_the_first_start(compose: Any) -> None:
    refused = requests.patch(
        compose.url("SERVICE_ADMIN_PORT", "/admin/batching"), json={"max_batch_rows": 1}, timeout=10
    )
    assert refused.status_code in {401, 403}
    assert re.fullmatch(r"[0-9a-f]{64}", token(compose))
    changed = requests.patch(
        compose.url("SERVICE_ADMIN_PORT", "/admin/batching"),
        json={"max_batch_rows": 64},
        headers={"Authorization": f"Bearer {token(compose)}"},
        timeout=10,
    )
    assert changed.status_code == 200, changed.text
    assert compose.get("SERVICE_ADMIN_PORT", "/admin/batching")["max_batch_rows"] == 64


def test_a_breach_under_load_reaches_the_inbox(compose: Any, until: Callable[..., Any]) -> None:
    """A fixed wait of 0.3 s breaks a threshold of 50 ms at any load; then it is taken back."""
    compose("exec", "-T", "service", *KNOBS, "policy=fixed", "max_wait_seconds=0.3", "max_batch_rows=512")
    started = time.monotonic()

    def pages() -> list[Any]:
        alerts = compose.get("INBOX_PORT", "/api/alerts")
        return [alert for alert in alerts if alert["labels"]["alertname"] == "LatencySLOBreach"]

    page = until("LatencySLOBreach in the inbox", pages, seconds=150, pause_seconds=1)[0]
    compose.figures["breach to inbox"] = time.monotonic() - started
    assert page["status"] == "firing"
    assert page["labels"]["severity"] == "page"
    compose("exec", "-T", "service", *KNOBS, "policy=adaptive", "max_wait_seconds=0.005", "max_batch_rows=128")
    counted = 'sum(inbox_alerts_received_total{job="inbox",alertname="LatencySLOBreach"})'
    until("counted by the inbox", lambda: query(compose, counted) >= 1, seconds=30)


def test_a_second_start_takes_seconds_and_remembers(compose: Any, until: Callable[..., Any]) -> None:
    """The image is built, the model trained, the token made; samples and alerts are in volumes."""
    before = token(compose)
    compose("down", "--timeout", "30")
    started = time.monotonic()
    compose.up()
    compose.figures["second up"] = time.monotonic() - started
    assert token(compose) == before
    alerts = compose.get("INBOX_PORT", "/api/alerts")
    assert "LatencySLOBreach" in {alert["labels"]["alertname"] for alert in alerts}
    assert query(compose, 'max(max_over_time(loadgen_target_rate{job="loadgen"}[15m]))') == RATE
    start_load(compose)
