"""`python -m stack.demo` for real: the happy run once on the real model, and each way in which it has to fail.

The failing runs go side by side, on a model that waits rather than computes.
"""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stack.binaries import Binaries
from stack.settings import ROOT

SYNTHETIC = "synthetic?fixed_seconds=0.005&per_row_seconds=0.00006&features=64"
Gone = Callable[..., bool]
pytestmark = pytest.mark.timeout(600)


class Demo:
    """One run as a process of its own; what it prints goes to a file."""

    def __init__(self, environment: dict[str, str], out: Path, *arguments: str) -> None:
        self.out = out
        out.mkdir(parents=True)
        self.log = out / "terminal.txt"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "stack.demo", "--out", str(out), *arguments],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def until(self, words: str, within_seconds: float = 180.0) -> None:
        end = time.monotonic() + within_seconds
        while words not in self.said():
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < end, self.said()
            time.sleep(0.2)

    def end(self, within_seconds: float) -> int:
        return self.process.wait(timeout=within_seconds)

    def result(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads((self.out / "result.json").read_text(encoding="utf-8"))
        return result


@pytest.fixture
def begin(
    binaries: Binaries, environment: dict[str, str], free_port: Callable[[], int], tmp_path: Path
) -> Iterator[Callable[..., Demo]]:
    """Starts a demo on ports and in a directory of its own."""
    started: list[Demo] = []

    def start(name: str, *arguments: str, **changes: str) -> Demo:
        ports = {key: str(free_port()) for key in environment if key.endswith("_PORT")}
        own = {
            "TAILBOARD_STATE_DIR": str(tmp_path / name / "state"),
            "SERVICE_MODEL_CACHE_DIR": str(tmp_path / "models"),
        }
        started.append(Demo({**environment, **ports, **own, **changes}, tmp_path / name / "out", *arguments))
        return started[-1]

    yield start
    for demo in started:
        if demo.process.poll() is None:
            demo.process.kill()
            demo.process.wait()


def broken_rules(directory: Path) -> Path:
    """The shipped rules with a threshold in the breach alert that nothing reaches."""
    shutil.copytree(ROOT / "prometheus" / "rules", directory)
    path = directory / "inference.yml"
    text, count = re.subn(r"(job:slo_bad:ratio_rate30s\{job=\"inference\"\} >) 0\.01\b", r"\1 2", path.read_text())
    assert count == 1
    path.write_text(text)
    return directory


def test_the_whole_story_on_the_real_model(
    begin: Callable[..., Demo], whole_family: Callable[[int], list[int]], all_gone: Gone
) -> None:
    began = time.monotonic()
    # Fewer trees than by default, so that the SLO can be met on a machine that does other things too.
    demo = begin("happy", "--ramp-seconds", "75", SERVICE_MODEL="digits?trees=50")
    demo.until("Offering")
    pids = whole_family(demo.process.pid)
    code = demo.end(within_seconds=400)
    assert code == 0, demo.said()
    assert time.monotonic() - began < 400
    result = demo.result()
    assert (result["verdict"], result["interrupted"]) == ("PASS", False)
    times = result["times"]
    story = [
        times[name] for name in ("breach", "fired", "arrived", "cured", "recovered", "resolved", "cleared", "ended")
    ]
    assert story == sorted(story)
    assert times["fired"] - times["breach"] <= 60
    assert times["cleared"] - times["recovered"] <= 120
    before, after, load = result["before"], result["after"], result["load_rps"]
    assert (before["slo_met"], after["slo_met"]) == (False, True)
    assert before["offered_rps"] == pytest.approx(load, rel=0.06)
    assert after["offered_rps"] == pytest.approx(load, rel=0.06)
    assert (before["mean_batch_rows"], before["max_batch_rows"], after["max_batch_rows"]) == (1.0, 1, 128)
    best = {
        size: max(
            point["figures"]["served_rps"] for point in result["ramp"] if point["figures"]["max_batch_rows"] == size
        )
        for size in (1, 8, 128)
    }
    assert best[1] < best[8] < best[128]
    said = demo.said()
    assert said.count("SLO met") == 2
    assert "waiting for the alert to fire; about" in said
    assert "Plotly" in (demo.out / "report.html").read_text(encoding="utf-8")
    assert all_gone(pids)


def test_it_fails_when_it_should_and_says_what_did_not_happen(
    begin: Callable[..., Demo], whole_family: Callable[[int], list[int]], all_gone: Gone, tmp_path: Path
) -> None:
    deaf = begin("deaf", SERVICE_MODEL=SYNTHETIC, TAILBOARD_RULES_DIR=str(broken_rules(tmp_path / "rules")))
    stopped = begin("stopped", "--sabotage", "stop-load", SERVICE_MODEL=SYNTHETIC)
    pids = []
    for demo in (deaf, stopped):
        demo.until("Offering")
        pids += whole_family(demo.process.pid)
    assert deaf.end(within_seconds=300) == 1
    assert "FAIL: The alert LatencySLOBreach did not fire within 75 s of the breach (it is inactive)." in deaf.said()
    assert stopped.end(within_seconds=300) == 1
    assert re.search(
        r"FAIL: The alert LatencySLOBreach cleared at \d+ s because the traffic stopped at \d+ s \(it was [\d,]+/s\), "
        r"not because latency recovered\.",
        stopped.said(),
    ), stopped.said()
    for demo in (deaf, stopped):
        assert demo.result()["verdict"] == "FAIL"
        assert demo.result()["ramp"] == []
        assert (demo.out / "report.html").exists()
        assert "Traceback" not in demo.said()
    assert all_gone(pids)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_keeps_what_was_measured_and_stops_everything(
    begin: Callable[..., Demo],
    whole_family: Callable[[int], list[int]],
    all_gone: Gone,
    number: signal.Signals,
    code: int,
) -> None:
    demo = begin("interrupted", SERVICE_MODEL=SYNTHETIC)
    demo.until("offered,")
    pids = whole_family(demo.process.pid)
    began = time.monotonic()
    demo.process.send_signal(number)
    assert demo.end(within_seconds=30) == code, demo.said()
    assert time.monotonic() - began < 20
    result = demo.result()
    assert (result["verdict"], result["interrupted"]) == ("PARTIAL", True)
    assert result["series"]
    assert "PARTIAL: The demo was interrupted" in demo.said()
    assert "Traceback" not in demo.said()
    assert all_gone(pids)


def test_a_stack_that_runs_already_is_named_and_left_alone(
    begin: Callable[..., Demo], environment: dict[str, str]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "stack", "--only", "inbox"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as other:
        try:
            assert other.stdout is not None
            while "is up" not in (line := other.stdout.readline()):
                assert line, "it ended"
            demo = begin("second", INBOX_PORT=environment["INBOX_PORT"])
            assert demo.end(within_seconds=60) == 1
            assert f"port {environment['INBOX_PORT']} (alert inbox) is held by python" in demo.said()
            assert "If that is `make up`, stop it first" in demo.said()
            assert "starting" not in demo.said()
            assert not (demo.out / "report.html").exists()
            assert other.poll() is None
        finally:
            other.send_signal(signal.SIGINT)
            other.communicate(timeout=30)


@pytest.mark.parametrize(
    ("arguments", "changes", "sentence"),
    [
        (["--load-rps", "3"], {}, "error: --load-rps is 3; expected 10 to 100000 requests per second\n"),
        (["--ramp-seconds", "5"], {}, "error: --ramp-seconds is 5; expected at least 60, 20 for each batch size\n"),
        (["--batch-sizes", "8,1"], {}, "error: --batch-sizes is 8,1; expected at least two, rising, such as 1,8,128\n"),
        ([], {"INBOX_PORT": "x"}, "error: INBOX_PORT is 'x'; expected a port from 1 to 65535\n"),
        ([], {"SLO_FILE": "/nowhere.yaml"}, "error: /nowhere.yaml: no such file; expected the SLO file"),
    ],
)
def test_a_mistake_is_one_sentence(
    begin: Callable[..., Demo], arguments: list[str], changes: dict[str, str], sentence: str
) -> None:
    demo = begin("mistake", *arguments, **changes)
    assert demo.end(within_seconds=60) == 64
    assert demo.said().startswith(sentence)
    assert len(demo.said().splitlines()) == 1
