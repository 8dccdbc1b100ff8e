"""Two replicas: alerts of one kind come in one delivery, and tickets about a job that is down wait until it is back.

A ticket that ends while it is muted is said to have ended when Prometheus says so again, which it does every minute for
a quarter of an hour. Alertmanager has forgotten the group by then and may tell only the first of several (it takes the
first for all of the group): hence the inbox asks it what it still holds.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from tests.ops.alert_path.webhook import Notice, until
from tests.ops.alert_path.world import World

pytestmark = pytest.mark.timeout(420)

WORLD = {"replicas": 2, "with_inbox": True}


@dataclass
class Told:
    replicas: set[str]
    saturated: list[Notice]
    down: list[Notice]
    generator_down: Notice
    still_down: list[dict[str, Any]]  # what amtool says while one replica is down
    muted: list[dict[str, Any]]
    while_down: list[Notice]
    breach: Notice
    back: float
    shed: Notice
    cleared: list[Notice]
    notices: list[Notice]
    firing_shown: str  # on the inbox's page at the end


def play(world: World) -> Told:
    first, second = world.replicas.values()
    for replica in (first, second):
        replica.take(queue_rows=1000)
    saturated = until("both are saturated", lambda: together(world.webhook.notices("QueueSaturated")), 90)

    first.down = second.down = world.generator.down = True
    for replica in (first, second):
        replica.take(queue_rows=0)
    down = until("both are down", lambda: together(world.webhook.notices("TargetDown", "firing")), 60)
    until("and the generator", lambda: of_job(world.webhook.notices("TargetDown", "firing"), "loadgen"), 60)

    # One of them is back and refuses requests: a page about that, and no ticket while the other is down. When one of
    # two alerts that mute ends, Alertmanager 0.33 may forget the other until it is said again.
    second.down = world.generator.down = False
    until("one of them is back", lambda: len(still_down_replicas(world)) == 1, 60)
    came_back = time.time()
    until("the other is said to be down again", lambda: said_at(still_down_replicas(world)) > came_back, 60)
    second.take(shed=0.2)
    [breach] = world.webhook.wait("LatencySLOBreach", "firing", 90)
    world.wait_state("LoadShed", "firing", 60)
    world.wait_over("QueueSaturated", 120)
    until(
        "LoadShed is muted",
        lambda: [a for a in world.amtool_alerts("--inhibited") if a["labels"]["alertname"] == "LoadShed"],
        30,
    )
    time.sleep(7)  # more than a group_interval: what is not muted is told
    still_down, muted = world.amtool_alerts("--active", "alertname!=Watchdog"), world.amtool_alerts("--inhibited")
    while_down = world.webhook.notices()

    first.down = False
    back = time.time()
    [shed] = world.webhook.wait("LoadShed", "firing", 45)
    cleared = world.webhook.wait("QueueSaturated", "resolved", 90)
    until(
        "the inbox shows no ticket as firing that is over", lambda: "QueueSaturated" not in firing_shown(world), 45, 1
    )
    return Told(
        replicas={f"127.0.0.1:{port}" for port in world.replicas},
        saturated=saturated,
        down=down,
        generator_down=of_job(world.webhook.notices("TargetDown", "firing"), "loadgen")[0],
        still_down=still_down,
        muted=muted,
        while_down=while_down,
        breach=breach,
        back=back,
        shed=shed,
        cleared=cleared,
        notices=world.webhook.notices(),
        firing_shown=firing_shown(world),
    )


def still_down_replicas(world: World) -> list[dict[str, Any]]:
    """TargetDown of the service, as Alertmanager holds it."""
    return world.amtool_alerts("alertname=TargetDown", "job=inference")


def said_at(alerts: list[dict[str, Any]]) -> float:
    """When Prometheus last said so, in unix seconds."""
    return min((datetime.fromisoformat(alert["updatedAt"]).timestamp() for alert in alerts), default=0.0)


def firing_shown(world: World) -> str:
    """The part of the inbox's page that says what fires."""
    return world.inbox("/").partition("<section")[2].partition("</section>")[0]


def of_job(notices: list[Notice], job: str) -> list[Notice]:
    return [notice for notice in notices if notice.alert["labels"]["job"] == job]


def together(notices: list[Notice]) -> list[Notice]:
    """The delivery that has both replicas. It may be the second: they are scraped seconds apart, so that one of them
    may fire an evaluation earlier; the second delivery then repeats the first one's.
    """
    ours = of_job(notices, "inference")
    return next((d for n in ours if len(d := [m for m in ours if m.delivery == n.delivery]) == 2), [])


def names(alerts: list[dict[str, Any]]) -> set[str]:
    return {alert["labels"]["alertname"] for alert in alerts}


def test_replicas_with_the_same_trouble_come_in_one_delivery(story: Told) -> None:
    for alerts in (story.saturated, story.down):
        assert {notice.instance for notice in alerts} == story.replicas
        assert len({notice.delivery for notice in alerts}) == 1
    assert [notice.alert["labels"]["severity"] for notice in story.down] == ["page", "page"]


def test_another_job_has_a_delivery_of_its_own(story: Told) -> None:
    assert story.generator_down.group != story.down[0].group
    assert story.generator_down.delivery != story.down[0].delivery
    assert story.generator_down.alert["labels"]["severity"] == "ticket"


def test_tickets_about_a_job_that_is_down_are_muted_and_pages_are_not(story: Told) -> None:
    assert "LoadShed" in names(story.muted)
    assert {"TargetDown", "LatencySLOBreach"} <= names(story.still_down)
    [down] = [alert for alert in story.still_down if alert["labels"]["alertname"] == "TargetDown"]
    [shed] = [alert for alert in story.muted if alert["labels"]["alertname"] == "LoadShed"]
    assert shed["status"]["inhibitedBy"] == [down["fingerprint"]]
    assert story.breach in story.while_down
    assert not [notice for notice in story.while_down if notice.name == "LoadShed"]


def test_muted_tickets_arrive_when_the_job_is_back(story: Told, measured: Callable[[str, float], None]) -> None:
    measured("job back → ticket that was muted", story.shed.at - story.back)
    assert story.shed.at >= story.back
    assert {notice.instance for notice in story.cleared} <= story.replicas


def test_what_is_over_is_not_shown_as_firing_even_if_its_end_was_never_told(story: Told) -> None:
    assert "<h3>LoadShed</h3>" in story.firing_shown
    assert "QueueSaturated" not in story.firing_shown


def test_no_ticket_was_told_without_need(story: Told) -> None:
    firing = [f"{n.name} {n.instance}" for n in story.notices if n.status == "firing" and n.name != "TargetDown"]
    saturated = [f"QueueSaturated {instance}" for instance in story.replicas]
    assert set(firing) == {"LatencySLOBreach ", "LoadShed ", *saturated}
    assert len(firing) <= 5  # one of the saturated may be in two deliveries
