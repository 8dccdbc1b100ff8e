"""What the tests ask of the running containers, and the clients that watch what happens to a request."""

import json
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests

KNOBS = ("deploy/docker/with-admin-token.sh", "python", "deploy/docker/batching.py")
RATE = 25  # arrivals per second: enough for an alert's floor, light enough for a busy machine
READY = 'count(haproxy_server_status{proxy="service",state="UP"} == 1)'
UP = re.compile(r'haproxy_server_status\{proxy="service",server="[^"]+",state="UP"\}')


def predict(compose: Any, rows: Any, **arguments: Any) -> requests.Response:
    return requests.post(compose.url("SERVICE_PORT", "/predict"), json={"instances": rows}, timeout=10, **arguments)


def targets(compose: Any) -> dict[str, list[str]]:
    """Job -> health of each of its targets, as Prometheus sees them."""
    found: dict[str, list[str]] = {}
    for target in compose.get("PROMETHEUS_PORT", "/api/v1/targets?state=active")["data"]["activeTargets"]:
        found.setdefault(target["labels"]["job"], []).append(target["health"])
    return found


def vector(compose: Any, expression: str, at: float | None = None) -> list[Any]:
    """Result of an instant query, at that time or now."""
    asked = {"query": expression} | ({} if at is None else {"time": str(at)})
    found: list[Any] = compose.get("PROMETHEUS_PORT", "/api/v1/query", params=asked)["data"]["result"]
    return found


def query(compose: Any, expression: str, at: float | None = None) -> float:
    """Value of a Prometheus query with one result; 0 when there is none yet."""
    answer = vector(compose, expression, at)
    assert len(answer) <= 1
    return float(answer[0]["value"][1]) if answer else 0.0


def token(compose: Any) -> str:
    return str(compose("exec", "-T", "service", "cat", "/var/lib/tailboard/admin/token"))


def workers(compose: Any) -> list[str]:
    """The state of each worker that Locust's page lists."""
    return sorted(worker["state"] for worker in compose.get("LOCUST_PORT", "/stats/requests")["workers"])


def start_load(compose: Any, rate: int = RATE) -> None:
    """What a person does on Locust's page. A load that goes on is changed to this one."""
    form = {"user_count": 400, "spawn_rate": 400, "host": "http://haproxy:8000", "arrivals": "poisson", "rate": rate}
    begun = requests.post(compose.url("LOCUST_PORT", "/swarm"), data=form | {"timeout_seconds": 10}, timeout=20)
    assert begun.json()["success"], begun.text


def stop_load(compose: Any) -> None:
    stopped = requests.post(compose.url("LOCUST_PORT", "/stop"), timeout=100)
    assert stopped.json()["success"], stopped.text


def load(compose: Any) -> dict[str, Any]:
    """What the tab "Open loop" says of the run."""
    found: dict[str, Any] = compose.get("LOCUST_PORT", "/load")
    return found


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


def crash(compose: Any, container: str) -> None:
    """Ends the program in a container as a crash would, so that the engine's restart policy has its say.

    `docker kill` would be taken for somebody's wish. The program is a child of the container's first process, which
    the engine adds with `init: true` and which ends with it.
    """
    program = "import os, signal; os.kill(int(open('/proc/1/task/1/children').read().split()[0]), signal.SIGKILL)"
    done = subprocess.run(
        ["docker", "exec", container, "python", "-I", "-S", "-c", program],
        env=compose.environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode in {0, 137}, done.stderr  # it may be ended with its container


def named(container: dict[str, Any]) -> str:
    """The service that a container belongs to."""
    return str(container["Config"]["Labels"]["com.docker.compose.service"])


def container(compose: Any, service: str, index: int = 0) -> dict[str, Any]:
    """What the engine knows of one of the service's containers."""
    found: dict[str, Any] = [each for each in compose.containers() if named(each) == service][index]
    return found


def healthy(compose: Any, service: str) -> bool:
    """Whether every container of the service is."""
    states = [each["State"] for each in compose.containers() if named(each) == service]
    return bool(states) and all(state.get("Health", {}).get("Status") == "healthy" for state in states)


def haproxy(compose: Any) -> dict[str, float]:
    """HAProxy's own metrics of this moment, which Prometheus has only every few seconds."""
    text = compose("exec", "-T", "haproxy", "wget", "-q", "-O", "-", "http://127.0.0.1:8405/metrics")
    return {
        series: float(value)
        for series, _, value in (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    }


def ready_replicas(compose: Any) -> int:
    """How many replicas HAProxy sends requests to."""
    up = (value for series, value in haproxy(compose).items() if UP.fullmatch(series))
    return round(sum(up))


# Adds up what every replica has counted, by outcome; runs inside, where each has an address of its own.
COUNTED = """
import collections, http.client, json, re, socket
total = collections.Counter()
for address in {each[4][0] for each in socket.getaddrinfo("service", 8001, socket.AF_INET, socket.SOCK_STREAM)}:
    connection = http.client.HTTPConnection(address, 8001, timeout=5)
    connection.request("GET", "/metrics")
    for line in connection.getresponse().read().decode().splitlines():
        if line.startswith("inference_request_duration_seconds_count{") and 'route="/predict"' in line:
            total[re.search('outcome="([a-z_]+)"', line)[1]] += float(line.rsplit(" ", 1)[1])
print(json.dumps(total))
"""


def counted(compose: Any) -> Counter[str]:
    """Requests to /predict by outcome, as all replicas together have counted them so far."""
    return Counter(json.loads(compose("exec", "-T", "locust", "python", "-c", COUNTED)))
