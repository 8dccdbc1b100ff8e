"""Rule files for other SLOs than the shipped one: the production profile, several services."""

from dataclasses import replace
from pathlib import Path

import pytest

from slo.config import Service, SloFile, load
from slo.recording import windows
from slo.rule_tests import rule_test_files
from slo.rules import group_order, rule_files


@pytest.fixture
def slo(root: Path) -> SloFile:
    return load(root / "slo.yaml")


@pytest.fixture
def production(slo: SloFile) -> SloFile:
    return replace(slo, services=(replace(slo.services[0], profile=slo.profiles[1]),))


@pytest.fixture
def two(slo: SloFile) -> SloFile:
    other: Service = replace(slo.services[0], job="embeddings", threshold_seconds=0.3, objective=0.95)
    return replace(slo, services=(*slo.services, other))


def alerts(slo: SloFile, name: str) -> list[dict[str, object]]:
    files = rule_files(slo).values()
    rules = [rule for content in files for group in content["groups"] for rule in group["rules"]]
    return [rule for rule in rules if rule.get("alert") == name]


def test_production_has_an_alert_for_each_burn_rate(production: SloFile) -> None:
    found = alerts(production, "LatencySLOBreach")
    assert [(rule["labels"], rule["keep_firing_for"]) for rule in found] == [
        ({"severity": "page", "window": "1h"}, "5m"),
        ({"severity": "page", "window": "6h"}, "5m"),
        ({"severity": "ticket", "window": "1d"}, "5m"),
        ({"severity": "ticket", "window": "3d"}, "5m"),
    ]
    assert found[0]["expr"] == (
        'job:slo_bad:ratio_rate5m{job="inference"} > 0.144\n'
        "and on (job) job:slo_bad:ratio_rate1h > 0.144\n"
        "and on (job) job:slo_requests:rate1h * 3600 >= 300"
    )
    assert [str(rule["expr"]).splitlines()[0].rpartition(" ")[2] for rule in found] == ["0.144", "0.06", "0.03", "0.01"]


def test_m2_one_bad_request_is_never_enough(slo: SloFile) -> None:
    """A tighter objective takes more requests than the profile asks for: of 100, one alone is over a budget of 0.1%."""
    for objective, fewest in ((0.99, 100), (0.95, 100), (0.999, 1_000), (0.9999, 10_000), (0.997, 334)):
        [breach] = alerts(replace(slo, services=(replace(slo.services[0], objective=objective),)), "LatencySLOBreach")
        assert str(breach["expr"]).endswith(f"* 120 >= {fewest}")


def test_no_two_alerts_look_the_same_to_alertmanager(production: SloFile, two: SloFile) -> None:
    """Equal labels would be one alert, resolved by whichever rule ends first."""
    for slo in (production, two):
        for content in rule_files(slo).values():
            rules = [rule for group in content["groups"] for rule in group["rules"] if "alert" in rule]
            identities = [(rule["alert"], tuple(sorted(rule["labels"].items()))) for rule in rules]
            assert len(set(identities)) == len(identities)


def test_long_windows_are_computed_once_a_minute(production: SloFile) -> None:
    groups = {group["name"]: group for group in rule_files(production)["inference.yml"]["groups"]}
    assert groups["inference-long-windows"]["interval"] == "1m"
    assert "interval" not in groups["inference"]
    fast = [rule["record"] for rule in groups["inference"]["rules"] if "record" in rule]
    assert not [name for name in fast if name.endswith(("h", "d"))]
    recorded = {rule["record"] for group in groups.values() for rule in group["rules"] if "record" in rule}
    assert len([name for name in recorded if name.startswith("job:slo_bad:ratio_rate")]) == len(
        windows(production.services[0])
    )


def test_each_service_has_its_own_threshold_and_budget(two: SloFile) -> None:
    assert set(rule_files(two)) == {"inference.yml", "embeddings.yml", "stack.yml"}
    first, second = alerts(two, "LatencySLOBreach")
    assert 'job="inference"} > 0.01' in str(first["expr"])
    assert 'job="embeddings"} > 0.05' in str(second["expr"])
    text = str(rule_files(two)["embeddings.yml"])
    assert 'le="0.3"' in text
    assert 'le="0.05"' not in text
    assert 'job="inference"' not in text
    [down] = [rule for rule in alerts(two, "TargetDown") if rule["labels"] == {"severity": "ticket"}]
    assert down["expr"] == 'up{job!~"inference|embeddings"} == 0'


def test_rule_tests_name_the_shipped_files_and_every_group(two: SloFile) -> None:
    files = rule_files(two)
    for content in rule_test_files(two).values():
        names = [path.removeprefix("../rules/") for path in content["rule_files"]]
        assert set(names) <= set(files)
        assert content["group_eval_order"] == group_order({name: files[name] for name in names})
