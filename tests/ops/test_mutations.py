"""Rules broken on purpose, every one in every place (M12): the shipped tests must notice, or they guard nothing."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from stack.binaries import Binaries
from tests.ops.mutants import mutants, title
from tests.ops.mutations import EQUIVALENT, Outcome, figures, judge, shipped_rules, table


@pytest.fixture(scope="module")
def outcomes(binaries: Binaries) -> list[Outcome]:
    return judge(binaries.promtool)


@pytest.mark.timeout(400)
def test_m12_every_mutant_is_caught_or_known_to_be_equivalent(outcomes: list[Outcome]) -> None:
    print("\n".join([*table(outcomes), "", *figures(outcomes)]))
    missed = [str(outcome.mutant) for outcome in outcomes if not outcome.caught_by and outcome.key not in EQUIVALENT]
    assert not missed
    assert len(outcomes) > 150


@pytest.mark.timeout(400)
def test_the_table_of_equivalent_mutants_is_minimal(outcomes: list[Outcome]) -> None:
    """None of them has gone from the rules, and none is caught after all."""
    survivors = {outcome.key for outcome in outcomes if not outcome.caught_by}
    assert set(EQUIVALENT) == survivors
    assert all(EQUIVALENT.values())


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("rule", "operator", "change"),
    [
        ("LatencySLOBreach{severity=page,window=2m}", "drop the traffic floor", "rate2m"),
        ("job:slo_bad:ratio_rate30s", "drop a matcher", 'outcome="ok"'),
        ("LatencySLOBreach{severity=page,window=2m}", "threshold × 2", "[0.01]"),
        ("job:slo_bad:ratio_rate30s", "another le", "× 2"),
        ("job:slo_bad:ratio_rate30s", "another le", "spelled"),
        ("InferenceTargetAbsent{severity=page}", "drop absent", "up"),
    ],
)
def test_m12_the_mistakes_that_were_made_elsewhere_are_among_them(
    outcomes: list[Outcome], rule: str, operator: str, change: str
) -> None:
    found = [
        outcome
        for outcome in outcomes
        if (outcome.mutant.rule, outcome.mutant.operator) == (rule, operator) and change in outcome.mutant.change
    ]
    assert found
    assert all(outcome.caught_by for outcome in found)


def test_every_rule_is_broken_in_every_way_that_it_can_be(root: Path) -> None:
    files = shipped_rules(root)
    made = {(mutant.rule, mutant.operator) for mutant in mutants(files)}
    rules = [rule for content in files.values() for group in content["groups"] for rule in group["rules"]]
    for rule in rules:
        assert (title(rule), "drop the rule") in made
        for key in ("for", "keep_firing_for"):
            assert ((title(rule), f"drop {key}") in made) == (key in rule)
        assert ((title(rule), "drop a matcher") in made) == ("{" in rule["expr"])
        assert ((title(rule), "drop the traffic floor") in made) == (">=" in rule["expr"])
        assert ((title(rule), "flip a comparator") in made) == (" > " in rule["expr"] or " == " in rule["expr"])
    assert len({title(rule) for rule in rules}) == len(rules)


def expressions(expr: str) -> dict[str, list[str]]:
    """Operator -> what it makes of the expression."""
    made: dict[str, list[str]] = {}
    for mutant in mutants({"a.yml": {"groups": [{"name": "a", "rules": [{"record": "a", "expr": expr}]}]}}):
        for rule in mutant.files["a.yml"]["groups"][0]["rules"]:
            made.setdefault(mutant.operator, []).append(rule["expr"])
    return made


def test_what_the_operators_do() -> None:
    expr = 'a{x="1",le="0.5",y!="> 2"} > 0.1\nand on (job) b * 60 >= 100'
    assert expressions(expr) == {
        "flip a comparator": [expr.replace("> 0.1", "< 0.1"), expr.replace(">=", "<=")],
        "threshold × 2": [expr.replace("0.1", "0.2"), expr.replace("100", "200")],
        "drop a matcher": [expr.replace('x="1",', ""), expr.replace('le="0.5",', ""), expr.replace(',y!="> 2"', "")],
        "another le": [expr.replace("0.5", "1.0"), expr.replace("0.5", "0.50")],
        "drop the traffic floor": ['a{x="1",le="0.5",y!="> 2"} > 0.1'],
        "drop a condition": ["b * 60 >= 100"],
    }
    assert expressions("absent(up)") == {"drop absent": ["up"]}
    assert expressions("a / (b > 0)")["drop a guard against 0"] == ["a / (b)"]


def root_with(directory: Path, *cases: dict[str, Any]) -> Path:
    """A root with one alert, and a test file with these cases."""
    (directory / "prometheus/rules").mkdir(parents=True)
    (directory / "prometheus/tests").mkdir()
    alert = {"alert": "Down", "expr": 'up{job="a"} == 0', "for": "15s", "labels": {"severity": "page"}}
    rules = {"groups": [{"name": "a", "rules": [alert]}]}
    (directory / "prometheus/rules/a.yml").write_text(yaml.safe_dump(rules))
    tests = {"rule_files": ["../rules/a.yml"], "evaluation_interval": "5s", "tests": list(cases)}
    (directory / "prometheus/tests/a.yml").write_text(yaml.safe_dump(tests))
    return directory


def down(at: str, *firing: int) -> dict[str, Any]:
    """The target is down from the start; how many alerts fire at that time."""
    firing_alerts = 'count(ALERTS{alertname="Down",alertstate="firing"})'
    samples = [{"labels": "{}", "value": count} for count in firing]
    return {
        "name": f"down at {at}",
        "interval": "5s",
        "input_series": [{"series": 'up{job="a"}', "values": "0x20"}],
        "promql_expr_test": [{"expr": firing_alerts, "eval_time": at, "exp_samples": samples}],
    }


def test_a_hole_in_the_tests_is_found(tmp_path: Path, binaries: Binaries) -> None:
    outcomes = judge(binaries.promtool, root_with(tmp_path, down("1m", 1)))
    assert {(outcome.mutant.operator, outcome.caught_by) for outcome in outcomes} == {
        ("drop the rule", "down at 1m"),
        ("flip a comparator", "down at 1m"),
        ("drop for", None),
        ("drop a matcher", None),
    }


def test_a_case_that_fails_anyway_proves_nothing(tmp_path: Path, binaries: Binaries) -> None:
    with pytest.raises(AssertionError, match="'down at 10s' fails with unbroken rules"):
        judge(binaries.promtool, root_with(tmp_path, down("10s", 1)))
