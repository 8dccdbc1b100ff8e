"""`python -m loadtest tune` on real services: what it finds, what it leaves behind, how it ends when it is interrupted.

The objective is loose and the model waits instead of computing, so that a busy machine gives the same answers.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from loadtest.analysis.frontier_file import loads

pytestmark = pytest.mark.timeout(300)

MODEL = "synthetic?fixed_seconds=0.02&per_row_seconds=0.002"  # 45/s one by one, and up to 500/s in large batches
TOKEN = "a-token-of-the-test"
LOOSE = ("--slo-threshold-seconds", "0.1", "--slo-objective", "0.9", "--waits", "0")


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SERVICE_", "SLO_"))}
    return {**kept, "SERVICE_MODEL": MODEL, **changes}


@pytest.fixture
def tune(root: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a search; its folder is `tmp_path / "out"`."""
    made = []

    def begin(*arguments: str, **changes: str) -> subprocess.Popen[str]:
        made.append(
            subprocess.Popen(
                [sys.executable, "-m", "loadtest", "tune", "--out", str(tmp_path / "out"), *arguments],
                cwd=root,
                env=environment(**changes),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return made[-1]

    yield begin
    for search in made:
        if search.poll() is None:
            search.kill()  # what it has started goes with it
        search.communicate()


class Service:
    """A service of somebody else's."""

    def __init__(self, port: int, admin_port: int) -> None:
        self.url, self.admin = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{admin_port}"

    @property
    def options(self) -> list[str]:
        return ["--target", self.url, "--admin", self.admin]

    def knobs(self) -> Any:
        return requests.get(f"{self.admin}/admin/batching", timeout=5).json()


@pytest.fixture
def service(root: Path, free_port: Callable[[], int], tmp_path: Path) -> Iterator[Service]:
    found = Service(free_port(), free_port())
    ports = {"SERVICE_PORT": found.url.rpartition(":")[2], "SERVICE_ADMIN_PORT": found.admin.rpartition(":")[2]}
    own = {"SERVICE_ADMIN_TOKEN": TOKEN, "SERVICE_MAX_BATCH_ROWS": "3", "SERVICE_DRAIN_GRACE_SECONDS": "0"}
    with (tmp_path / "service.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "service"], cwd=root, env=environment(**ports, **own), stdout=log, stderr=log
        )
    end = time.monotonic() + 60
    while True:
        try:
            if requests.get(f"{found.admin}/readyz", timeout=2).ok:
                break
        except requests.RequestException:
            assert process.poll() is None, (tmp_path / "service.log").read_text()
        assert time.monotonic() < end
        time.sleep(0.1)
    yield found
    process.terminate()
    process.wait(30)


def test_a_service_of_its_own_is_tuned_and_gone_afterwards(
    tune: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    search = tune("--own-service", "--budget", "90s", "--batch-rows", "1,16", "--target-rate", "5000", *LOOSE)
    said, told = search.communicate(timeout=200)
    found, about = loads((tmp_path / "out" / "frontier.json").read_bytes())
    assert about.model == "synthetic"
    # A busy machine may need more time than this to confirm, or make the generator late; what was seen is told.
    assert found.kind in ("chosen", "generator_limited", "partial"), told + said
    assert search.returncode == (0 if found.confirmed else 2), told + said
    assert found.knobs is not None
    assert found.rate is not None
    # One by one it takes 45/s, sixteen at a time 16 / 0.052 = 307/s: batching is what it has to find.
    assert found.knobs.max_batch_rows == 16
    assert 100 < found.rate < 310
    assert (tmp_path / "out" / "tuned.env").exists() == found.confirmed
    if found.confirmed:
        assert 3 <= len(found.confirmations) <= 5
        assert "SERVICE_MAX_BATCH_ROWS=16\n" in (tmp_path / "out" / "tuned.env").read_text()
    page = (tmp_path / "out" / "report.html").read_text()
    assert "that synthetic carried" in page or "synthetic carries" in page
    assert "that synthetic carried" in said or "synthetic carries" in said
    assert "Traceback" not in told
    assert " left, " in told


def test_ctrl_c_keeps_what_was_measured_and_sets_the_knobs_back(
    tune: Callable[..., subprocess.Popen[str]], service: Service, tmp_path: Path
) -> None:
    before = service.knobs()
    assert before["max_batch_rows"] == 3
    search = tune(*service.options, "--budget", "5m", "--batch-rows", "1,16", *LOOSE, SERVICE_ADMIN_TOKEN=TOKEN)
    told = ""
    assert search.stderr is not None
    while not any(line.startswith(("PASS", "FAIL")) for line in told.splitlines()):
        line = search.stderr.readline()
        assert line, told
        told += line
    assert service.knobs()["max_batch_rows"] != 3  # it is at work
    search.send_signal(signal.SIGINT)
    said, rest = search.communicate(timeout=60)
    assert search.returncode == 2, told + rest
    assert "what was measured is kept" in rest
    found, _ = loads((tmp_path / "out" / "frontier.json").read_bytes())
    assert found.kind == "partial"
    assert len(found.trials) >= 1
    assert not (tmp_path / "out" / "tuned.env").exists()
    assert service.knobs() == before
    assert "the service runs with what it had: batch 3" in said


def test_what_cannot_be_tuned_is_one_sentence(
    tune: Callable[..., subprocess.Popen[str]], service: Service, free_port: Callable[[], int], tmp_path: Path
) -> None:
    def outcome(*arguments: str, **changes: str) -> tuple[int, str]:
        search = tune(*arguments, **changes)
        _, told = search.communicate(timeout=60)
        return search.returncode, told.splitlines()[-1]

    code, sentence = outcome(*service.options, *LOOSE, SERVICE_ADMIN_TOKEN="wrong")
    assert code == 2
    assert sentence.endswith("answered 401: the token is wrong; expected the value of SERVICE_ADMIN_TOKEN")
    nobody = f"http://127.0.0.1:{free_port()}"
    code, sentence = outcome("--target", service.url, "--admin", nobody)
    assert code == 2
    assert sentence.startswith(f"loadtest tune: the admin port {nobody} does not answer (ConnectionError)")
    code, sentence = outcome("--own-service", SERVICE_MODEL="nothing.such")
    assert code == 2
    assert sentence.startswith("loadtest tune: the service did not start: ")
    assert "nothing.such" in sentence
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out" / "frontier.json").write_text("{}")
    code, sentence = outcome(*service.options, SERVICE_ADMIN_TOKEN=TOKEN)
    assert code == 64
    assert "holds a search already" in sentence


def test_a_dry_run_says_the_plan_and_touches_nothing(
    tune: Callable[..., subprocess.Popen[str]], service: Service, tmp_path: Path
) -> None:
    before = service.knobs()
    search = tune(*service.options, "--dry-run", "--batch-rows", "1,8")
    said, told = search.communicate(timeout=60)
    assert search.returncode == 0, told
    assert "8 configs: batches of 1, 8 rows; waits of 0 s, 1 ms, 2 ms, 5 ms" in said
    assert not (tmp_path / "out").exists()
    assert service.knobs() == before
