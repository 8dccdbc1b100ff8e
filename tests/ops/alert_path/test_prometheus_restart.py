"""Prometheus is restarted while the breach is pending, and again, after Alertmanager, while it fires.

Prometheus restores how long an alert has been pending only where its `for` is at least ten minutes; ours is 15 s, so
it waits anew. Alertmanager carries the alert over: it holds what Prometheus last said for two minutes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from tests.ops.alert_path.webhook import Notice
from tests.ops.alert_path.world import World

pytestmark = pytest.mark.timeout(420)

WATCHED_SECONDS = 45.0
HELD_SECONDS = 120.0  # four times the half minute after which Prometheus says it again


@dataclass
class Told:
    breach: float
    page: Notice
    away: float
    fires_again: float
    held_until: float
    notices_while_watched: list[Notice]
    recovery: float
    resolved: Notice
    notices: list[Notice]


def play(world: World) -> Told:
    time.sleep(15)
    breach = world.service.take(slow=0.1)
    world.wait_state("LatencySLOBreach", "pending", 60)
    restart(world, "prometheus")
    [page] = world.webhook.wait("LatencySLOBreach", "firing", 90)

    restart(world, "alertmanager")
    away = restart(world, "prometheus")
    world.wait_state("LatencySLOBreach", "firing", 60)
    fires_again = time.time()
    time.sleep(max(0.0, away + WATCHED_SECONDS - time.time()))
    watched = world.webhook.notices()
    [held] = world.amtool_alerts("alertname=LatencySLOBreach")

    recovery = world.service.take(slow=0.0)
    [resolved] = world.webhook.wait("LatencySLOBreach", "resolved", 150)
    return Told(
        breach=breach,
        page=page,
        away=away,
        fires_again=fires_again,
        held_until=unix(held["endsAt"]),
        notices_while_watched=watched,
        recovery=recovery,
        resolved=resolved,
        notices=world.webhook.notices(),
    )


def restart(world: World, name: str) -> float:
    """The unix time at which it had ended."""
    ended = world.stop(name)
    world.start(name)
    return ended


def unix(text: Any) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_a_restart_while_pending_delays_the_page_and_does_not_lose_it(
    story: Told, measured: Callable[[str, float], None]
) -> None:
    measured("Prometheus restarted while pending: breach → page", story.page.at - story.breach)
    assert story.page.at - story.breach <= 90


def test_a_restart_of_both_while_firing_pages_nobody_twice(story: Told, measured: Callable[[str, float], None]) -> None:
    measured("Prometheus restarted while firing: fires again", story.fires_again - story.away)
    assert story.fires_again < story.away + WATCHED_SECONDS - 10, "Alertmanager was not told again while we watched"
    assert story.notices_while_watched == [story.page]


def test_alertmanager_would_let_it_go_by_itself(story: Told) -> None:
    """Whatever becomes of Prometheus: should the breach end while it is away, "resolved" still comes."""
    assert story.recovery < story.held_until <= story.fires_again + HELD_SECONDS + 30


def test_the_end_still_comes_and_is_the_end_of_the_same_alert(
    story: Told, measured: Callable[[str, float], None]
) -> None:
    measured("after the restarts: recovery → resolved", story.resolved.at - story.recovery)
    assert story.resolved.at - story.recovery <= 120
    assert story.notices == [story.page, story.resolved]
    # Later where Prometheus, which waited anew, was the first to tell an Alertmanager that had just been started.
    assert unix(story.resolved.alert["startsAt"]) >= unix(story.page.alert["startsAt"])
