"""Far more load than the model can take: it sheds, yet the model's time goes to those who still wait for an answer."""

import asyncio
import os
import resource
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from tests.live.service.openloop import GAVE_UP, Client, percentile, post
from tests.live.service.overload import BODY, Outcome, offer

CAPACITY = 500.0  # rows per second of this model, in batches of any size
MODEL = "synthetic?fixed_seconds=0&per_row_seconds=0.002&features=3"
CLIENTS = 1000
DEAD = 2000
CALL_SECONDS = 0.004  # of 500 trees, at least


def rss_mb(service: Any) -> float:
    return float(psutil.Process(service.process.pid).memory_info().rss) / 1e6


@pytest.fixture
def service(start: Callable[..., Any]) -> Any:
    return start(SERVICE_MODEL=MODEL, SERVICE_MODEL_WORKERS="1", SERVICE_REQUEST_TIMEOUT_SECONDS="1")


def overloaded(service: Any, rate: float, seconds: float, *headers: str, **client: Any) -> Outcome:
    outcome = offer(
        service.port, service.admin_port, Client(service.port, post(BODY, *headers), rate, **client), seconds
    )
    assert outcome.client_late_seconds < 1.5, "the client itself could not keep the rate; nothing can be said"
    end = time.monotonic() + 5  # the service hears of the last closed connection a little later
    while service.metric("inference_requests_in_flight") + service.metric("inference_queue_depth_rows") > 0:
        assert time.monotonic() < end, "something is in flight for ever"
        time.sleep(0.02)
    return outcome


@pytest.mark.parametrize("overload", [3, 10])
def test_completed_work_stays_near_capacity(service: Any, overload: int) -> None:
    before = rss_mb(service)
    outcome = overloaded(service, overload * CAPACITY, 6)
    assert set(outcome.statuses) <= {200, 429, 504}, outcome.statuses
    assert outcome.goodput > 0.4 * CAPACITY
    shed = outcome.of(429)
    assert len(shed) > (overload - 1) * CAPACITY * 6 / 2
    assert all(one.retry_after for one in shed)
    assert percentile(shed, 0.5) < 0.2
    reasons = outcome.rejected
    assert set(reasons) <= {"queue_full", "unlikely", "deadline"}
    assert reasons.get("queue_full", 0) + reasons.get("unlikely", 0) == len(shed)
    assert reasons.get("deadline", 0) == len(outcome.of(504))
    assert {status for _, status, _ in outcome.probes} == {200}
    assert max(seconds for _, _, seconds in outcome.probes) < 1.0
    assert rss_mb(service) < before + 60


def test_a_short_queue_says_so_at_once(start: Callable[..., Any]) -> None:
    """With room for less than the deadline allows, the queue's capacity sheds."""
    service = start(
        SERVICE_MODEL=MODEL,
        SERVICE_MODEL_WORKERS="1",
        SERVICE_REQUEST_TIMEOUT_SECONDS="1",
        SERVICE_QUEUE_CAPACITY_ROWS="64",
        SERVICE_MAX_BATCH_ROWS="16",
        SERVICE_MAX_REQUEST_ROWS="64",
    )
    outcome = overloaded(service, 3 * CAPACITY, 3)
    assert set(outcome.statuses) == {200, 429}, outcome.statuses
    assert outcome.rejected["queue_full"] == len(outcome.of(429))
    assert outcome.goodput > 0.4 * CAPACITY
    assert percentile(outcome.of(200), 0.99) < 0.9  # what is let in waits for no more than the queue holds
    assert percentile(outcome.of(429), 0.9) < 0.1


def test_a_retry_storm_of_abandoned_requests_costs_the_model_little(service: Any) -> None:
    """Clients that close after 0.1 s and ask again at once, three times, and do not say so in the request."""
    service.turn(max_batch_rows=8)
    outcome = overloaded(service, 2 * CAPACITY, 4, patience_seconds=0.1, retries=3)
    abandoned = outcome.statuses[GAVE_UP]
    assert abandoned > 4 * CAPACITY
    computed = outcome.model_rows - outcome.statuses[200]
    assert computed < 0.3 * abandoned
    assert outcome.rejected["client_gone"] > 0.5 * abandoned  # others were turned away before their client left
    assert service.predict([[1, 2, 3]]) == [6.0]  # nothing is left of it


def test_clients_that_say_how_long_they_wait_are_served_in_a_retry_storm(service: Any) -> None:
    service.turn(max_batch_rows=8)
    outcome = overloaded(service, 2 * CAPACITY, 4, "X-Request-Timeout-Ms: 80", patience_seconds=0.1, retries=3)
    assert outcome.goodput > 0.3 * CAPACITY
    assert outcome.model_rows < 1.5 * outcome.statuses[200]


def test_whoever_connects_behind_many_that_have_given_up_is_served(start: Callable[..., Any]) -> None:
    """On one CPU, which the model computes on too: taken one a turn, each of the dead would cost a call of its own."""
    cpu = min(os.sched_getaffinity(0))
    service = start(
        SERVICE_MODEL="digits?trees=500", SERVICE_MODEL_WORKERS="1", preexec=lambda: os.sched_setaffinity(0, {cpu})
    )
    request = post(b'{"instances": [[%s]]}' % b",".join([b"1"] * 64))
    service.signal(signal.SIGSTOP)
    try:
        for _ in range(DEAD):
            with socket.create_connection(("127.0.0.1", service.port)) as gone:
                gone.sendall(request)
        with socket.create_connection(("127.0.0.1", service.port), timeout=60) as alive:
            alive.sendall(request)
            began = time.monotonic()
            service.signal(signal.SIGCONT)
            assert alive.recv(100).startswith(b"HTTP/1.1 200 ")
            took = time.monotonic() - began
    finally:
        service.signal(signal.SIGCONT)
    assert took < DEAD * CALL_SECONDS / 3


def test_a_thousand_clients_at_once_are_served_or_told(service: Any) -> None:
    """All of them connect while the service does not accept: none waits for a second SYN, and none is turned away."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    service.signal(signal.SIGSTOP)
    try:
        statuses = asyncio.run(thousand(service.port, lambda: service.signal(signal.SIGCONT)))
    finally:
        service.signal(signal.SIGCONT)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert sum(statuses.values()) == CLIENTS
    assert set(statuses) <= {200, 429, 504}, statuses
    assert statuses[200] > 100


async def thousand(port: int, connected: Callable[[], None]) -> Counter[int]:
    async with asyncio.timeout(0.9):  # a dropped SYN is sent again after 1 s
        streams = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(CLIENTS)))
    connected()

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        writer.write(post(BODY))
        line = await reader.readline()
        writer.close()
        return int(line.split()[1])

    async with asyncio.timeout(20):
        return Counter(await asyncio.gather(*(ask(*stream) for stream in streams)))
