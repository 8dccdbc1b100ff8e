"""What a closed loop hides: a stall of a second, a freeze of six, a server that becomes a hundred times slower.

L1: the rate at the server keeps to the schedule. L2: a stall shows in p99. L3: latency counts from the scheduled
instant. L4: nothing is sent but the schedule's own arrivals. L8: p99 is no more than the maximum, and exact. L9: every
arrival is accounted for (`LoadRun.end` looks at that in every run).
"""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

RATE = 100
STALL_AT, STALL_SECONDS = 8.0, 1.0
SLOWER_AT = 8.0
FREEZE_SECONDS = 6.0


@dataclass
class Stalls:
    """Four runs that go on at once."""

    open: Any
    closed: Any
    frozen: Any
    slower: Any
    open_log: Any
    slower_log: Any
    freeze: tuple[float, float]


@pytest.fixture(scope="module")
def stalls(start: Any) -> Stalls:
    stall = ("--delay", "0.005", "--stall", f"{STALL_AT}={STALL_SECONDS}")
    twenty = ("--rate", str(RATE), "--arrivals", "constant", "--duration", "20s", "--warmup", "2s")
    thirty = ("--rate", str(RATE), "--arrivals", "constant", "--duration", "30s", "--warmup", "2s")
    frozen_server, frozen = start(("--delay", "0.005"), *thirty, "--timeout-seconds", "10")
    open_server, open_loop = start(stall, *twenty, "--timeout-seconds", "5")
    _, closed_loop = start(stall, *twenty, "--closed-loop", "1", "--timeout-seconds", "5")
    slower_server, slower = start(("--delay", "0.005", "--change", f"{SLOWER_AT}=0.5"), *twenty)
    frozen_server.wait_for(12 * RATE)
    freeze = frozen_server.freeze(FREEZE_SECONDS)
    ended = [run.end() for run in (open_loop, closed_loop, frozen, slower)]
    return Stalls(*ended, open_server.log(), slower_server.log(), freeze)


def nearest_rank(values: Any, q: float) -> float:
    """The quantile as its textbook defines it, by sorting."""
    return float(np.sort(values)[math.ceil(q * len(values)) - 1])


def measured(run: Any) -> Any:
    """Total times of the arrivals after the warm-up, computed here from the rows alone."""
    (began, rows), *_ = run.rows
    at = rows["scheduled"] - began
    rows = rows[(at >= 2.0) & (at < run.result["duration_seconds"])]
    return np.where(rows["end"] == 0, rows["done"] - rows["scheduled"], math.inf)


def test_one_second_of_stall_is_seen_open_and_hidden_closed(stalls: Stalls) -> None:
    open_p99 = stalls.open.result["latency_seconds"]["p99"]
    assert open_p99 >= 0.7
    assert stalls.open.result["latency_seconds"]["max"] == pytest.approx(STALL_SECONDS, abs=0.2)
    assert stalls.open.result["verdict"] == "FAIL"
    assert "p99 did not hold" in stalls.open.result["reasons"][0]
    # The same server, the same stall: one request saw it, and the verdict is that all is well.
    closed = stalls.closed.result
    assert closed["latency_seconds"]["p99"] < 0.1
    assert closed["latency_seconds"]["max"] >= 0.9
    assert closed["slo"]["bad"] == 1
    assert closed["arrivals"] == "closed"
    assert any("hide" in note for note in closed["notes"])


def test_latency_of_those_behind_a_late_one_counts_from_their_scheduled_instant(stalls: Stalls) -> None:
    """Of a stall of T, those due t after its beginning waited T - t: a straight line from a second down to nothing."""
    (_, rows), *_ = stalls.open.rows
    stall_end = stalls.open_log[0][0] + STALL_AT + STALL_SECONDS
    held = (rows["scheduled"] > stall_end - 0.9) & (rows["scheduled"] < stall_end - 0.1)
    assert np.count_nonzero(held) == pytest.approx(0.8 * RATE, abs=1)
    totals = rows["done"] - rows["scheduled"]
    assert totals[held] == pytest.approx(stall_end - rows["scheduled"][held], abs=0.1)


def test_after_a_stall_nothing_comes_but_the_schedules_own_arrivals(stalls: Stalls) -> None:
    arrived = np.sort(stalls.open_log[0]) - stalls.open.began
    assert len(arrived) == stalls.open.result["offered"] == len(stalls.open.scheduled)
    due = np.arange(1, len(arrived) + 1) / RATE
    assert stalls.open.scheduled == pytest.approx(due, abs=1e-5)
    assert np.min(arrived - due) > -1e-5  # none before its time, neither in the stall nor after it
    assert np.median(arrived - due) < 0.02


def test_the_rate_at_the_server_stays_when_it_becomes_a_hundred_times_slower(stalls: Stalls) -> None:
    arrived = np.sort(stalls.slower_log[0])
    seconds = arrived - arrived[0]
    before = np.count_nonzero(seconds < SLOWER_AT)
    after = np.count_nonzero((seconds >= SLOWER_AT) & (seconds < 2 * SLOWER_AT))
    assert before == pytest.approx(RATE * SLOWER_AT, rel=0.01)
    assert after == pytest.approx(RATE * SLOWER_AT, rel=0.01)
    result = stalls.slower.result
    assert result["dropped"] == result["failed"] == 0
    assert len(arrived) == result["offered"] == result["completed"]
    assert result["latency_seconds"]["p99"] == pytest.approx(0.5, abs=0.1)


def test_a_frozen_server_is_measured_as_theory_says(stalls: Stalls) -> None:
    """Frozen from a to b, each arrival in between waits b minus its instant."""
    began, ended = (instant - stalls.frozen.began for instant in stalls.freeze)
    due = np.arange(1, 30 * RATE) / RATE
    due = due[due >= 2.0]
    theory = np.where((due > began) & (due < ended), ended - due, 0.0)
    figures = stalls.frozen.result["latency_seconds"]
    assert figures["max"] == pytest.approx(theory.max(), abs=0.3)
    assert figures["p99"] == pytest.approx(nearest_rank(theory, 0.99), abs=0.3)
    assert figures["p99"] > 5
    assert stalls.frozen.result["failed"] == stalls.frozen.result["dropped"] == 0
    assert stalls.frozen.result["service_seconds"]["p99"] > 5  # here the requests were sent, and waited at the server


def test_while_it_is_frozen_the_age_of_the_oldest_request_is_shown(stalls: Stalls) -> None:
    """Without a terminal a line comes every five seconds, so one came in the six and after its first second."""
    ages = [float(text) for text in re.findall(r"in flight, oldest ([0-9.]+) s", stalls.frozen.progress)]
    assert ages, stalls.frozen.progress
    assert max(ages) > 0.9
    assert max(ages) < FREEZE_SECONDS + 1


@pytest.mark.parametrize("name", ["open", "closed", "frozen", "slower"])
def test_percentiles_are_exact_and_none_is_above_the_maximum(stalls: Stalls, name: str) -> None:
    run = getattr(stalls, name)
    totals = measured(run)
    figures = run.result["latency_seconds"]
    assert len(totals) == run.result["measured"]["offered"]
    for key, q in {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}.items():
        assert figures[key] == pytest.approx(nearest_rank(totals, q), rel=1e-6)
    assert figures["p50"] <= figures["p90"] <= figures["p95"] <= figures["p99"] <= figures["p999"] <= figures["max"]


def test_what_is_reported_is_what_the_server_did(stalls: Stalls) -> None:
    """The client's service times against the server's own clock: nothing is lost or made up in between."""
    arrived, answered = stalls.slower_log
    applied = answered - arrived
    (_, rows), *_ = stalls.slower.rows
    seen = rows["done"] - rows["sent"]
    assert nearest_rank(seen, 0.99) == pytest.approx(nearest_rank(applied, 0.99), rel=0.05)
    assert np.median(seen) == pytest.approx(np.median(applied), rel=0.05)
