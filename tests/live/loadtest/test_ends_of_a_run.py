"""How a run ends when somebody is impatient, or a generator hangs too shortly before the end to be missed."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from loadtest.sample_file import SampleFileError, read_rows

PATIENCE_SECONDS = 60.0


@pytest.fixture
def start(root: Path, tmp_path: Path, server: Any) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a run against the server; its folder is `tmp_path / "out"`, its words are in `tmp_path / "said"`."""
    made = []

    def begin(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "loadtest", "run", "--target", f"http://127.0.0.1:{server.port}"]
        with (tmp_path / "said").open("w") as said:
            made.append(
                subprocess.Popen(
                    [*command, "--warmup", "0", "--out", str(tmp_path / "out"), *arguments],
                    cwd=root,
                    stdout=said,
                    stderr=said,
                )
            )
        return made[-1]

    yield begin
    for run in made:
        if run.poll() is None:
            run.kill()  # its generators go with it
            run.wait()


def scheduled(folder: Path) -> list[int]:
    """How many arrivals each generator has noted so far."""
    try:
        return [len(read_rows(path)[1]) for path in sorted((folder / "samples").glob("*.samples"))]
    except SampleFileError:
        return []  # one is just being made


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_two_interrupts_after_the_last_arrival_give_up_what_is_under_way(
    start: Callable[..., subprocess.Popen[bytes]], server: Any, tmp_path: Path
) -> None:
    server.hold_until = float("inf")  # nobody is ever answered
    run = start(
        "--rate", "50", "--arrivals", "constant", "--duration", "2s", "--timeout-seconds", "300", "--users", "150"
    )
    wait_until(lambda: len(server.arrivals) == 99)
    time.sleep(2)
    run.send_signal(signal.SIGINT)
    time.sleep(1)
    assert run.poll() is None  # requests under way have their time
    run.send_signal(signal.SIGINT)
    assert run.wait(PATIENCE_SECONDS) == 1
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (result["ended"], result["duration_seconds"]) == ("interrupted", 2)
    assert result["offered"] == result["measured"]["in_flight_at_end"] == 99
    assert result["settings"]["users"] == 150
    said = (tmp_path / "said").read_text()
    assert said.count("press Ctrl-C again") == said.count("are given up") == 1


def test_what_a_generator_that_hangs_at_the_end_does_not_send_is_not_forgotten(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    run = start("--rate", "100", "--arrivals", "constant", "--duration", "10s", "--processes", "2")
    wait_until(lambda: sum(scheduled(tmp_path / "out")) >= 850)  # too late for Locust to miss it
    children = psutil.Process(run.pid).children()
    next(child for child in children if "loadtest.run.worker" in child.cmdline()).suspend()
    assert run.wait(PATIENCE_SECONDS) == 2
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["generator"]["workers_lost"] == 1
    assert result["offered"] == 999
    assert 50 <= result["dropped"] <= 90  # half of what was still to come, and what a busy machine had delayed
    assert result["reasons"][0].startswith("Whether p99 held is not known: 1 of the generator's workers was lost")
