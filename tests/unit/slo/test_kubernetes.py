"""What a cluster takes of slo.yaml: the same rules but for the listed differences, and an SLO file that can be read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo.config import SloFile, load
from slo.durations import parse_duration
from slo.kubernetes import DOWN_FOR_SECONDS, LOADGEN, for_overlay, rule_groups, service_monitor, slo_document
from slo.rules import rule_files

SHIPPED = Path(__file__).resolve().parents[3] / "slo.yaml"


@pytest.fixture
def slo_file(tmp_path: Path) -> Callable[[Callable[[dict[str, Any]], object]], SloFile]:
    """The shipped SLO file with a change made to its content."""

    def changed(change: Callable[[dict[str, Any]], object]) -> SloFile:
        document = yaml.safe_load(SHIPPED.read_text())
        change(document)
        path = tmp_path / "slo.yaml"
        path.write_text(yaml.safe_dump(document))
        return load(path)

    return changed


def reread(slo: SloFile, path: Path) -> SloFile:
    path.write_text(yaml.safe_dump(slo_document(slo)))
    return load(path)


def profiles(slo: SloFile) -> list[str]:
    return [service.profile.name for service in slo.services]


def rules(groups: list[dict[str, Any]]) -> dict[tuple[str, ...], dict[str, Any]]:
    """By group, name and window: two burn rates have alerts of one name."""
    found = {}
    for group in groups:
        for rule in group["rules"]:
            key = (group["name"], rule.get("alert") or rule["record"], rule.get("labels", {}).get("window", ""))
            assert key not in found
            found[key] = rule
    return found


@pytest.mark.parametrize("overlay", ["local", "production"])
def test_an_overlay_differs_by_its_profile_alone(overlay: str, tmp_path: Path) -> None:
    shipped = load(SHIPPED)
    watched = reread(for_overlay(shipped, overlay), tmp_path / "slo.yaml")
    assert profiles(watched) == [overlay]
    [ours], [theirs] = watched.services, shipped.services
    assert (ours.job, ours.objective, ours.threshold_seconds, ours.window_days) == (
        theirs.job,
        theirs.objective,
        theirs.threshold_seconds,
        theirs.window_days,
    )
    assert watched.profiles == shipped.profiles
    assert watched.duration_edges == shipped.duration_edges


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["profiles"].pop("production"),
        # 14.4 times a budget of 10% is more than all requests.
        lambda document: document["services"][0].update(objective=0.9),
        # The longest window of the profile is three days.
        lambda document: document["services"][0].update(window_days=2),
    ],
    ids=["no such profile", "could never fire", "longer than the window"],
)
def test_a_profile_that_does_not_fit_is_not_taken(
    slo_file: Callable[[Callable[[dict[str, Any]], object]], SloFile],
    change: Callable[[dict[str, Any]], object],
    tmp_path: Path,
) -> None:
    watched = for_overlay(slo_file(change), "production")
    assert profiles(watched) == ["local"]
    assert reread(watched, tmp_path / "again.yaml") == watched


def test_each_service_decides_by_itself(
    slo_file: Callable[[Callable[[dict[str, Any]], object]], SloFile], tmp_path: Path
) -> None:
    lax = {"job": "lax", "objective": 0.9, "threshold_seconds": 0.1, "window_days": 30, "profile": "local"}
    watched = for_overlay(slo_file(lambda document: document["services"].append(lax)), "production")
    assert profiles(watched) == ["production", "local"]
    assert reread(watched, tmp_path / "again.yaml") == watched
    [chosen] = service_monitor(watched)["spec"]["selector"]["matchExpressions"]
    assert chosen["values"] == ["inference", "lax", LOADGEN]


@pytest.mark.parametrize("overlay", ["local", "production"])
def test_the_rules_are_those_of_prometheus_but_for_three_alerts(overlay: str) -> None:
    slo = for_overlay(load(SHIPPED), overlay)
    theirs = rules([group for content in rule_files(slo).values() for group in content["groups"]])
    ours = rules(rule_groups(slo))
    assert list(ours) == [key for key in theirs if key[1] != "Watchdog"]
    assert {key for key in ours if ours[key] != theirs[key]} == {
        ("inference", "TargetDown", ""),
        ("stack", "TargetDown", ""),
    }


def test_a_replica_that_starts_is_not_yet_down() -> None:
    down = rules(rule_groups(load(SHIPPED)))["inference", "TargetDown", ""]
    assert parse_duration(down["for"]) == DOWN_FOR_SECONDS
    assert down["expr"] == 'up{job="inference"} == 0'
    assert down["labels"] == {"severity": "page"}
    assert down["annotations"]["description"].endswith("for 3m.")


def test_of_all_else_that_prometheus_scrapes_only_the_load_generator_is_watched() -> None:
    groups = rule_groups(load(SHIPPED))
    assert rules(groups)["stack", "TargetDown", ""]["expr"] == 'up{job="loadgen"} == 0'
    expressions = [rule["expr"] for rule in rules(groups).values()]
    assert not [text for text in expressions if "job!" in text]


def test_every_group_is_evaluated_as_often_as_the_rules_assume() -> None:
    slo = load(SHIPPED)
    own = {group["name"]: group.get("interval") for content in rule_files(slo).values() for group in content["groups"]}
    assert {group["name"]: group["interval"] for group in rule_groups(slo)} == {
        name: interval or "5s" for name, interval in own.items()
    }
    [endpoint] = service_monitor(slo)["spec"]["endpoints"]
    assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("5s", "4s")
