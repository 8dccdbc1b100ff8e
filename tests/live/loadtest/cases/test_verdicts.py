"""PASS, FAIL and INVALID, each from a real run, and what a run does that ends before its time.

L5: a generator that cannot keep the rate makes a run INVALID, a server that cannot makes it FAIL, with the reason.
L9: requests in flight at the end are accounted for. L12: a worker is killed. L13: the exit code is the verdict's, which
`LoadRun.end` looks at in every run, and 64 for a command that cannot be used.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from loadtest.arrivals import Schedule, Share
from loadtest.settings import LoadSettings

RATE = 200
SECONDS = 8
LOAD = ("--rate", str(RATE), "--duration", f"{SECONDS}s", "--warmup", "1s")
LOST_AFTER = 3 * RATE  # arrivals
LOST_SECONDS = 11  # long enough for Locust to miss the worker, which takes some seconds


def scheduled(settings: dict[str, Any], seconds: float) -> int:
    """How many arrivals the schedule of those settings has, counted without a generator."""
    schedule = Schedule(LoadSettings().with_values(settings).plan(Share()), 0.0)
    count = 0
    while schedule.take() < seconds:
        count += 1
    return count


@dataclass
class Whole:
    """Four runs to their end, at once: a server that can, one that cannot, one that dies, a generator held up."""

    good: Any
    overloaded: Any
    dead: Any
    starved: Any


@pytest.fixture(scope="module")
def whole(start: Any) -> Whole:
    _, good = start(("--delay", "0.005"), *LOAD)
    # One request after the other, 10 ms each: half of what is asked.
    _, overloaded = start(("--delay", "0.01", "--serial"), *LOAD)
    dying_server, dead = start((), *LOAD)
    server, starved = start(("--delay", "0.005"), *LOAD)
    dying_server.wait_for(1)
    dying_server.process.kill()
    server.wait_for(3 * RATE)
    (worker,) = starved.workers()
    worker.suspend()
    try:
        time.sleep(1.5)
    finally:
        worker.resume()
    return Whole(*(run.end() for run in (good, overloaded, dead, starved)))


def test_a_service_that_keeps_its_objective_passes(whole: Whole) -> None:
    assert whole.good.code == 0
    result = whole.good.result
    assert result["reasons"][0].startswith("p99 held")
    assert result["offered"] == result["completed"] == scheduled({"rate": RATE, "arrivals": "poisson"}, SECONDS)
    assert result["ended"] == "complete"
    assert result["achieved_rate"] == pytest.approx(RATE, rel=0.1)


def test_an_overloaded_server_fails_and_not_the_generator(whole: Whole) -> None:
    assert whole.overloaded.code == 1
    result = whole.overloaded.result
    assert result["reasons"][0].startswith("p99 did not hold")
    assert result["throughput"] < 0.75 * result["planned_rate"]
    assert result["dispatch_lateness_seconds"]["p99"] < 0.05
    assert result["generator"]["workers_lost"] == 0


def test_a_generator_that_is_held_up_is_invalid_and_not_the_server(whole: Whole) -> None:
    assert whole.starved.code == 2
    result = whole.starved.result
    assert result["reasons"][0].startswith("Whether p99 held is not known: the generator was late")
    assert result["dispatch_lateness_seconds"]["max"] == pytest.approx(1.5, abs=0.5)
    # It sends what its schedule had, late but not twice, and nothing is lost.
    assert result["offered"] == scheduled({"rate": RATE, "arrivals": "poisson"}, SECONDS)
    assert result["failed"] == result["in_flight_at_end"] == 0


def test_a_server_that_is_gone_fails_and_the_failures_have_their_names(whole: Whole) -> None:
    assert whole.dead.code == 1
    result = whole.dead.result
    assert {each["what"] for each in result["failures"]} <= {"cannot connect", "connection lost"}
    assert result["failed"] > 0.9 * result["offered"]
    assert result["offered"] == scheduled({"rate": RATE, "arrivals": "poisson"}, SECONDS)


@dataclass
class Cut:
    """Three runs that something happens to, at once."""

    lost: Any
    lost_at: float  # of the load's own time, when one of its two workers was killed
    interrupted: Any
    breached: Any


@pytest.fixture(scope="module")
def cut(start: Any) -> Cut:
    two = ("--rate", str(RATE), "--arrivals", "constant", "--warmup", "1s", "--processes", "2")
    server, lost = start(("--delay", "0.005"), *two, "--duration", f"{LOST_SECONDS}s")
    slow_server, interrupted = start(("--delay", "1.2"), "--rate", "100", "--duration", "60s", "--warmup", "1s")
    _, breached = start(
        ("--delay", "0.005", "--change", "3=0.7"),
        *("--rate", "100", "--duration", "60s", "--warmup", "1s", "--abort-on-breach", "2s"),
    )
    server.wait_for(LOST_AFTER)
    victim, _ = lost.workers()
    victim.kill()
    killed_at = time.monotonic()
    slow_server.wait_for(400)
    interrupted.interrupt()
    time.sleep(0.3)
    interrupted.interrupt()  # who presses it again will not wait for requests under way
    ended = lost.end()
    return Cut(ended, killed_at - ended.began, interrupted.end(), breached.end())


def test_a_worker_is_killed_and_the_run_goes_on(cut: Cut) -> None:
    assert cut.lost.code == 2
    result = cut.lost.result
    assert result["reasons"][0].startswith("Whether p99 held is not known: 1 of the generator's workers was lost")
    assert result["generator"]["workers_lost"] == 1
    assert result["ended"] == "complete"
    # The other one had the whole load soon after.
    instants = cut.lost.scheduled
    late = np.count_nonzero((instants >= LOST_SECONDS - 2) & (instants < LOST_SECONDS))
    assert late == pytest.approx(2 * RATE, abs=2)


def test_what_a_killed_worker_would_have_sent_counts_as_dropped(cut: Cut) -> None:
    result = cut.lost.result
    assert result["offered"] == scheduled({"rate": RATE, "arrivals": "constant"}, LOST_SECONDS)
    noted = sum(len(rows) for _, rows in cut.lost.rows)
    gap = result["offered"] - noted
    assert result["dropped"] == gap > 0
    gone = np.setdiff1d(np.arange(1, result["offered"] + 1), np.rint(cut.lost.scheduled * RATE).astype(int))
    assert len(gone) == gap
    assert set(gone % 2) == {gone[0] % 2}, "every other one, from the share of one of two"
    assert gone[0] / RATE == pytest.approx(cut.lost_at, abs=0.5)
    assert gone[-1] / RATE < cut.lost_at + 6


def test_two_interrupts_end_a_run_at_once_and_what_it_measured_is_kept(cut: Cut) -> None:
    result = cut.interrupted.result
    assert result["ended"] == "interrupted"
    assert result["duration_seconds"] == pytest.approx(4, abs=2)
    assert result["completed"] > 100
    assert result["in_flight_at_end"] > 50  # 1.2 s at 100/s, given up
    assert result["latency_seconds"]["p99"] is None
    assert result["latency_reasons"]["p99"]
    assert result["success_latency_seconds"]["p50"] == pytest.approx(1.2, abs=0.3)


def test_a_breach_that_lasts_ends_the_run_early(cut: Cut) -> None:
    result = cut.breached.result
    assert cut.breached.code == 1
    assert result["ended"] == "aborted"
    assert 5 < result["duration_seconds"] < 20  # broken from 3 s on, for 2 s, and judged in a window
    assert any("Ended early" in reason for reason in result["reasons"])
    assert result["in_flight_at_end"] + result["completed"] == result["offered"]


USAGE = {
    "no rate": (["--rate", "0"], "rate is 0.0; expected a number above 0"),
    "no time to measure": (["--duration", "5s", "--warmup", "5s"], "--warmup is 5s and --duration 5s"),
    "no objective": (["--slo", "/nowhere.yaml"], "/nowhere.yaml"),
    "no such option": (["--users-per-second", "5"], "--users-per-second"),
}


def test_a_command_that_cannot_be_used_is_neither_pass_nor_fail(root: Path, tmp_path: Path) -> None:
    """All at once: what takes time is to start."""
    started = {
        name: subprocess.Popen(
            [sys.executable, "-m", "loadtest", "run", "--out", str(tmp_path / name), *arguments],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, (arguments, _) in USAGE.items()
    }
    for name, process in started.items():
        printed, said = process.communicate(timeout=90)
        assert process.returncode == 64, said
        assert printed == ""
        assert said.startswith("loadtest run: ")
        assert USAGE[name][1] in said
        assert len(said.splitlines()) == 1
        assert not (tmp_path / name).exists()


def test_no_process_of_a_run_outlives_it(cut: Cut, whole: Whole) -> None:
    """Nor a run's own death: its generators are tied to it."""
    assert not [child for child in psutil.Process(os.getpid()).children(recursive=True) if _is_worker(child)]


def _is_worker(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and "loadtest.run.worker" in process.cmdline()
    except psutil.NoSuchProcess:
        return False
