"""How long it takes until an alert fires and until it clears, worked out from the generated rules themselves.

The case is the plain one: steady traffic, all good for as long as any window is, then a constant share of it bad.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from slo.config import SCRAPE_SECONDS, Service
from slo.durations import parse_duration
from slo.rules import service_groups

_LIMIT: Final = re.compile(r"(?:and on \(job\) )?(job:slo_\w+:ratio_rate(\w+?))(?:\{.*\})? > (\S+)")
_FLOOR: Final = re.compile(r"and on \(job\) \S+ \* (\d+) >= (\d+)")


@dataclass(frozen=True, slots=True)
class Limit:
    """A condition of an alert: the share over the window is above this."""

    window_seconds: int
    above: float
    computed_every_seconds: int


@dataclass(frozen=True, slots=True)
class Watch:
    """An alert on a share of the requests: every limit must be broken at once."""

    alert: str
    severity: str
    limits: tuple[Limit, ...]
    fewest_requests: int
    fewest_in_seconds: int
    for_seconds: int
    keep_firing_for_seconds: int


def watches(service: Service) -> list[Watch]:
    """Every alert of a service that compares shares of its requests with limits, in the order of its rules."""
    groups = service_groups(service)
    every = {
        rule["record"]: parse_duration(group["interval"]) if "interval" in group else SCRAPE_SECONDS
        for group in groups
        for rule in group["rules"]
        if "record" in rule
    }
    found = (_watch(rule, every) for group in groups for rule in group["rules"] if "alert" in rule)
    return [watch for watch in found if watch is not None]


def fires_after(watch: Watch, share: float, step_seconds: int = SCRAPE_SECONDS) -> int | None:
    """Seconds from the first bad request until the alert fires, at the latest; None if it never does.

    A window of n scrapes, of which the last k have `share` bad, has a ratio of k * share / n; the alert is pending from
    the evaluation at which that is above every limit. `step_seconds` is between scrapes, and between evaluations.
    """
    broken = [_broken_after(limit, share, step_seconds) for limit in watch.limits]
    pending = [seconds for seconds in broken if seconds is not None]
    if len(pending) < len(broken):
        return None
    return max(pending) + _whole(watch.for_seconds, step_seconds)


def clears_after(watch: Watch, share: float, step_seconds: int = SCRAPE_SECONDS) -> int:
    """Seconds from the last bad request until the alert is resolved, at the latest, where it fired at `share` for long.

    It is over as soon as one limit is kept again, and is then kept firing.
    """
    kept = []
    for limit in watch.limits:
        scrapes = limit.window_seconds / step_seconds
        # Scrapes of the window that may still be bad. On the limit counts as over it: 1 - 0.99 is a hair above 0.01.
        bad = math.ceil(limit.above * scrapes / share - 1e-9) - 1
        kept.append(math.ceil(scrapes - bad) * step_seconds + _lag(limit, step_seconds))
    return min(kept) + _whole(watch.keep_firing_for_seconds, step_seconds)


def _broken_after(limit: Limit, share: float, step_seconds: int) -> int | None:
    if share <= limit.above:
        return None
    scrapes = math.floor(limit.above * limit.window_seconds / step_seconds / share + 1e-9) + 1
    return scrapes * step_seconds + _lag(limit, step_seconds)


def _lag(limit: Limit, step_seconds: int) -> int:
    """A window that is computed less often than alerts are evaluated is that much behind."""
    return max(0, limit.computed_every_seconds - step_seconds)


def _whole(seconds: int, step_seconds: int) -> int:
    return math.ceil(seconds / step_seconds) * step_seconds


def _watch(rule: dict[str, Any], every: dict[str, int]) -> Watch | None:
    limits = tuple(_limits(rule["expr"], every))
    if not limits:
        return None
    floor = _FLOOR.search(rule["expr"])
    return Watch(
        alert=rule["alert"],
        severity=rule["labels"]["severity"],
        limits=limits,
        fewest_requests=int(floor[2]) if floor else 0,
        fewest_in_seconds=int(floor[1]) if floor else 0,
        for_seconds=parse_duration(rule.get("for", "0s")),
        keep_firing_for_seconds=parse_duration(rule.get("keep_firing_for", "0s")),
    )


def _limits(expr: str, every: dict[str, int]) -> Iterator[Limit]:
    for line in expr.splitlines():
        if found := _LIMIT.fullmatch(line):
            yield Limit(parse_duration(found[2]), float(found[3]), every[found[1]])
