"""The shipped configuration, rules and rule tests, judged by Prometheus's and Alertmanager's own tools."""

import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from loadtest.analysis.samples import End, Samples
from loadtest.analysis.verdict import GeneratorHealth, judge
from loadtest.run.options import parse
from slo.config import load
from slo.generate import artifacts, write
from stack.binaries import Binaries

# The SDK would rather have Grafana's newer schema, which older Grafana and the live page do not read.
pytestmark = pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_the_rules_are_valid(root: Path, each_binaries: Binaries, run: Run) -> None:
    rules = sorted((root / "prometheus/rules").glob("*.yml"))
    done = run(each_binaries.promtool, "check", "rules", "--lint=all", "--lint-fatal", *rules)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("SUCCESS") == len(rules) >= 2


def test_the_shipped_rules_pass_the_shipped_tests(root: Path, each_binaries: Binaries, run: Run) -> None:
    tests = sorted((root / "prometheus/tests").glob("*.yml"))
    done = run(each_binaries.promtool, "test", "rules", *tests)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("SUCCESS") == len(tests) >= 3


def test_the_configuration_is_valid(root: Path, each_binaries: Binaries, run: Run) -> None:
    done = run(each_binaries.promtool, "check", "config", root / "prometheus/prometheus.yml")
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout
    assert "rule files found" in done.stdout


def test_alertmanager_takes_its_configuration(root: Path, each_binaries: Binaries, run: Run) -> None:
    done = run(each_binaries.amtool, "check-config", root / "prometheus/alertmanager.yml")
    assert done.returncode == 0, done.stdout


def uncommented(text: str) -> str:
    """The file with its commented examples taken in: lines whose comment is YAML and not a sentence."""
    lines = []
    for line in text.splitlines():
        match = re.fullmatch(r"(\s+)# (- |  )?(\S+:( .*)?|- .*)", line)
        lines.append(f"{match[1]}{match[2] or ''}{match[3]}" if match else line)
    return "\n".join(lines)


def test_the_commented_examples_work_when_taken_in(
    root: Path, tmp_path: Path, each_binaries: Binaries, run: Run
) -> None:
    path = tmp_path / "alertmanager.yml"
    path.write_text(uncommented((root / "prometheus/alertmanager.yml").read_text()))
    config = yaml.safe_load(path.read_text())
    assert [receiver["name"] for receiver in config["receivers"]] == ["inbox", "heartbeat", "slack", "pagerduty"]
    done = run(each_binaries.amtool, "check-config", path)
    assert done.returncode == 0, done.stdout

    def receivers(*labels: str) -> str:
        return run(each_binaries.amtool, "config", "routes", "test", f"--config.file={path}", *labels).stdout

    assert "pagerduty,slack,inbox" in receivers("alertname=LatencySLOBreach", "severity=page")
    assert "slack,inbox" in receivers("alertname=LoadShed", "severity=ticket")
    assert "heartbeat" in receivers("alertname=Watchdog", "severity=none")


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (["alertname=LatencySLOBreach", "severity=page", "job=inference"], "inbox"),
        (["alertname=LoadShed", "severity=ticket", "job=inference"], "inbox"),
        (["alertname=Watchdog", "severity=none", "job=prometheus"], "heartbeat"),
    ],
)
def test_alerts_go_where_they_belong(
    root: Path, each_binaries: Binaries, run: Run, labels: list[str], receiver: str
) -> None:
    config = root / "prometheus/alertmanager.yml"
    done = run(each_binaries.amtool, "config", "routes", "test", f"--config.file={config}", *labels)
    assert receiver in done.stdout.splitlines()


@pytest.fixture
def edited(root: Path, tmp_path: Path) -> Callable[[str, str], Path]:
    """A copy of the shipped slo.yaml with one text in place of another."""

    def edit(old: str, new: str) -> Path:
        text = (root / "slo.yaml").read_text()
        assert text.count(old) == 1
        path = tmp_path / "slo.yaml"
        path.write_text(text.replace(old, new))
        return path

    return edit


VARIANTS = {
    "production": {"profile": "production"},
    "whole seconds, lax objective, a week": {"threshold_seconds": 10, "objective": 0.6, "window_days": 7},
    "four nines": {"objective": 0.9999},
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("change", VARIANTS.values(), ids=VARIANTS)
def test_other_slos_give_rules_that_pass_their_tests(
    root: Path, tmp_path: Path, binaries: Binaries, run: Run, change: dict[str, object]
) -> None:
    document = yaml.safe_load((root / "slo.yaml").read_text())
    document["services"][0] |= change
    # One of each severity, the shortest windows and the longest: the two between them differ in figures only.
    rates = document["profiles"]["production"]["burn_rates"]
    document["profiles"]["production"]["burn_rates"] = [rates[0], rates[-1]]
    (tmp_path / "slo.yaml").write_text(yaml.safe_dump(document))
    write(artifacts(load(tmp_path / "slo.yaml")), tmp_path)
    done = run(binaries.promtool, "check", "rules", *sorted((tmp_path / "prometheus/rules").glob("*.yml")))
    assert done.returncode == 0, done.stdout
    tests = sorted((tmp_path / "prometheus/tests").glob("*-breach-*.yml"))
    done = run(binaries.promtool, "test", "rules", *tests)
    assert done.returncode == 0, done.stdout


def test_m8_the_rule_tests_are_of_the_shipped_files(root: Path) -> None:
    """Not of a copy that could be right while the shipped one is wrong."""
    tested = set()
    for path in (root / "prometheus/tests").glob("*.yml"):
        tested |= {(path.parent / name).resolve() for name in yaml.safe_load(path.read_text())["rule_files"]}
    assert tested == set((root / "prometheus/rules").glob("*.yml"))


@pytest.mark.timeout(400)
def test_another_threshold_is_followed_by_everything(
    root: Path, tmp_path: Path, binaries: Binaries, run: Run, edited: Callable[[str, str], Path]
) -> None:
    """100 ms in slo.yaml and `generate`: rules, their tests, dashboards, bucket edges follow, and promtool agrees."""
    file = edited("threshold_seconds: 0.05 ", "threshold_seconds: 0.1 ")
    for command in ("generate", "check"):
        done = run(Path(sys.executable), "-m", "slo", command, "--slo", file, "--root", tmp_path, cwd=root)
        assert done.returncode == 0, done.stdout
    rules = (tmp_path / "prometheus/rules/inference.yml").read_text()
    assert set(re.findall(r'le="([^"]*)"', rules)) == {"0.1"}
    assert "took longer than 100 ms" in rules
    assert "above 20 ms (20% of the SLO threshold)" in (tmp_path / "prometheus/rules/stack.yml").read_text()
    for path in (tmp_path / "grafana/dashboards").glob("*.json"):
        shipped = (root / "grafana/dashboards" / path.name).read_text()
        assert 'le=\\"0.05\\"' not in path.read_text()
        assert path.read_text().count('le=\\"0.1\\"') == shipped.count('le=\\"0.05\\"')
    main = (tmp_path / "grafana/dashboards/latency-vs-throughput.json").read_text()
    assert '"value": 0.1\n' in main
    assert '"value": 0.05\n' not in main
    assert 0.1 in load(file).duration_edges
    tests = sorted((tmp_path / "prometheus/tests").glob("*.yml"))
    done = run(binaries.promtool, "test", "rules", *tests)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("SUCCESS") == len(tests) >= 3
    assert verdict(file, tmp_path, latency_seconds=0.08) == "PASS"
    assert verdict(root / "slo.yaml", tmp_path, latency_seconds=0.08) == "FAIL"


def verdict(slo: Path, out: Path, latency_seconds: float) -> str:
    """Of a load test of 2,000 arrivals that all took that long, judged by the options that name this file."""
    options = parse(["--slo", str(slo), "--out", str(out)], datetime(2026, 1, 1, tzinfo=UTC))
    rows = [(at / 100, at / 100, at / 100 + latency_seconds, End.OK, 0) for at in range(2000)]
    return judge(Samples.of(rows), options.slo, GeneratorHealth()).verdict
