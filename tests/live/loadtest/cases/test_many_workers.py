"""Four generator processes are one load: its arrivals at the server, and percentiles over all of them.

L7: merged percentiles are those of all arrivals together, both in a run's record and live at Locust's master.
L10: gaps between arrivals are exponential, by the generator's schedule exactly, and at the server as far as a busy
machine lets one see.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

Locust = Callable[..., Any]

RATE = 600
SECONDS = 6


@dataclass
class Shared:
    run: Any
    log: Any


@pytest.fixture(scope="module")
def shared(start: Any) -> Shared:
    server, run = start(
        ("--delay", "lognormal:0.04:0.6"),
        *("--rate", str(RATE), "--arrivals", "poisson", "--duration", f"{SECONDS}s", "--warmup", "1s"),
        *("--processes", "4", "--seed", "7"),
    )
    return Shared(run.end(), server.log())


def distance_from_exponential(instants: Any, rate: float) -> float:
    """Kolmogorov and Smirnov's D of the gaps: the largest difference between their distribution and the theory's."""
    gaps = np.sort(np.diff(np.sort(instants)))
    theory = 1 - np.exp(-rate * gaps)
    steps = np.arange(len(gaps) + 1) / len(gaps)
    return float(max(np.max(steps[1:] - theory), np.max(theory - steps[:-1])))


def test_the_distance_can_tell() -> None:
    random = np.random.default_rng(1)
    assert distance_from_exponential(np.cumsum(random.exponential(1 / RATE, 5000)), RATE) < 1.36 / math.sqrt(5000)
    assert distance_from_exponential(np.arange(5000) / RATE, RATE) > 0.5
    in_fours = np.repeat(np.cumsum(random.exponential(4 / RATE, 1250)), 4)
    assert distance_from_exponential(in_fours, RATE) > 0.5


def test_gaps_of_the_whole_load_are_exponential(shared: Shared) -> None:
    instants = shared.run.scheduled
    assert distance_from_exponential(instants, RATE) < 1.63 / math.sqrt(len(instants))  # 1%, and the seed is fixed


def test_gaps_at_the_server_are_exponential_too(shared: Shared) -> None:
    arrived = shared.log[0]
    assert len(arrived) == shared.run.result["offered"]
    # Evenly spaced ones would be 0.63 away. A busy machine holds some up and then sends them on together.
    assert distance_from_exponential(arrived, RATE) < 0.45


def test_each_worker_made_its_part(shared: Shared) -> None:
    assert len(shared.run.rows) == 4
    for _, rows in shared.run.rows:
        assert len(rows) == pytest.approx(RATE * SECONDS / 4, rel=0.15)
    assert shared.run.result["offered"] == sum(len(rows) for _, rows in shared.run.rows)
    assert shared.run.result["generator"]["processes"] == 4


def test_the_p99_of_a_run_is_that_of_all_its_arrivals(shared: Shared) -> None:
    rows = np.concatenate([rows[rows["scheduled"] - began >= 1.0] for began, rows in shared.run.rows])
    totals = np.sort(np.where(rows["end"] == 0, rows["done"] - rows["scheduled"], math.inf))
    figures = shared.run.result["latency_seconds"]
    assert figures["p99"] == pytest.approx(totals[math.ceil(0.99 * len(totals)) - 1], rel=1e-6)
    assert figures["max"] == pytest.approx(totals[-1], rel=1e-6)
    applied = np.sort(shared.log[1] - shared.log[0])
    truth = applied[math.ceil(0.99 * len(applied)) - 1]
    assert shared.run.result["service_seconds"]["p99"] == pytest.approx(truth, rel=0.1)


def test_the_live_p99_of_four_workers_is_that_of_all_their_arrivals(
    serve: Any, locust: Locust, free_port: Callable[[], int]
) -> None:
    """Even arrivals go round the workers, and so do the delays: one worker has only slow replies, the others none.

    Whoever took the mean of the workers' percentiles would say 110 ms for p99, and the largest of them 400 ms for p50.
    """
    server = serve("--delay", "0.01,0.01,0.01,0.4")
    port = str(free_port())
    with locust("-H", server.url, "--processes", "4", "--master-bind-port", port, "--master-port", port) as run:
        end = time.monotonic() + 60
        while run.stats().get("worker_count") != 4:
            assert time.monotonic() < end, run.output
            time.sleep(0.1)
        run.swarm(arrivals="constant", rate=200, timeout_seconds=5)
        run.wait(lambda now: now["run"]["completed"] >= 800, 60)
        run.stop()
        latency = run.load()["latency_seconds"]
    applied = np.sort(server.log()[1] - server.log()[0])
    for name, q in {"p50": 0.5, "p90": 0.9, "p99": 0.99}.items():
        truth = applied[math.ceil(q * len(applied)) - 1]
        # A busy machine adds to each; the two mistakes lie far outside.
        assert truth - 0.08 < latency[name] < truth + (0.08 if name == "p50" else 0.5), name
    assert latency["p99"] <= latency["max"]
