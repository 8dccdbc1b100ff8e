"""What the shipped Alertmanager configuration makes of alerts that come and go within its intervals."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from stack.state import StateDirectory
from tests.ops.alert_path.webhook import Notice
from tests.ops.alert_path.world import World

pytestmark = pytest.mark.timeout(420)

WORLD = {"without": ("prometheus",)}


@dataclass
class Told:
    ended: float
    resolved: Notice
    notices: list[Notice]
    told_by_restart: int  # how often somebody had heard that "Back" fires, after Alertmanager's restart
    told_by_new_stack: int  # and after a start of the stack


def play(world: World) -> Told:
    add(world, "Blink")  # over before group_wait is: nobody has to be told
    time.sleep(0.5)
    add(world, "Blink", over=True)
    add(world, "Brief")
    world.webhook.wait("Brief", "firing", 20)
    ended = time.time()
    add(world, "Brief", over=True)
    [resolved] = world.webhook.wait("Brief", "resolved", 30)

    add(world, "Back")
    world.webhook.wait("Back", "firing", 20)
    add(world, "Back", over=True)
    time.sleep(0.5)
    add(world, "Back")  # inside the same group_interval: it has fired all along, as far as anyone knows
    add(world, "Watchdog", severity="none")
    time.sleep(12)  # two group_intervals
    notices = world.webhook.notices()
    restart(world, as_a_new_stack=False)
    again = len(world.webhook.notices("Back", "firing"))
    restart(world, as_a_new_stack=True)
    world.webhook.wait("Back", "firing", 20, count=again + 1)
    return Told(ended, resolved, notices, again, len(world.webhook.notices("Back", "firing")))


def restart(world: World, as_a_new_stack: bool) -> None:
    """Away while "Back" fires, so that its end is never told; it fires anew afterwards."""
    world.stop("alertmanager")
    if as_a_new_stack:
        with StateDirectory(world.settings) as state:
            state.forget_notifications()
    world.start("alertmanager")
    add(world, "Back")
    time.sleep(8)  # group_wait, and a group_interval


def add(world: World, name: str, over: bool = False, severity: str = "page") -> None:
    now = datetime.now(UTC)
    end = now - timedelta(milliseconds=10) if over else now + timedelta(minutes=5)
    world.amtool("alert", "add", f"--end={end.isoformat()}", f"alertname={name}", f"severity={severity}", "job=j")


def test_an_alert_that_ends_inside_group_interval_is_said_to_have_ended(
    story: Told, root: Path, measured: Callable[[str, float], None]
) -> None:
    route = yaml.safe_load((root / "prometheus/alertmanager.yml").read_text())["route"]
    assert (route["group_wait"], route["group_interval"]) == ("2s", "5s")
    [page] = [notice for notice in story.notices if (notice.name, notice.status) == ("Brief", "firing")]
    measured("ended inside group_interval → resolved", story.resolved.at - story.ended)
    assert story.ended - page.at < 4, "it did not end inside group_interval"
    assert story.resolved.at - page.at < 8


def test_the_rest_is_quiet(story: Told) -> None:
    assert [f"{notice.name} {notice.status}" for notice in story.notices] == [
        "Brief firing",
        "Brief resolved",
        "Back firing",
    ]


def test_a_new_stack_pages_anew_and_a_restarted_alertmanager_does_not(story: Told) -> None:
    """Who stopped the stack while an alert fired would otherwise not hear of the next breach for `repeat_interval`."""
    assert (story.told_by_restart, story.told_by_new_stack) == (1, 2)
