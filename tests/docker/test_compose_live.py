"""The shipped compose file, run: healthy, confined, answering, scraped, loaded, paging, scaled, gone.

The tests build on each other, in this order: load is started once and a third of the way through the service is scaled.
"""

import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import requests
from sklearn.datasets import load_digits

pytestmark = pytest.mark.timeout(1200)  # the first test waits for images from Debian's packages and a build from PyPI

KNOBS = ("deploy/docker/with-admin-token.sh", "python", "deploy/docker/batching.py")
RATE = 25  # arrivals per second: enough for an alert's floor, light enough for a busy machine


@pytest.fixture(scope="module")
def digits() -> tuple[Any, Any]:
    return load_digits(return_X_y=True)


def predict(compose: Any, rows: Any, **arguments: Any) -> requests.Response:
    return requests.post(compose.url("SERVICE_PORT", "/predict"), json={"instances": rows}, timeout=10, **arguments)


def targets(compose: Any) -> dict[str, list[str]]:
    """Job -> health of each of its targets, as Prometheus sees them."""
    found: dict[str, list[str]] = {}
    for target in compose.get("PROMETHEUS_PORT", "/api/v1/targets?state=active")["data"]["activeTargets"]:
        found.setdefault(target["labels"]["job"], []).append(target["health"])
    return found


def query(compose: Any, expression: str) -> float:
    """Value of a Prometheus query with one result; 0 when there is none yet."""
    answer = compose.get("PROMETHEUS_PORT", "/api/v1/query", params={"query": expression})["data"]["result"]
    assert len(answer) <= 1
    return float(answer[0]["value"][1]) if answer else 0.0


def test_all_are_healthy_and_none_was_restarted(compose: Any) -> None:
    containers = compose.containers()
    assert len(containers) == 7
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


def start_load(compose: Any) -> None:
    form = {"user_count": 200, "spawn_rate": 200, "host": "http://haproxy:8000", "arrivals": "poisson", "rate": RATE}
    begun = requests.post(compose.url("LOCUST_PORT", "/swarm"), data=form | {"timeout_seconds": 10}, timeout=10)
    assert begun.json()["success"], begun.text


def token(compose: Any) -> str:
    return str(compose("exec", "-T", "service", "cat", "/var/lib/tailboard/admin/token"))


def test_load_from_locust_reaches_the_service(compose: Any, until: Callable[..., Any]) -> None:
    start_load(compose)
    served = 'sum(inference_request_duration_seconds_count{job="inference",route="/predict",outcome="ok"})'
    until("requests counted at the service", lambda: query(compose, served) > 200, seconds=60)
    started = 'loadgen_arrivals_total{job="loadgen",state="started"}'
    until("requests counted at Locust", lambda: query(compose, started) > 200, seconds=15)
    passed_on = 'sum(haproxy_backend_http_responses_total{proxy="service",code="2xx"})'
    until("requests counted at HAProxy", lambda: query(compose, passed_on) > 200, seconds=15)


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


def test_three_replicas_are_found_by_haproxy_and_prometheus(compose: Any, until: Callable[..., Any]) -> None:
    started = time.monotonic()
    compose("up", "--detach", "--wait", "--no-recreate", "--scale", "service=3", "service", timeout_seconds=240)
    ready = 'count(haproxy_server_status{proxy="service",state="UP"} == 1)'
    until("three replicas ready in haproxy", lambda: query(compose, ready) == 3, seconds=120)
    until("three targets", lambda: targets(compose)["inference"] == ["up"] * 3, seconds=60)
    compose.figures["one replica to three"] = time.monotonic() - started
    each = (
        'count(rate(inference_request_duration_seconds_count{job="inference",route="/predict",outcome="ok"}[30s]) > 0)'
    )
    until("every replica has its share", lambda: query(compose, each) == 3, seconds=60)


def test_knobs_change_on_all_replicas_or_not_at_all(compose: Any) -> None:
    refused = requests.patch(
        compose.url("SERVICE_ADMIN_PORT", "/admin/batching"),
        json={"max_batch_rows": 1},
        headers={"Authorization": f"Bearer {token(compose)}"},
        timeout=10,
    )
    assert refused.status_code == 409
    assert "batching.py" in refused.json()["error"]
    shown = compose("exec", "-T", "service", *KNOBS, "max_batch_rows=32").splitlines()
    assert len(shown) == 3
    assert all('"max_batch_rows":32' in line for line in shown)


@contextmanager
def clients(compose: Any, rows: Any) -> Iterator[Counter[int | str]]:
    """Four closed-loop clients with a kept connection each; counts what they got, by status or kind of failure."""
    seen: Counter[int | str] = Counter()
    over = threading.Event()

    def client(number: int) -> None:
        row = rows[number : number + 1].tolist()
        with requests.Session() as session:
            while not over.is_set():
                try:
                    address = compose.url("SERVICE_PORT", "/predict")
                    seen[session.post(address, json={"instances": row}, timeout=10).status_code] += 1
                except requests.RequestException as error:
                    seen[type(error).__name__] += 1
                over.wait(0.02)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        over.set()
        for thread in threads:
            thread.join(20)


def test_a_killed_replica_costs_no_client_a_request(compose: Any, digits: tuple[Any, Any]) -> None:
    with clients(compose, digits[0]) as seen:
        time.sleep(3)
        compose.docker("kill", compose("ps", "--quiet", "service").split()[0])
        time.sleep(6)
    assert set(seen) == {200}, seen
    assert seen[200] > 100


def test_scaling_down_costs_no_client_a_request(
    compose: Any, digits: tuple[Any, Any], until: Callable[..., Any]
) -> None:
    """Replicas that drain say so first, and HAProxy leaves them out while they still answer."""
    compose("up", "--detach", "--wait", "--no-recreate", "--scale", "service=3", "service", timeout_seconds=240)
    ready = 'count(haproxy_server_status{proxy="service",state="UP"} == 1)'
    until("the killed replica is back", lambda: query(compose, ready) == 3, seconds=60)
    with clients(compose, digits[0]) as seen:
        time.sleep(1)
        compose("up", "--detach", "--no-recreate", "--scale", "service=1", "service", timeout_seconds=120)
        time.sleep(2)
    assert set(seen) == {200}, seen
    assert seen[200] > 100
    assert len(compose("ps", "--quiet", "service").split()) == 1


def test_taken_down_nothing_is_left(compose: Any) -> None:
    started = time.monotonic()
    compose.down()
    compose.figures["down"] = time.monotonic() - started
    for what in (("container", "ls", "--all"), ("volume", "ls"), ("network", "ls")):
        assert compose.left(*what) == [], what
