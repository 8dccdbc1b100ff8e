"""Alertmanager is away when the breach begins, and again when it ends: both are told once it is back.

Prometheus does not queue for an Alertmanager that is away, but says every minute what fires, and for a quarter of an
hour what has ended.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.ops.alert_path.webhook import Notice
from tests.ops.alert_path.world import World

pytestmark = pytest.mark.timeout(420)

WORLD = {"without": ("alertmanager",)}
SAID_AGAIN_SECONDS = 60.0
SLACK_SECONDS = 15.0  # an evaluation, group_wait, and a busy machine


@dataclass
class Told:
    fired: float
    back: float
    page: Notice
    cleared: float
    back_again: float
    resolved: Notice
    notices: list[Notice]
    lost: float  # notifications that Prometheus counted as dropped or failed


def play(world: World) -> Told:
    time.sleep(12)
    world.service.take(slow=0.1)
    world.wait_state("LatencySLOBreach", "firing", 90)
    fired = time.time()
    time.sleep(7)  # long enough for what was said at that moment to be lost
    back = world.start("alertmanager")
    [page] = world.webhook.wait("LatencySLOBreach", "firing", SAID_AGAIN_SECONDS + SLACK_SECONDS)

    time.sleep(2)  # it notes that it has told the page only after the answer, and then knows so when it is back
    world.stop("alertmanager")
    world.service.take(slow=0.0)
    world.wait_over("LatencySLOBreach", 120)
    cleared = time.time()
    time.sleep(2)
    back_again = world.start("alertmanager")
    [resolved] = world.webhook.wait("LatencySLOBreach", "resolved", SAID_AGAIN_SECONDS + SLACK_SECONDS)
    lost = world.value("sum(prometheus_notifications_errors_total) + sum(prometheus_notifications_dropped_total)")
    return Told(fired, back, page, cleared, back_again, resolved, world.webhook.notices(), lost or 0.0)


def test_the_page_arrives_once_it_is_back(story: Told, measured: Callable[[str, float], None]) -> None:
    measured("Alertmanager back → page of what fires", story.page.at - story.back)
    assert story.lost > 0, "nothing was lost, so nothing was made up for"
    assert story.fired < story.back <= story.page.at


def test_so_does_the_end_that_it_missed(story: Told, measured: Callable[[str, float], None]) -> None:
    measured("Alertmanager back → resolved of what has ended", story.resolved.at - story.back_again)
    assert story.cleared < story.back_again <= story.resolved.at
    assert story.notices == [story.page, story.resolved]
