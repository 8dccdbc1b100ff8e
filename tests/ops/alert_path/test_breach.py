"""A target is lost for a moment; then requests are slow, recover, and are refused fast: what reaches the inbox of it.

The promise of the local profile: with at least 10% of requests bad, the page is in the inbox within 60 s of the breach,
and "resolved" within 120 s of the recovery.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ops.alert_path.webhook import Notice
from tests.ops.alert_path.world import World

pytestmark = pytest.mark.timeout(420)

FIRES_WITHIN, RESOLVES_WITHIN = 60.0, 120.0
WORLD = {"with_inbox": True}
Measured = Callable[[str, float], None]


@dataclass
class Told:
    rules: list[dict[str, Any]]  # the groups as Prometheus has loaded them
    failures: float  # of rule evaluations, all in all
    lost: Notice
    found: Notice
    breach: float
    page: Notice
    active: list[dict[str, Any]]  # what amtool says then
    page_shown: str  # the inbox's page then
    recovery: float
    resolved: Notice
    page_afterwards: str
    refusals: float
    second_page: Notice
    shed: Notice
    notices: list[Notice]
    in_inbox: list[dict[str, Any]]  # its API at the end, newest first


def play(world: World) -> Told:
    rules = world.prometheus("/api/v1/rules")["groups"]
    world.generator.down = True
    world.wait_state("TargetDown", "firing", 60)
    world.generator.down = False
    [found] = world.webhook.wait("TargetDown", "resolved", 60)

    breach = world.service.take(slow=0.1)
    [page] = world.webhook.wait("LatencySLOBreach", "firing", FIRES_WITHIN + 30)
    active, page_shown = world.amtool_alerts("alertname!=Watchdog"), world.inbox("/")
    recovery = world.service.take(slow=0.0)
    [resolved] = world.webhook.wait("LatencySLOBreach", "resolved", RESOLVES_WITHIN + 30)
    page_afterwards = world.inbox("/")

    refusals = world.service.take(shed=0.1)
    [_, second_page] = world.webhook.wait("LatencySLOBreach", "firing", FIRES_WITHIN + 30, count=2)
    [shed] = world.webhook.wait("LoadShed", "firing", 60)
    return Told(
        rules=rules,
        failures=world.value("sum(prometheus_rule_evaluation_failures_total)") or 0.0,
        lost=world.webhook.notices("TargetDown", "firing")[0],
        found=found,
        breach=breach,
        page=page,
        active=active,
        page_shown=page_shown,
        recovery=recovery,
        resolved=resolved,
        page_afterwards=page_afterwards,
        refusals=refusals,
        second_page=second_page,
        shed=shed,
        notices=world.webhook.notices(),
        in_inbox=json.loads(world.inbox("/api/alerts")),
    )


def test_prometheus_runs_the_shipped_rules_and_none_fails(story: Told, root: Path) -> None:
    shipped = {
        (path.name, group["name"]): [rule.get("alert") or rule["record"] for rule in group["rules"]]
        for path in (root / "prometheus/rules").glob("*.yml")
        for group in yaml.safe_load(path.read_text())["groups"]
    }
    loaded = {
        (Path(group["file"]).name, group["name"]): [rule["name"] for rule in group["rules"]] for group in story.rules
    }
    assert loaded == shipped
    assert {Path(group["file"]).resolve().parent for group in story.rules} == {root / "prometheus/rules"}
    assert story.failures == 0


def test_the_page_is_in_the_inbox_within_the_promised_time(story: Told, measured: Measured) -> None:
    took = story.page.at - story.breach
    measured("10% slow → page in the inbox", took)
    assert took <= FIRES_WITHIN
    assert story.page.alert["labels"] == {
        "alertname": "LatencySLOBreach",
        "job": "inference",
        "severity": "page",
        "window": "2m",
    }
    assert re.search(r"longer than 50 ms \(p99 \d", story.page.alert["annotations"]["description"])
    assert [(a["labels"]["alertname"], a["status"]["state"]) for a in story.active] == [("LatencySLOBreach", "active")]
    assert "<h3>LatencySLOBreach</h3>" in story.page_shown
    assert "Nothing is firing" not in story.page_shown


def test_so_is_its_end(story: Told, measured: Measured) -> None:
    took = story.resolved.at - story.recovery
    measured("recovery → resolved in the inbox", took)
    assert took <= RESOLVES_WITHIN
    assert story.resolved.alert["startsAt"] == story.page.alert["startsAt"]
    assert "Nothing is firing" in story.page_afterwards


def test_a_target_that_is_back_at_once_is_said_to_be_back(story: Told, measured: Measured) -> None:
    """It resolves before the group's next turn."""
    measured("target lost for a moment: firing → resolved in the inbox", story.found.at - story.lost.at)
    assert story.lost.alert["labels"]["job"] == "loadgen"
    assert story.found.alert["startsAt"] == story.lost.alert["startsAt"]
    assert 0 < story.found.at - story.lost.at < 20


def test_fast_refusals_are_paged_though_p99_is_low(story: Told, measured: Measured) -> None:
    took = story.second_page.at - story.refusals
    measured("10% refused at once → page in the inbox", took)
    assert took <= FIRES_WITHIN
    shown = re.search(r"\(p99 ([0-9.]+)ms\)", story.second_page.alert["annotations"]["description"])
    assert shown is not None
    assert float(shown[1]) < 50
    assert story.shed.alert["labels"]["severity"] == "ticket"
    assert story.shed.group != story.second_page.group


def test_nothing_else_arrived_and_the_inbox_kept_it_all(story: Told) -> None:
    expected = ["TargetDown firing", "TargetDown resolved", "LatencySLOBreach firing", "LatencySLOBreach resolved"]
    came = [f"{notice.name} {notice.status}" for notice in story.notices]
    assert came[:4] == expected
    assert sorted(came[4:]) == ["LatencySLOBreach firing", "LoadShed firing"]
    kept = [f"{notice['labels']['alertname']} {notice['status']}" for notice in reversed(story.in_inbox)]
    assert kept == came
    for notice, entry in zip(story.notices, reversed(story.in_inbox), strict=True):
        assert abs(entry["received_at"] - notice.at) < 5
