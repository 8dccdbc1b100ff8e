"""Rules broken on purpose: the shipped tests must notice each, or they guard nothing."""

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from stack.binaries import Binaries

Run = Callable[..., subprocess.CompletedProcess[str]]

BREACH = "inference-breach-2m.yml"
SERVICE = "inference.yml"
STACK = "stack.yml"


@dataclass(frozen=True)
class Mutation:
    """A pattern of a rule file and what takes its place; the test file, and the one case of it that must notice."""

    rules: str
    pattern: str
    replacement: str
    tests: str
    case: str


MUTATIONS = {
    "no traffic floor": Mutation(
        SERVICE, r"(rate2m.*) >= 100", r"\1 >= 0", BREACH, "2m: every request of too few bad does not fire"
    ),
    "client errors count": Mutation(SERVICE, ',outcome!="client_error"', "", BREACH, "2m: client errors are not bad"),
    "good whatever the outcome": Mutation(
        SERVICE, 'outcome="ok",le=', "le=", BREACH, "2m: failures fire, however fast"
    ),
    "shed ones are good": Mutation(
        SERVICE, 'outcome="ok",le=', 'outcome=~"ok|shed",le=', BREACH, "2m: shed requests fire, however fast"
    ),
    "threshold doubled": Mutation(
        SERVICE, r"(ratio_rate\w+\{.*\}) > 0.01", r"\1 > 0.02", BREACH, "2m: half as much again as the limit fires"
    ),
    "threshold halved": Mutation(
        SERVICE, r"(ratio_rate\w+\{.*\}) > 0.01", r"\1 > 0.0049", BREACH, "2m: half the limit does not fire"
    ),
    "the bucket after the threshold": Mutation(SERVICE, 'le="0.05"', 'le="0.064"', BREACH, "2m: slow answers fire"),
    "le as another spelling": Mutation(SERVICE, 'le="0.05"', 'le="0.050"', BREACH, "2m: slow answers fire"),
    "every route counts": Mutation(
        SERVICE, ',route=~"[^"]*"', "", BREACH, "2m: probes and unknown routes do not count"
    ),
    "no wait": Mutation(SERVICE, "    for: 15s\n", "", BREACH, "2m: slow answers fire"),
    "long window alone": Mutation(
        SERVICE,
        r"ratio_rate30s(\{.*\}) > 0.01",
        r"ratio_rate2m\1 > 0.01",
        BREACH,
        "2m: resolves once the short window is clean and keep_firing_for is over",
    ),
    "short window alone": Mutation(
        SERVICE,
        r"ratio_rate2m(\{.*\}) > 0.01",
        r"ratio_rate30s\1 > 0.01",
        BREACH,
        "2m: a blip too small for the long window does not fire",
    ),
    "not kept firing": Mutation(
        SERVICE,
        "    keep_firing_for: 30s\n",
        "",
        BREACH,
        "2m: resolves once the short window is clean and keep_firing_for is over",
    ),
    "NaN without traffic": Mutation(
        SERVICE, r" > 0\),", "),", BREACH, "2m: no traffic: no ratio, so nothing that could be NaN, and no alert"
    ),
    "absent dropped": Mutation(SERVICE, r"absent\((.*)\)", r"\1 == 2", SERVICE, "no target of the job at all"),
    "down taken for up": Mutation(
        SERVICE, r"(up\{.*\}) == 0", r"\1 == 1", SERVICE, "the target cannot be scraped, then comes back"
    ),
    "one lost scrape is down": Mutation(SERVICE, "    for: 15s\n", "", SERVICE, "one lost scrape is no alarm"),
    "blind and silent": Mutation(
        SERVICE,
        r"unless on \(job, instance\)",
        "and on (job, instance)",
        SERVICE,
        "no bucket at the SLO threshold: the pager says that it is blind",
    ),
    "one blind replica hides behind another": Mutation(
        SERVICE,
        r"unless on \(job, instance\)",
        "unless on (job)",
        SERVICE,
        "one of two replicas has no bucket at the threshold",
    ),
    "errors tolerated": Mutation(
        SERVICE, "> 0.05\n", "> 0.5\n", SERVICE, "twice the share that is tolerated has the outcome failed, then none"
    ),
    "a blip of errors": Mutation(
        SERVICE,
        r'and on \(job\) .*outcome="failed".*\n\s+',
        "",
        SERVICE,
        "a blip of requests with the outcome failed",
    ),
    "errors long gone": Mutation(
        SERVICE,
        r'sum .*outcome="failed".*\[30s\].*\n\s+and on \(job\) ',
        "",
        SERVICE,
        "twice the share that is tolerated has the outcome failed, then none",
    ),
    "shedding tolerated": Mutation(
        SERVICE,
        r'(outcome="shed".*) > 0.01\n',
        r"\1 > 0.1\n",
        SERVICE,
        "twice the share that is tolerated has the outcome shed, then none",
    ),
    "a full queue tolerated": Mutation(SERVICE, "> 0.8\n", "> 0.99\n", SERVICE, "the queue is nearly full, then empty"),
    "stalled by depth alone": Mutation(
        SERVICE, r"or\n.*rejected.*\n", "", SERVICE, "deadlines empty the queue while no batch runs"
    ),
    "batches or not": Mutation(
        SERVICE,
        r"\)\n\s+and on \(job, instance\) .*increase.* == 0",
        ")",
        SERVICE,
        "rows wait, batches run, then none does",
    ),
    "gap of a handful": Mutation(
        STACK, r"(and on \(job\) job:loadgen_requests\S+ \* 30) >= 100", r"\1 >= 0", STACK, "a handful of slow requests"
    ),
    "gap whatever the server says": Mutation(
        STACK,
        r"(\S+p99_rate30s) - scalar\(.*\) > 0.05\n.*\n",
        r"\1 > 0.05\n",
        STACK,
        "the service is as slow as its clients see it",
    ),
    "lateness tolerated": Mutation(STACK, "> 0.01\n", "> 0.1\n", STACK, "requests are sent late"),
    "the generator down unnoticed": Mutation(
        STACK,
        r'up\{job!~"inference"\}',
        'up{job="prometheus"}',
        STACK,
        "the load generator is down: a ticket, not a page",
    ),
    "no watchdog": Mutation(STACK, r"vector\(1\)", "vector(1) > 1", STACK, "always"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_case_that_guards_it_notices(name: str, root: Path, tmp_path: Path, binaries: Binaries, run: Run) -> None:
    mutation = MUTATIONS[name]
    tests = yaml.safe_load((root / "prometheus/tests" / mutation.tests).read_text())
    tests["tests"] = [case for case in tests["tests"] if case["name"] == mutation.case]
    assert len(tests["tests"]) == 1, f"{mutation.tests} has no single case {mutation.case!r}"
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/case.yml").write_text(yaml.safe_dump(tests))
    shutil.copytree(root / "prometheus/rules", tmp_path / "rules")
    rules = tmp_path / "rules" / mutation.rules
    broken, count = re.subn(mutation.pattern, mutation.replacement, rules.read_text())
    assert count, f"nothing in {mutation.rules} matches {mutation.pattern}"
    rules.write_text(broken)
    check = run(binaries.promtool, "check", "rules", rules)
    assert check.returncode == 0, f"broken so badly that it is no rule: {check.stdout}"
    done = run(binaries.promtool, "test", "rules", tmp_path / "tests/case.yml")
    assert done.returncode == 1, f"{mutation.case!r} passes with the mutation {name!r}"
    assert "FAILED" in done.stdout
