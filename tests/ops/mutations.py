"""Mutants of the shipped rules against the shipped rule tests (M12); `python -m tests.ops.mutations` prints the table.

A mutant is judged by the cases that could notice it, with only the rules that these need, so that one takes a tenth of
a second and not one. What caught a mutant must pass without it under the same conditions, else it proves nothing.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from stack.binaries import BinariesError, obtain
from tests.ops.mutants import Mutant, RuleFiles, affected, mutants, needed, only

ROOT: Final = Path(__file__).resolve().parents[2]
PROCESSES: Final = 2
TOGETHER: Final = 12  # test files a run of promtool
AT_A_TIME: Final = 32  # mutants
ROUNDS: Final = (1, 2, 4, 1_000)  # cases that each survivor of the rounds before is tried with

# (rule, operator, change) -> why no test can notice. All of these survive; whatever else does is a hole in the tests.
EQUIVALENT: Final[dict[tuple[str, str, str], str]] = {
    (
        "job:slo_error_budget_remaining:ratio30d",
        "drop a matcher",
        'job="inference" in job:slo_bad_requests:increase30s (1)',
    ): "the division is by job, and the divisor has only this one; named on both sides it is read once",
    (
        "job:slo_error_budget_remaining:ratio30d",
        "drop a matcher",
        'job="inference" in job:slo_requests:increase30s (2)',
    ): "the same, from the other side",
    (
        "SLOBucketMissing{severity=page}",
        "drop a matcher",
        'job="inference" in inference_request_duration_seconds_bucket (2)',
    ): "unless matches by job, and the left side has only this one; it is the selector that counts good requests",
}


@dataclass(frozen=True)
class Case:
    """One case of a shipped test file."""

    file: str
    body: dict[str, Any]
    head: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.body["name"])

    def about(self, names: set[str], kept: set[str]) -> dict[str, Any] | None:
        """The case with only those expectations that the rules `kept` are enough for; None if none is about `names`.

        Expectations of whole classes of series ("no alert of this job") are kept: fewer rules cannot break them.
        """
        alerts = [each for each in self.body.get("alert_rule_test", ()) if each["alertname"] in kept]
        values = [each for each in self.body.get("promql_expr_test", ()) if _names_in(each["expr"]) <= kept]
        mentioned = {each["alertname"] for each in alerts}
        for each in values:
            found = _names_in(each["expr"])
            mentioned |= found or names
        if not mentioned & names:
            return None
        return {**self.body, "alert_rule_test": alerts, "promql_expr_test": values}


@dataclass(frozen=True)
class Outcome:
    """A mutant and the case that caught it, if one did."""

    mutant: Mutant
    caught_by: str | None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.mutant.rule, self.mutant.operator, self.mutant.change


@dataclass(frozen=True)
class _Trial:
    """Rule files, and cases to put them to; what comes back are the names of the cases that fail."""

    rules: RuleFiles
    cases: tuple[dict[str, Any], ...]
    head: dict[str, Any]


def shipped_rules(root: Path = ROOT) -> dict[str, dict[str, Any]]:
    return {path.name: yaml.safe_load(path.read_text()) for path in sorted((root / "prometheus/rules").glob("*.yml"))}


def shipped_cases(root: Path = ROOT) -> list[Case]:
    """Those of files that load fewer rules come first: they are quicker."""
    cases = []
    for path in sorted((root / "prometheus/tests").glob("*.yml")):
        content = yaml.safe_load(path.read_text())
        head = {key: value for key, value in content.items() if key != "tests"}
        cases += [Case(path.name, body, head) for body in content["tests"]]
    return sorted(cases, key=lambda case: len(case.head["rule_files"]))


def judge(promtool: Path, root: Path = ROOT) -> list[Outcome]:
    """Every mutant with the case that caught it."""
    rules, cases = shipped_rules(root), shipped_cases(root)
    everything = [_Pending(mutant, rules, cases) for mutant in mutants(rules)]
    with tempfile.TemporaryDirectory() as directory:
        bench = _Bench(promtool, Path(directory))
        caught: Counter[tuple[str, str]] = Counter()
        # Some at a time, so that the later ones are tried first with what caught the earlier ones of their kind.
        for start in range(0, len(everything), AT_A_TIME):
            waiting = everything[start : start + AT_A_TIME]
            for size in ROUNDS:
                for pending in waiting:
                    pending.choose(size, caught)
                trials = [trial for pending in waiting for trial in pending.trials()]
                failed = iter(bench.run(trials))
                for pending in waiting:
                    pending.note([name for _ in pending.trials() for name in next(failed)])
                    if pending.caught_by:
                        caught[pending.kind, pending.caught_by] += 1
                waiting = [pending for pending in waiting if not pending.caught_by and pending.cases]
        _passes_unbroken(bench, everything, rules)
    return [Outcome(pending.mutant, pending.caught_by) for pending in everything]


class _Pending:
    """A mutant on its way through the rounds."""

    def __init__(self, mutant: Mutant, rules: RuleFiles, cases: Sequence[Case]) -> None:
        self.mutant = mutant
        self.caught_by: str | None = None
        self.kind = f"{mutant.operator} {mutant.change.partition('=')[0]}"  # a matcher's label is part of it
        name = mutant.rule.split("{")[0]
        self.names = affected(rules, name)
        self.kept = needed(rules, self.names)
        self.cases = [
            (case, about)
            for case in cases
            if f"../rules/{mutant.file}" in case.head["rule_files"]
            and (about := case.about(self.names, self.kept)) is not None
        ]
        self.chosen: list[tuple[Case, dict[str, Any]]] = []

    def choose(self, size: int, caught: Counter[tuple[str, str]]) -> None:
        """The cases most likely to notice: what caught this operator before, then what is about the rule itself."""
        self.cases.sort(key=lambda each: -caught[self.kind, each[0].name])
        self.chosen, self.cases = self.cases[:size], self.cases[size:]

    def trials(self, rules: RuleFiles | None = None, cases: Sequence[str] = ()) -> list[_Trial]:
        """One for each test file that the chosen cases come from."""
        by_file: dict[str, list[tuple[Case, dict[str, Any]]]] = {}
        for case, about in self.chosen:
            if not cases or case.name in cases:
                by_file.setdefault(case.file, []).append((case, about))
        return [self._trial(rules or self.mutant.files, members) for members in by_file.values()]

    def _trial(self, rules: RuleFiles, members: Sequence[tuple[Case, dict[str, Any]]]) -> _Trial:
        head = members[0][0].head
        names = [path.removeprefix("../rules/") for path in head["rule_files"]]
        kept = {name: only(rules[name], self.kept) for name in names}
        return _Trial(kept, tuple(about for _, about in members), head)

    def note(self, failed: Sequence[str]) -> None:
        if failed:
            self.caught_by = failed[0]


def _passes_unbroken(bench: "_Bench", everything: Sequence[_Pending], rules: RuleFiles) -> None:
    proofs: dict[tuple[str, frozenset[str]], list[_Trial]] = {}
    for pending in everything:
        if pending.caught_by:
            key = (pending.caught_by, frozenset(pending.kept))
            proofs.setdefault(key, pending.trials(rules, [pending.caught_by]))
    trials = [trial for each in proofs.values() for trial in each]
    for trial, failed in zip(trials, bench.run(trials), strict=True):
        assert not failed, f"{failed[0]!r} fails with unbroken rules {sorted(trial.rules)}: it proves nothing"


@dataclass(frozen=True)
class _Bench:
    promtool: Path
    directory: Path

    def run(self, trials: Sequence[_Trial]) -> list[list[str]]:
        """For each trial the names of the cases that failed."""
        with ThreadPoolExecutor(PROCESSES) as pool:
            parts = pool.map(self._together, _batches(trials))
            return [failed for part in parts for failed in part]

    def _together(self, trials: Iterable[_Trial]) -> list[list[str]]:
        with tempfile.TemporaryDirectory(dir=self.directory) as directory:
            tests = [self._written(Path(directory) / str(number), trial) for number, trial in enumerate(trials)]
            paths = [path for each in tests for path in each]
            done = subprocess.run(
                [self.promtool, "test", "rules", *paths],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=200,
                check=False,
            )
        sections = iter(re.split(r"^Unit Testing:  .*\n", done.stdout, flags=re.MULTILINE)[1:])
        return [[case["name"] for case in trial.cases if _fails(next(sections))] for trial in trials]

    def _written(self, home: Path, trial: _Trial) -> list[Path]:
        """A test file for each case: promtool does not always say which case of a file failed."""
        home.mkdir()
        for name, content in trial.rules.items():
            (home / name).write_text(json.dumps(content))  # JSON is YAML, and written in no time
        paths = []
        for number, case in enumerate(trial.cases):
            paths.append(home / f"test-{number}.json")
            paths[-1].write_text(json.dumps({**trial.head, "rule_files": list(trial.rules), "tests": [case]}))
        return paths


def _batches(trials: Sequence[_Trial]) -> Iterator[Sequence[_Trial]]:
    for start in range(0, len(trials), TOGETHER):
        yield trials[start : start + TOGETHER]


def _fails(section: str) -> bool:
    """What promtool says about one test file."""
    if section.strip() == "SUCCESS":
        return False
    # A rule may also fail at run time, such as one that then gives two samples of the same name.
    assert re.search(r"^ +(exp:|rule: .*, err: )", section, re.MULTILINE), (
        f"broken so badly that it is no rule, or no test: {section}"
    )
    return True


def _names_in(expr: str) -> set[str]:
    """Recordings and alerts that an expression names in full."""
    return set(re.findall(r"(?<![\w\"~])job:[\w:]+", expr)) | set(re.findall(r'alertname="(\w+)"', expr))


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Rule by rule: operator, change, and what caught it."""
    rule = ""
    for outcome in outcomes:
        if outcome.mutant.rule != rule:
            rule = outcome.mutant.rule
            yield f"\n{rule}"
        verdict = outcome.caught_by or f"NOT CAUGHT: {EQUIVALENT.get(outcome.key, 'a hole in the tests')}"
        yield f"  {outcome.mutant.operator:<24} {outcome.mutant.change[:76]:<77} {verdict}"


def figures(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Per operator: mutants, caught, equivalent."""
    for operator, count in Counter(outcome.mutant.operator for outcome in outcomes).most_common():
        of_it = [outcome for outcome in outcomes if outcome.mutant.operator == operator]
        caught = sum(outcome.caught_by is not None for outcome in of_it)
        equivalent = sum(outcome.key in EQUIVALENT for outcome in of_it)
        yield f"{operator:<24} {count:>4} mutants {caught:>4} caught {equivalent:>3} equivalent"


def main() -> int:
    """Prints both; 1 if a mutant got away that is not known to be equivalent."""
    try:
        promtool = obtain(say=lambda line: None).promtool
    except BinariesError as error:
        print(error, file=sys.stderr)
        return 64
    began = time.monotonic()
    outcomes = judge(promtool)
    for line in (*table(outcomes), "", *figures(outcomes)):
        print(line)
    missed = [outcome for outcome in outcomes if not outcome.caught_by and outcome.key not in EQUIVALENT]
    print(f"\n{len(outcomes)} mutants, {len(missed)} not caught and not equivalent, {time.monotonic() - began:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
