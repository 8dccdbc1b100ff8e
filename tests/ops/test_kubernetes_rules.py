"""The rules that deploy/kubernetes gives the Prometheus operator, as Prometheus itself reads and evaluates them."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo.kubernetes import OVERLAYS
from stack.binaries import Binaries

Run = Callable[..., subprocess.CompletedProcess[str]]
Firing = dict[tuple[str, str], int]

UP, DOWN, STARTS = "1x60", "0x60", "0x30 1x30"  # every 5 s; STARTS: nothing answers for 2 min 35 s
INFERENCE_1 = 'up{job="inference",instance="inference-1"}'
INFERENCE_2 = 'up{job="inference",instance="inference-2"}'
LOADGEN = 'up{job="loadgen",instance="locust-1"}'
# What else the Prometheus of a cluster scrapes, and none of Tailboard's business.
OTHERS = {'up{job="kubelet",instance="node-1"}': DOWN, 'up{job="haproxy",instance="edge-1"}': DOWN}
WELL = {INFERENCE_1: UP, INFERENCE_2: UP, LOADGEN: UP}

CASES: dict[str, tuple[Mapping[str, str], dict[str, Firing]]] = {
    "all is well": (WELL, {"4m": {}}),
    "without a load generator": ({INFERENCE_1: UP}, {"2m": {}}),
    "a replica starts": (WELL | {INFERENCE_2: STARTS}, {"2m": {}, "4m": {}}),
    "a replica is down": (
        WELL | {INFERENCE_2: DOWN},
        {"2m30s": {}, "3m30s": {("TargetDown", "inference"): 1}},
    ),
    "the load generator is down": (WELL | {LOADGEN: DOWN}, {"1m": {("TargetDown", "loadgen"): 1}}),
    "nobody is scraped": ({LOADGEN: UP}, {"1m": {("InferenceTargetAbsent", "inference"): 1}}),
}


def rules(root: Path, overlay: str) -> str:
    """Of the shipped PrometheusRule: the operator writes just these groups into a file."""
    text = (root / "deploy/kubernetes/overlays" / overlay / "prometheus-rule.yaml").read_text()
    return yaml.safe_dump({"groups": yaml.safe_load(text)["spec"]["groups"]})


def labelled(series: str) -> str:
    """With what a scrape in a cluster adds to every series."""
    pod = series.split('instance="')[1].split('"')[0]
    return series.removesuffix("}") + f',namespace="tailboard",pod="{pod}",container="it",endpoint="metrics"}}'


def case(name: str, series: Mapping[str, str], moments: Mapping[str, Firing]) -> dict[str, Any]:
    tests = [
        {
            "expr": 'count by (alertname, job) (ALERTS{alertstate="firing"})',
            "eval_time": moment,
            "exp_samples": [
                {"labels": f'{{alertname="{alert}", job="{job}"}}', "value": count}
                for (alert, job), count in firing.items()
            ],
        }
        for moment, firing in moments.items()
    ]
    given = [{"series": labelled(each), "values": values} for each, values in series.items()]
    return {"name": name, "interval": "5s", "input_series": given, "promql_expr_test": tests}


@pytest.fixture
def promtool(each_binaries: Binaries, run: Run, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`promtool check rules` without cases, else `test rules`."""

    def judge(rules: str, *cases: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        (tmp_path / "rules.yml").write_text(rules)
        if not cases:
            return run(each_binaries.promtool, "check", "rules", tmp_path / "rules.yml")
        document = {"rule_files": ["rules.yml"], "evaluation_interval": "5s", "tests": list(cases)}
        (tmp_path / "tests.yml").write_text(yaml.safe_dump(document))
        return run(each_binaries.promtool, "test", "rules", tmp_path / "tests.yml")

    return judge


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_prometheus_accepts_them(
    promtool: Callable[..., subprocess.CompletedProcess[str]], root: Path, overlay: str
) -> None:
    done = promtool(rules(root, overlay))
    assert done.returncode == 0, done.stdout
    assert "SUCCESS" in done.stdout
    assert promtool(rules(root, overlay).replace("sum by (job)", "sum by job")).returncode != 0


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nothing_fires_about_what_a_cluster_does_not_have(
    promtool: Callable[..., subprocess.CompletedProcess[str]], root: Path, overlay: str
) -> None:
    cases = [case(name, series | OTHERS, moments) for name, (series, moments) in CASES.items()]
    done = promtool(rules(root, overlay), *cases)
    assert done.returncode == 0, done.stdout


def test_the_cases_notice_the_rules_of_a_single_machine(
    promtool: Callable[..., subprocess.CompletedProcess[str]], root: Path
) -> None:
    shipped = [
        yaml.safe_load((root / "prometheus/rules" / name).read_text()) for name in ("inference.yml", "stack.yml")
    ]
    groups = [group for each in shipped for group in each["groups"]]
    done = promtool(
        yaml.safe_dump({"groups": groups}),
        *(case(name, series | OTHERS, moments) for name, (series, moments) in CASES.items()),
    )
    assert done.returncode != 0
    for alert in ("Watchdog", "TargetDown"):
        assert alert in done.stdout


def test_the_breach_is_one_page_for_all_replicas(
    promtool: Callable[..., subprocess.CompletedProcess[str]], root: Path
) -> None:
    """Each label that a cluster adds would split it if a rule kept labels that it need not."""
    series = dict(WELL)
    for replica in ("inference-1", "inference-2"):
        at = f'job="inference",instance="{replica}",model="digits",route="/predict",outcome="ok"'
        series[f"inference_request_duration_seconds_count{{{at}}}"] = "0+100x60"
        series[f'inference_request_duration_seconds_bucket{{{at},le="0.05"}}'] = "0+90x60"  # a tenth is too slow
        series[f'inference_request_duration_seconds_bucket{{{at},le="+Inf"}}'] = "0+100x60"
    done = promtool(rules(root, "local"), case("slow", series, {"4m": {("LatencySLOBreach", "inference"): 1}}))
    assert done.returncode == 0, done.stdout
