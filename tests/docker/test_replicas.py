"""`docker compose up --scale service=3 --scale locust-worker=4`: found, loaded, read as one, and killed under load.

The tests build on each other, in this order: the last one scales down again.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.docker.asking import (
    KNOBS,
    RATE,
    READY,
    clients,
    container,
    counted,
    crash,
    haproxy,
    load,
    query,
    ready_replicas,
    start_load,
    stop_load,
    targets,
    token,
    vector,
    workers,
)

pytestmark = pytest.mark.timeout(1200)

SCALE = ("--scale", "service=3", "--scale", "locust-worker=4")
SERVED = 'rate(inference_request_duration_seconds_count{job="inference",route="/predict",outcome="ok"}[30s])'


@pytest.fixture(scope="module", autouse=True)
def scaled(compose: Any, until: Callable[..., Any]) -> None:
    """A load goes on while the stack is scaled, as somebody would do it who finds one replica too few."""
    start_load(compose)
    started = time.monotonic()
    compose.up("--no-recreate", *SCALE)
    until("three replicas ready in haproxy", lambda: query(compose, READY) == 3, seconds=120)
    until("three targets", lambda: targets(compose)["inference"] == ["up"] * 3, seconds=60)
    compose.figures["one replica to three, one worker to four"] = time.monotonic() - started


def test_every_replica_gets_its_share(compose: Any, until: Callable[..., Any]) -> None:
    until("every replica serves", lambda: query(compose, f"count({SERVED} > 0)") == 3, seconds=60)


def test_every_worker_has_its_share_of_the_load_that_goes_on(compose: Any, until: Callable[..., Any]) -> None:
    """Their reports are added up at the master, which stays the one target of the load generator."""
    until("four workers that run", lambda: workers(compose) == ["running"] * 4, seconds=60)
    shares = [each["user_count"] for each in compose.get("LOCUST_PORT", "/stats/requests")["workers"]]
    assert min(shares) > 0
    assert compose.get("LOCUST_PORT", "/stats/requests")["worker_count"] == 4
    until("the whole rate", lambda: load(compose)["target_rate"] == RATE, seconds=30)
    assert targets(compose)["loadgen"] == ["up"]
    until("the whole rate, scraped", lambda: query(compose, 'loadgen_target_rate{job="loadgen"}') == RATE, seconds=30)


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


# --- dashboards ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """One query of one panel, with a window in the place of Grafana's variable."""

    where: str
    legend: str
    expr: str

    @property
    def says_nothing_when_all_is_well(self) -> bool:
        return "is beyond" in self.legend or "ALERTS" in self.expr or "tuner" in self.legend


def shown(root: Path) -> Iterator[Shown]:
    for path in sorted((root / "grafana/dashboards").glob("*.json")):
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                expr = target["expr"].replace("$__rate_interval", "30s")
                yield Shown(f"{dashboard['uid']}: {panel['title']}", target["legendFormat"], expr)


def test_every_panel_has_something_to_show_and_shows_replicas_as_one(
    compose: Any, root: Path, until: Callable[..., Any]
) -> None:
    queries = list(shown(root))
    assert len(queries) > 70

    def empty() -> list[Shown]:
        return [one for one in queries if not one.says_nothing_when_all_is_well and not vector(compose, one.expr)]

    until("something in every panel", lambda: not empty(), seconds=60, pause_seconds=2)
    by_replica = set()
    for one in queries:
        found = vector(compose, one.expr)
        if any("instance" in series["metric"] for series in found):
            by_replica.add(one.where)
        if "{{" not in one.legend and "replica" not in one.legend and not one.says_nothing_when_all_is_well:
            assert len(found) == 1, f"{one.where}, {one.legend}: {found}"
    assert by_replica == {"stack-health: What runs"}


def test_the_dashboards_figures_are_those_of_all_replicas_together(compose: Any, root: Path) -> None:
    by_name = {(one.where, one.legend): one.expr for one in shown(root)}
    at = compose.get("PROMETHEUS_PORT", "/api/v1/query", params={"query": "time()"})["data"]["result"][0] - 1

    def value(where: str, legend: str) -> float:
        return query(compose, by_name[where, legend], at)

    each = [float(series["value"][1]) for series in vector(compose, f"sum by (instance) ({SERVED})", at)]
    assert len(each) == 3
    assert min(each) > 0
    assert value("latency-vs-throughput: Throughput", "served") == pytest.approx(sum(each), rel=1e-9)
    assert value("latency-vs-throughput: Throughput", "served") == pytest.approx(RATE, rel=0.5)
    assert value("latency-vs-throughput: Throughput", "offered") == pytest.approx(RATE, rel=0.5)
    # Replicas of before a `down` are known for five minutes after it: Prometheus was not there to see them go.
    known = query(compose, 'count(inference_queue_capacity_rows{job="inference"})', at)
    assert known >= 3
    assert value("batcher: Queue depth", "capacity") == known * 1024
    assert value("stack-health: Load generator", "target") == RATE
    buckets = 'sum by (le) (rate(inference_request_duration_seconds_bucket{job="inference",route="/predict"}[30s]))'
    whole = query(compose, f"histogram_quantile(0.99, {buckets})", at)
    assert value("latency-vs-throughput: p99", "p99") == pytest.approx(whole, rel=0.05)


# --- once asked, once answered -------------------------------------------------------------------------------------


def post_all(compose: Any, rows: Any, times: int, headers: dict[str, str] | None = None) -> Counter[int]:
    """Statuses of so many requests that are sent at the same time."""
    body = json.dumps({"instances": rows})
    sent = {"Content-Type": "application/json", **(headers or {})}

    def one(_: int) -> int:
        return requests.post(compose.url("SERVICE_PORT", "/predict"), body, headers=sent, timeout=30).status_code

    with ThreadPoolExecutor(times) as pool:
        return Counter(pool.map(one, range(times)))


def test_an_answer_is_never_asked_for_again(compose: Any, until: Callable[..., Any]) -> None:
    """Above all not a 429: a retry of what a full queue turned away would double the load just then."""
    stop_load(compose)
    until("nothing under way", lambda: load(compose)["in_flight"] == 0, seconds=30)
    compose("exec", "-T", "service", *KNOBS, "policy=fixed", "max_wait_seconds=4", "max_batch_rows=1024")
    before, retried = counted(compose), haproxy(compose)['haproxy_backend_retry_warnings_total{proxy="service"}']
    # A queue of 1,024 rows takes ten requests of 100 rows and then waits for more: 60 are too many for three replicas.
    full = post_all(compose, [[0.0] * 64] * 100, 60)
    late = post_all(compose, [[0.0] * 64], 6, {"X-Request-Timeout-Ms": "50"})
    wrong = post_all(compose, [[0.0] * 63], 6)
    compose("exec", "-T", "service", *KNOBS, "policy=adaptive", "max_wait_seconds=0.005", "max_batch_rows=128")
    assert full.keys() == {200, 429}
    assert full[429] > 5
    seen = full + late + wrong
    assert late.keys() <= {200, 504}  # 50 ms may suffice
    assert wrong == {400: 6}
    assert counted(compose) - before == Counter(ok=seen[200], shed=seen[429], failed=seen[504], client_error=seen[400])
    assert haproxy(compose)['haproxy_backend_retry_warnings_total{proxy="service"}'] == retried


# --- killed under load ---------------------------------------------------------------------------------------------

LOST = ("failed", "dropped", "unfinished")


def test_replicas_that_end_under_load_cost_no_request(
    compose: Any, digits: tuple[Any, Any], until: Callable[..., Any]
) -> None:
    """One crashes and the engine starts it again; one goes for good, as with its machine. The open loop does not wait.

    What others do beside it: four closed-loop clients of the published port.
    """
    until("three replicas", lambda: ready_replicas(compose) == 3)
    start_load(compose, rate=2 * RATE)
    until("the run to be under way", lambda: load(compose)["run"]["completed"] > 100, seconds=60)
    with clients(compose, digits[0]) as seen:
        time.sleep(1)
        crashed = time.monotonic()
        crash(compose, container(compose, "service")["Id"])
        until("one replica less", lambda: ready_replicas(compose) == 2, seconds=20, pause_seconds=0.1)
        until("three replicas again", lambda: ready_replicas(compose) == 3, seconds=90)
        compose.figures["a replica crashed to three ready"] = time.monotonic() - crashed
        compose.docker("kill", container(compose, "service", 1)["Id"])
        time.sleep(6)
        assert ready_replicas(compose) == 2
    assert set(seen) == {200}, seen
    assert seen[200] > 100
    run = load(compose)
    assert {name: run["run"][name] for name in LOST} == dict.fromkeys(LOST, 0), run
    assert run["outcomes"]["ok"] == run["run"]["completed"] > 100
    compose.figures["slowest request meanwhile"] = run["latency_seconds"]["max"]


def lost(compose: Any) -> int:
    return int(load(compose)["generator"]["workers_lost"])


def test_a_worker_that_crashes_is_counted_and_the_run_goes_on(compose: Any, until: Callable[..., Any]) -> None:
    """What it should have sent until the others took over counts as dropped; it comes back and gets its share."""
    whole = 2 * RATE
    start_load(compose, rate=whole)
    until("the run to be under way", lambda: load(compose)["run"]["completed"] > whole, seconds=60)
    until("four workers that run", lambda: workers(compose).count("running") == 4, seconds=60)
    until("the whole rate", lambda: load(compose)["target_rate"] == whole, seconds=30)
    before = load(compose)
    crash(compose, container(compose, "locust-worker", 1)["Id"])
    until("the loss", lambda: lost(compose) > before["generator"]["workers_lost"], seconds=30)
    run = load(compose)
    assert 0 < run["run"]["dropped"] - before["run"]["dropped"] < 15 * whole
    assert run["reasons"][0].startswith("The generator lost part of its load")
    until("four workers that run", lambda: workers(compose).count("running") == 4, seconds=60)
    until("the whole rate", lambda: load(compose)["target_rate"] == whole, seconds=30)
    done = load(compose)["run"]["completed"]
    until("requests that are served", lambda: load(compose)["run"]["completed"] > done + whole, seconds=20)


def test_scaling_down_costs_no_client_a_request(
    compose: Any, digits: tuple[Any, Any], until: Callable[..., Any]
) -> None:
    """Replicas that drain say so first, and HAProxy leaves them out while they still answer."""
    compose.up("--no-recreate", *SCALE)
    until("the killed replica is back", lambda: ready_replicas(compose) == 3, seconds=60)
    start_load(compose)
    before = load(compose)["outcomes"]
    with clients(compose, digits[0]) as seen:
        time.sleep(1)
        compose("up", "--detach", "--no-recreate", "--scale", "service=1", "service", timeout_seconds=120)
        time.sleep(2)
    assert set(seen) == {200}, seen
    assert seen[200] > 100
    assert len(compose("ps", "--quiet", "service").split()) == 1
    after = load(compose)["outcomes"]
    assert after["ok"] > before["ok"]
    assert {**after, "ok": 0} == {**before, "ok": 0}
