"""`locust -f loadtest/locustfile.py` as people and programs use it: starting, refusing, distributing, ending."""

import csv
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

Locust = Callable[..., Any]
Identity = Callable[[dict[str, Any]], None]


@pytest.mark.parametrize("field", ["rate", "user_count", "steps", "nonsense"])
def test_a_bad_form_value_is_refused_and_nothing_starts(locust: Locust, server: Any, field: str) -> None:
    with locust() as run:
        said = run.swarm(**{field: "-5"}, refused=True)
        assert said["message"].startswith(f"{field} is ")
        time.sleep(0.5)
        assert run.stats()["state"] == "ready"
        assert run.load()["offered"] == 0
        assert "Traceback" not in run.output
    assert server.arrivals == []


def test_a_bad_edit_leaves_the_run_as_it_is(locust: Locust) -> None:
    with locust() as run:
        run.swarm(arrivals="constant", rate=30)
        run.wait(lambda now: now["target_rate"] == 30, 10)
        run.swarm(rate="-5", seed="9", refused=True)
        run.swarm(user_count="0", rate="99", refused=True)
        before = run.load()["offered"]
        run.wait(lambda now: now["offered"] > before + 10, 5)
        assert run.load()["target_rate"] == 30
        assert "Traceback" not in run.output


def test_the_page_and_locusts_own_figures(locust: Locust, server: Any) -> None:
    with locust() as run:
        page = requests.get(run.ui, timeout=10).text
        assert "cap on requests in flight" in page
        assert '"percentiles_to_chart": [0.5, 0.95, 0.99]' in page
        run.swarm(arrivals="constant", rate=40)
        run.wait(lambda now: now["completed"] >= 60, 20)
        shown = requests.get(run.ui, timeout=10).text
        assert '"rate": 40.0' in shown  # the value in force, not that of the command line
        report = run.stats()
        assert set(report["current_response_time_percentiles"]) == {
            f"response_time_percentile_{each}" for each in (0.5, 0.95, 0.99)
        }
        head = requests.get(run.ui + "/stats/requests/csv", timeout=10).text.splitlines()[0]
        assert {"50%", "95%", "99%", "99.9%"} <= set(next(csv.reader([head])))
        run.stop()
    request = server.requests[0]
    assert request.startswith(b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1:")


def run_to_end(root: Path, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=root, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False
    )


def test_headless(
    root: Path, locust_command: list[str], free_port: Callable[[], int], server: Any, tmp_path: Path
) -> None:
    target = f"http://127.0.0.1:{server.port}"
    arguments = ["--headless", "-H", target, "-t", "3s", "--rate", "50", "--arrivals", "constant"]
    figures = tmp_path / "figures"
    done = run_to_end(
        root, [*locust_command, *arguments, "--json-file", str(figures)], {"LOCUST_METRICS_PORT": str(free_port())}
    )
    assert done.returncode == 0, done.stderr
    (entry,) = json.loads(figures.with_suffix(".json").read_text())
    assert (entry["method"], entry["name"], entry["num_failures"]) == ("POST", "/predict", 0)
    assert entry["num_requests"] == len(server.arrivals) == pytest.approx(150, abs=10)


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        (["--rate", "-5"], {}, "rate is -5.0; expected a number above 0"),
        (["--steps", "x"], {}, "steps is 'x'; expected rate:seconds pairs"),
        (["-H", "https://x"], {}, "host is 'https://x'; expected http://HOST:PORT"),
        ([], {"LOCUST_METRICS_PORT": "http"}, "LOCUST_METRICS_PORT is 'http'; expected a port from 1 to 65535"),
        ([], {"SLO_FILE": "/nowhere.yaml"}, "/nowhere.yaml: no such file"),
    ],
)
def test_a_bad_start_is_one_sentence(
    root: Path,
    locust_command: list[str],
    free_port: Callable[[], int],
    arguments: list[str],
    environment: dict[str, str],
    sentence: str,
) -> None:
    ports = {"LOCUST_METRICS_PORT": str(free_port()), "LOCUST_PORT": str(free_port())}
    done = run_to_end(root, [*locust_command, "--headless", "-t", "1s", *arguments], {**ports, **environment})
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if "/INFO/" not in line]
    assert line.startswith(f"locust: error: {sentence}")


def test_a_taken_metrics_port_says_which_variable_moves_it(
    root: Path, locust_command: list[str], server: Any, free_port: Callable[[], int]
) -> None:
    ports = {"LOCUST_METRICS_PORT": str(server.port), "LOCUST_PORT": str(free_port())}
    done = run_to_end(root, locust_command, ports)
    assert done.returncode == 2
    assert f"metrics port {server.port} on 127.0.0.1" in done.stderr
    assert "LOCUST_METRICS_PORT moves it" in done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_mid_run_ends_it_cleanly(locust: Locust, server: Any, how: signal.Signals) -> None:
    server.delay_seconds = 0.3
    with locust() as run:
        run.swarm(arrivals="constant", rate=50)
        run.wait(lambda now: now["in_flight"] >= 5, 20)
        run.process.send_signal(how)
        assert run.process.wait(20) == 0, run.output
        assert "Traceback" not in run.output


def test_two_workers_share_the_load_and_follow_edits(
    locust: Locust, server: Any, identity: Identity, free_port: Callable[[], int]
) -> None:
    port = str(free_port())
    with locust("--processes", "2", "--master-bind-port", port, "--master-port", port) as run:
        end = time.monotonic() + 60
        while run.stats().get("worker_count") != 2:
            assert time.monotonic() < end, run.output
            time.sleep(0.1)
        run.swarm(arrivals="constant", rate=100)
        run.wait(lambda now: now["completed"] >= 200, 30)
        edited = time.monotonic()
        run.swarm(rate=200)
        time.sleep(4.2)
        now = run.load()
        assert now["target_rate"] == 200  # the sum of what both workers follow
        assert server.rate(edited + 2, edited + 4) == pytest.approx(200, rel=0.2)
        run.stop()
        account = run.wait(lambda now: now["started"] == len(server.arrivals) and now["in_flight"] == 0, 10)
        identity(account)
        metrics = run.metrics()
        assert metrics['loadgen_request_duration_seconds_count{name="/predict",outcome="ok"}'] == account["completed"]
        assert account["dropped"] == account["failed"] == 0
        # Constant arrivals of two workers interleave: neither sends all, and together they keep the rate.
        assert server.connections >= 2
