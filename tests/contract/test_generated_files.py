"""What is committed is what slo.yaml gives, and `python -m slo` says so, or which file differs."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slo.config import load
from slo.generate import artifacts, differences, write

# The SDK would rather have Grafana's newer schema, which older Grafana and the live page do not read.
pytestmark = pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")

Slo = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def slo(root: Path) -> Slo:
    """`python -m slo …` from the repository's root."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "slo", *map(str, arguments)]
        return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=False)

    return run


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A root with everything generated in it."""
    write(artifacts(load(root / "slo.yaml")), tmp_path)
    return tmp_path


def test_what_is_committed_follows_from_slo_yaml(root: Path) -> None:
    assert differences(artifacts(load(root / "slo.yaml")), root) == []


def test_every_dashboard_and_rule_file_is_generated(root: Path) -> None:
    """A file written by hand would be in no comparison."""
    generated = set(artifacts(load(root / "slo.yaml")))
    for folder, pattern in (("prometheus/rules", "*"), ("prometheus/tests", "*"), ("grafana/dashboards", "*")):
        there = {path.relative_to(root) for path in (root / folder).glob(pattern)}
        assert there == {path for path in generated if path.parent == Path(folder)}


def test_check_agrees_with_what_is_committed(slo: Slo) -> None:
    done = slo("check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_check_names_the_file_that_differs(slo: Slo, copy: Path) -> None:
    changed = copy / "prometheus/rules/inference.yml"
    changed.write_text(changed.read_text().replace("> 0.01", "> 0.02"))
    (copy / "grafana/dashboards/batcher.json").unlink()
    stray = copy / "prometheus/rules/embeddings.yml"
    stray.write_text(changed.read_text())
    done = slo("check", "--root", copy)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "prometheus/rules/inference.yml is not what slo.yaml gives",
        "grafana/dashboards/batcher.json is missing",
        "prometheus/rules/embeddings.yml is generated, but no longer follows from slo.yaml",
        "run `python -m slo generate` (make generate)",
    ]


def test_generate_mends_it_and_leaves_other_rules_alone(slo: Slo, copy: Path) -> None:
    own = copy / "prometheus/rules/own.yml"
    own.write_text("groups: []\n")
    (copy / "prometheus/rules/inference.yml").write_text("groups: []\n")
    stray = copy / "prometheus/rules/embeddings.yml"
    stray.write_text((copy / "prometheus/rules/stack.yml").read_text())
    assert slo("generate", "--root", copy).returncode == 0
    assert slo("check", "--root", copy).returncode == 0
    assert own.exists()
    assert not stray.exists()


def test_a_changed_objective_changes_the_rules(slo: Slo, root: Path, copy: Path) -> None:
    other = copy / "slo.yaml"
    other.write_text((root / "slo.yaml").read_text().replace("objective: 0.99 ", "objective: 0.95 "))
    done = slo("check", "--slo", other, "--root", copy)
    assert done.returncode == 1
    assert "prometheus/rules/inference.yml is not what slo.yaml gives" in done.stderr
    assert "prometheus/tests/inference-breach-2m.yml is not what slo.yaml gives" in done.stderr
    assert "grafana/dashboards/latency-vs-throughput.json is not what slo.yaml gives" in done.stderr


def test_explain_tells_of_the_shipped_file(slo: Slo) -> None:
    done = slo("explain", "--bad", "0.03")
    assert (done.returncode, done.stderr) == (0, "")
    assert "99% under 50 ms over 30 days = 7 h 12 min of budget" in done.stdout
    assert "    3%" in done.stdout


@pytest.mark.parametrize("share", ["0", "3", "nan", "much"])
def test_explain_refuses_what_is_no_share(slo: Slo, share: str) -> None:
    done = slo("explain", "--bad", share)
    assert done.returncode == 2
    assert f"'{share}' is no share; expected a number above 0 and up to 1, such as 0.03" in done.stderr


def test_a_wrong_slo_file_is_one_sentence(slo: Slo, tmp_path: Path) -> None:
    done = slo("generate", "--slo", tmp_path / "nope.yaml")
    assert done.returncode == 64
    assert done.stderr == f"{tmp_path / 'nope.yaml'}: no such file; expected the SLO file, such as slo.yaml\n"
