"""Model workers that die and hang under load: what callers see of it."""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from tests.live.service.openloop import Answer, Client, counts, percentile, post

FOREST = "digits?trees=20"
ROW = post(json.dumps({"instances": [[1.0] * 64]}).encode())
KILLS = 20
GATE = ["model-template", "model-worker", "model-worker"]  # one worker, its spare, and what both were forked from


def children(service: Any) -> list[psutil.Process]:
    found = []
    for process in psutil.Process(service.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE and process.name().startswith("model-"):
                found.append(process)
    return found


def named(service: Any, name: str) -> list[psutil.Process]:
    found = []
    for process in children(service):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() == name:
                found.append(process)
    return found


def in_use(service: Any) -> psutil.Process:
    """The worker that runs batches now: a spare sleeps."""

    def switches() -> dict[psutil.Process, int]:
        seen = {}
        for process in named(service, "model-worker"):
            with contextlib.suppress(psutil.NoSuchProcess):
                seen[process] = process.num_ctx_switches().voluntary
        return seen

    end = time.monotonic() + 15
    while time.monotonic() < end:
        before = switches()
        time.sleep(0.05)
        after = switches()
        busy = [process for process, count in after.items() if count - before.get(process, count) > 1]
        if len(busy) == 1:
            return busy[0]
    raise AssertionError("no worker runs batches")


def memory_mb(service: Any) -> float:
    """Of the service and its children, shared pages counted once."""
    total = 0
    for process in (psutil.Process(service.process.pid), *children(service)):
        total += process.memory_full_info().pss
    return total / 1e6


class Load:
    """Open-loop load from a thread of its own until the block ends."""

    def __init__(self, service: Any, rate: float) -> None:
        self._client = Client(service.port, ROW, rate)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: self._client.run(300, self._stop.is_set))

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    @property
    def answers(self) -> list[Answer]:
        return self._client.answers

    def since(self, at: float) -> list[Answer]:
        return [one for one in self.answers if one.at >= at]


@pytest.fixture
def service(start: Callable[..., Any], until: Callable[..., None]) -> Iterator[Any]:
    running = start(SERVICE_MODEL=FOREST, SERVICE_MODEL_WORKERS="1", SERVICE_REQUEST_TIMEOUT_SECONDS="1")
    until(lambda: sorted(process.name() for process in children(running)) == GATE)
    yield running
    assert running.process.poll() is None, running.output


def test_twenty_killed_workers_cost_at_most_the_batch_that_each_held(service: Any, until: Callable[..., None]) -> None:
    kills: list[float] = []
    with Load(service, rate=100) as load:
        until(lambda: len(load.answers) > 50)
        before = memory_mb(service)
        for number in range(KILLS):
            os.kill(in_use(service).pid, signal.SIGKILL)
            kills.append(time.monotonic())
            until(lambda wanted=number + 1: service.metric("inference_model_worker_restarts_total") == wanted)
            time.sleep(0.3)
        until(lambda: len(children(service)) == len(GATE))
        after = memory_mb(service)
    answers = load.answers
    seen = counts(answers)
    assert set(seen) <= {200, 503}, seen
    assert seen[200] > 0.9 * len(answers)
    lost = [one for one in answers if one.status == 503]
    assert all(one.retry_after for one in lost)
    for one in lost:  # each was in the worker when that was killed
        assert any(one.at <= kill + 0.05 and kill <= one.at + one.seconds + 0.05 for kill in kills), one
    assert service.metric("inference_rejected_total", reason="model_down") == len(lost)
    settled = [one for one in answers if not any(kill - 0.05 <= one.at < kill + 0.25 for kill in kills)]
    assert percentile(settled, 0.99) < 0.5  # an order of magnitude above the SLO
    assert service.metric("inference_model_worker_restarts_total") == KILLS
    assert sorted(process.name() for process in children(service)) == GATE
    assert after < before + 30
    assert service.call("GET", "/healthz")[0] == 200
    assert "could not be started" not in service.output


def test_kills_faster_than_workers_come_lose_no_request(service: Any, until: Callable[..., None]) -> None:
    """Everything with the model in it, the template too, killed as soon as it is there; then it is left alone."""
    with Load(service, rate=100) as load:
        until(lambda: len(load.answers) > 50)
        for process in children(service):
            process.kill()
        end = time.monotonic() + 4
        while time.monotonic() < end:
            for process in named(service, "model-worker"):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            time.sleep(0.01)
        until(lambda: len(children(service)) == len(GATE), 60)
        healed = time.monotonic() + 1.0
        until(lambda: len(load.since(healed)) > 100)
    seen = counts(load.answers)
    assert set(seen) <= {200, 429, 503, 504}, seen
    assert seen[200] < len(load.answers)  # it did hurt
    assert percentile(load.answers, 0.999) < 3.0  # deadlines were kept
    assert counts(load.since(healed)).keys() == {200}
    assert service.metric("inference_queue_depth_rows") == 0


def test_without_any_worker_it_is_not_ready_and_comes_back(service: Any, until: Callable[..., None]) -> None:
    for process in children(service):
        process.kill()
    until(lambda: service.call("GET", "/readyz")[0] == 503)
    assert "no model worker runs" in service.call("GET", "/readyz", admin=True)[2].decode()
    assert service.call("GET", "/healthz")[0] == 200
    until(lambda: service.call("GET", "/readyz")[0] == 200)


def test_a_dead_template_costs_nothing(service: Any, until: Callable[..., None]) -> None:
    with Load(service, rate=100) as load:
        until(lambda: len(load.answers) > 50)
        (template,) = named(service, "model-template")
        template.kill()
        until(lambda: not named(service, "model-template"))
        os.kill(in_use(service).pid, signal.SIGKILL)  # while nobody can be forked, the spare takes over
        until(lambda: sorted(process.name() for process in children(service)) == GATE, 60)
    seen = counts(load.answers)
    assert set(seen) <= {200, 503}, seen
    assert seen[503] < 20  # the batch of the worker that was killed, none for the template
    assert service.metric("inference_model_worker_restarts_total") == 1


def test_a_hung_worker_is_given_up_and_deadlines_are_kept_meanwhile(service: Any, until: Callable[..., None]) -> None:
    with Load(service, rate=50) as load:
        until(lambda: len(load.answers) > 50)
        victim = in_use(service)
        victim.suspend()
        stopped = time.monotonic()
        until(lambda: service.metric("inference_model_worker_restarts_total") == 1, 20)
        took = time.monotonic() - stopped
        healed = time.monotonic() + 1.5
        until(lambda: len(load.since(healed)) > 50)
    assert 4 < took < 15
    assert not victim.is_running()
    late = [one.seconds for one in load.answers if one.status == 504]
    assert late
    assert 0.95 < min(late) <= max(late) < 2.0
    seen = counts(load.answers)
    assert set(seen) <= {200, 429, 504}, seen
    assert counts(load.since(healed)).keys() == {200}
