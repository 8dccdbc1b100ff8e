"""Each container ends once and comes back: healthy, scraped, and the load goes on where it should.

Ends as it happens: those that write are cut off in mid-write (`docker restart` without a grace), programs crash.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.docker.asking import (
    clients,
    container,
    crash,
    healthy,
    load,
    predict,
    query,
    start_load,
    targets,
    workers,
)

pytestmark = pytest.mark.timeout(1200)

JOBS = {"inference", "loadgen", "inbox", "haproxy", "prometheus", "alertmanager"}
SAMPLES = "sum(count_over_time(up[15m]))"


@pytest.fixture(scope="module", autouse=True)
def loaded(compose: Any, until: Callable[..., Any]) -> None:
    """One replica, whatever ran before, and a load."""
    compose.up("--no-recreate", "--scale", "service=1")
    start_load(compose)
    until("a load that goes on", lambda: serves(compose), seconds=60)


def serves(compose: Any) -> bool:
    """Whether requests of the load that goes on are answered."""
    before = load(compose)["outcomes"]["ok"]
    time.sleep(1)
    return bool(load(compose)["outcomes"]["ok"] > before)


def back(compose: Any, until: Callable[..., Any], service: str, end: Callable[[], Any]) -> None:
    """Ends it and waits until it has started anew, is healthy, and all targets are up."""
    started, began = container(compose, service)["State"]["StartedAt"], time.monotonic()
    end()
    until(f"{service} to start", lambda: container(compose, service)["State"]["StartedAt"] != started, seconds=60)
    until(f"{service} to be healthy", lambda: healthy(compose, service), seconds=90)
    compose.figures[f"{service} ended to healthy"] = time.monotonic() - began
    until("all targets up", lambda: scraped(compose), seconds=60)


def scraped(compose: Any) -> bool:
    found = targets(compose)
    return found.keys() == JOBS and {health for healths in found.values() for health in healths} == {"up"}


def cut_off(compose: Any, service: str) -> Callable[[], Any]:
    return lambda: compose.docker("restart", "--time", "0", container(compose, service)["Id"])


@pytest.mark.parametrize("service", ["alertmanager", "inbox", "live", "prometheus"])
def test_no_request_is_lost_with_what_only_watches(compose: Any, until: Callable[..., Any], service: str) -> None:
    """Nor a sample: Prometheus, cut off in mid-write, still has those of before."""
    before, at = load(compose), time.time() - 1
    samples = query(compose, SAMPLES, at)
    assert samples > 0
    back(compose, until, service, cut_off(compose, service))
    after = load(compose)
    assert after["outcomes"]["ok"] > before["outcomes"]["ok"]
    for name in ("failed", "shed", "client_error"):
        assert after["outcomes"][name] == before["outcomes"][name], name
    assert after["run"]["dropped"] == before["run"]["dropped"]
    assert query(compose, SAMPLES, at) == pytest.approx(samples, rel=0.1)


def test_haproxy_comes_back_and_so_do_the_requests(compose: Any, until: Callable[..., Any]) -> None:
    back(compose, until, "haproxy", cut_off(compose, "haproxy"))
    until("requests that are answered", lambda: serves(compose), seconds=30)
    assert predict(compose, [[0.0] * 64]).status_code == 200


def test_clients_of_a_replica_that_crashes_alone_are_told_so(
    compose: Any, digits: tuple[Any, Any], until: Callable[..., Any]
) -> None:
    """What is under way has nobody else to go to, and HAProxy closes the kept connection; later ones get a 503."""
    with clients(compose, digits[0]) as seen:
        back(compose, until, "service", lambda: crash(compose, container(compose, "service")["Id"]))
    assert seen.keys() <= {200, 503, "ConnectionError"}, seen
    assert seen["ConnectionError"] <= 4  # one for each of the clients
    assert seen[200] > 20
    until("requests that are answered", lambda: serves(compose), seconds=30)


def test_while_no_replica_runs_clients_are_told_so(compose: Any, until: Callable[..., Any]) -> None:
    compose("stop", "service")
    answer = predict(compose, [[0.0] * 64])
    assert answer.status_code == 503
    assert set(answer.json()) == {"error"}
    assert answer.headers["Retry-After"] == "1"
    compose.up("--no-recreate")
    assert predict(compose, [[0.0] * 64]).status_code == 200
    until("requests that are answered", lambda: serves(compose), seconds=30)


@pytest.mark.parametrize("how", ["restarted", "crashed"])
def test_workers_find_a_new_master_and_wait_for_what_it_says(compose: Any, until: Callable[..., Any], how: str) -> None:
    """A master that is told to end takes its workers along; after one that crashed they give up within a minute.

    The new one has no run: somebody has to start it, as after any start.
    """
    count = len(workers(compose))
    master = container(compose, "locust")["Id"]
    end = {"restarted": lambda: compose.docker("restart", master), "crashed": lambda: crash(compose, master)}
    back(compose, until, "locust", end[how])
    began = time.monotonic()
    until("its workers", lambda: workers(compose) == ["ready"] * count, seconds=150)
    compose.figures[f"master {how} to all workers"] = time.monotonic() - began
    start_load(compose)
    until("workers that run", lambda: workers(compose) == ["running"] * count, seconds=30)
    until("requests that are answered", lambda: serves(compose), seconds=30)
