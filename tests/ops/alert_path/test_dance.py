"""The tail goes over the line and back, again and again: one page when it begins, one end when it is over."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.ops.alert_path.webhook import Notice
from tests.ops.alert_path.world import World

pytestmark = pytest.mark.timeout(420)

STEPS = ((0.04, 25), (0.0, 30), (0.04, 25), (0.0, 30), (0.04, 25))  # share of slow requests, seconds
LIMIT = 0.01


@dataclass
class Told:
    begin: float
    end: float
    ratio: list[float]  # of the short window, at every evaluation of the dance
    p99: list[float]  # seconds
    states: list[str]  # of the alert, as often
    resolved: Notice
    notices: list[Notice]


def play(world: World) -> Told:
    time.sleep(12)
    begin = time.time()
    for slow, seconds in STEPS:
        world.service.take(slow=slow)
        time.sleep(seconds)
    end = world.service.take(slow=0.0)
    [resolved] = world.webhook.wait("LatencySLOBreach", "resolved", 150)
    time.sleep(7)  # a second page would be here by now

    def values(expression: str) -> list[float]:
        found = world.prometheus("/api/v1/query_range", query=expression, start=begin, end=end, step=5)["result"]
        return [float(value) for _, value in found[0]["values"]] if found else []

    firing = world.prometheus(
        "/api/v1/query_range",
        query='ALERTS{alertname="LatencySLOBreach",alertstate="firing"}',
        start=begin,
        end=resolved.at,
        step=5,
    )["result"]
    return Told(
        begin=begin,
        end=end,
        ratio=values('job:slo_bad:ratio_rate30s{job="inference"}'),
        p99=values('job:inference_request_duration_seconds:p99_rate30s{job="inference"}'),
        states=["firing"] * len(firing[0]["values"]) if len(firing) == 1 else ["broken"],
        resolved=resolved,
        notices=world.webhook.notices(),
    )


def crossings(values: list[float], limit: float) -> int:
    """How often it falls from above the limit to it or below."""
    return sum(before > limit >= after for before, after in itertools.pairwise(values))


def test_it_danced(story: Told) -> None:
    assert crossings(story.ratio, LIMIT) >= 2
    assert crossings(story.p99, 0.05) >= 2


def test_one_page_and_one_end(story: Told, measured: Callable[[str, float], None]) -> None:
    measured("after a dance around the line: its last step → resolved", story.resolved.at - story.end)
    assert [notice.status for notice in story.notices] == ["firing", "resolved"]
    page, resolved = story.notices
    assert page.at < story.end < resolved.at
    assert set(story.states) == {"firing"}
