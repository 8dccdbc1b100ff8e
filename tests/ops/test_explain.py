"""`python -m slo explain` is right: at the times that it tells, and not before, promtool sees alerts fire and clear."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slo.config import SCRAPE_SECONDS, Service, SloFile, load
from slo.delays import Watch, clears_after, fires_after, watches
from slo.durations import duration_text
from slo.generate import yaml_text
from slo.rule_tests.series import Phase, case, is_firing, requests
from slo.rules import group_order, rule_files, service_file
from stack.binaries import Binaries

Run = Callable[..., subprocess.CompletedProcess[str]]
BUSY = 10_000
KINDS = {"LatencySLOBreach": "slow", "ErrorRatioHigh": "failed", "LoadShed": "shed"}


def told(service: Service, slo: SloFile, watch: Watch, share: float, step: int) -> dict[str, Any]:
    """A promtool case: good for as long as the longest window, bad until it has fired for long, then good again."""
    fires = fires_after(watch, share, step)
    clears = 0 if fires is None else clears_after(watch, share, step)
    longest = max(limit.window_seconds for limit in watch.limits)
    history, bad = longest // step, longest // step + 10
    kind = {KINDS[watch.alert]: round(share * BUSY)}
    phases = [
        Phase(history, good=BUSY),
        Phase(bad, good=BUSY - round(share * BUSY), **kind),
        Phase(clears // step + 5, good=BUSY),
    ]
    window = {"window": duration_text(longest)} if watch.alert == "LatencySLOBreach" else {}

    def firing(seconds: int, count: int) -> dict[str, Any]:
        return is_firing(watch.alert, seconds, count, **window)

    over = (history + bad) * step
    expected = [firing(over, 0)]
    if fires is not None:
        # Prometheus 3 leaves the start out of a window, so its windows are one scrape shorter here.
        expected = [firing(history * step + fires - 2 * step, 0), firing(history * step + fires, 1)]
        expected += [firing(over + clears - 2 * step, 1), firing(over + clears, 0)]
    name = f"{watch.alert} {longest} s, {share:.0%} bad: fires after {fires} s, clears after {clears} s"
    return case(name, step, requests(service, slo, phases), expected)


@pytest.mark.parametrize(
    ("profile", "step", "shares"),
    [("local", SCRAPE_SECONDS, (0.005, 0.02, 0.1, 1.0)), ("production", 60, (0.1, 0.2, 1.0))],
)
def test_alerts_fire_and_clear_when_it_says(
    profile: str, step: int, shares: tuple[float, ...], root: Path, tmp_path: Path, each_binaries: Binaries, run: Run
) -> None:
    slo = load(root / "slo.yaml")
    [chosen] = [each for each in slo.profiles if each.name == profile]
    service = replace(slo.services[0], profile=chosen)
    files = rule_files(replace(slo, services=(service,)))
    name = service_file(service)
    (tmp_path / name).write_text(yaml_text(files[name]))
    # Windows of days take minutes to test; the arithmetic is the same.
    judged = [watch for watch in watches(service) if max(limit.window_seconds for limit in watch.limits) <= 3600]
    judged = [watch for watch in judged if min(limit.window_seconds for limit in watch.limits) >= 4 * step]
    cases = [told(service, slo, watch, share, step) for watch in judged for share in shares]
    assert len(cases) >= 3
    tests = {
        "rule_files": [name],
        "group_eval_order": group_order({name: files[name]}),
        "evaluation_interval": duration_text(step),
        "tests": cases,
    }
    (tmp_path / "tests.json").write_text(json.dumps(tests))
    done = run(each_binaries.promtool, "test", "rules", tmp_path / "tests.json")
    assert done.returncode == 0, done.stdout
