"""Time ranges, steps and the built-in interval variables. Pure; all times are unix seconds."""

import re
from dataclasses import dataclass
from typing import Final

_UNITS: Final = {
    "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0, "M": 2_592_000.0, "y": 31_536_000.0,
}  # fmt: skip
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdwMy])")
_RELATIVE: Final = re.compile(r"now(?:-(\d+(?:ms|[smhdwMy])))?(?:/[smhdwMy])?")

# Steps that read well on a clock.
_STEPS: Final = (
    1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
)  # fmt: skip

LONGEST_RANGE_SECONDS: Final = 366 * 86_400.0
SHORTEST_RANGE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Window:
    """What is looked at: `start` to `end`. `live` when the end moves with the clock."""

    start: float
    end: float
    live: bool = True

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def aligned(self, step_seconds: float) -> "Window":
        """Both ends on multiples of the step: points keep their place from one refresh to the next, and viewers who
        ask within one step ask for the same thing."""
        return Window(
            self.start // step_seconds * step_seconds, self.end // step_seconds * step_seconds, live=self.live
        )


def parse_duration(text: str) -> float:
    """Seconds of a duration such as 15s, 1h30m or 100ms, with an optional leading '>' as Grafana writes a minimum."""
    bare = text.strip().removeprefix(">").strip()
    parts = _PART.findall(bare)
    if not parts or "".join(value + unit for value, unit in parts) != bare:
        raise ValueError(f"{text!r} is no duration; expected one such as 15s, 5m or 1h30m")
    return sum(float(value) * _UNITS[unit] for value, unit in parts)


def duration_text(seconds: float) -> str:
    """A duration as PromQL takes it, in the largest unit that leaves a whole number."""
    milliseconds = max(1, round(seconds * 1000))
    for unit in ("d", "h", "m", "s"):
        size = round(_UNITS[unit] * 1000)
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def parse_window(start: str, end: str, now: float) -> Window:
    """A time range as Grafana's URLs write it: "now-15m" to "now", or unix milliseconds.

    Raises ValueError with one sentence. The result is at least 10 s and at most a year long.
    """
    first, last = _instant(start, now), _instant(end, now)
    if not last - first >= SHORTEST_RANGE_SECONDS:
        raise ValueError(f"the range from {start!r} to {end!r} is shorter than {SHORTEST_RANGE_SECONDS:g} s")
    if last - first > LONGEST_RANGE_SECONDS:
        raise ValueError(f"the range from {start!r} to {end!r} is longer than a year")
    return Window(first, last, live=end == "now")


def _instant(text: str, now: float) -> float:
    relative = _RELATIVE.fullmatch(text)
    if relative:
        return now - (parse_duration(relative[1]) if relative[1] else 0.0)
    if re.fullmatch(r"\d{10,14}", text):
        return int(text) / 1000
    raise ValueError(f"{text!r} is no time; expected now, now-15m or unix milliseconds")


def step_seconds(range_seconds: float, max_points: int, shortest: float) -> float:
    """Grafana's $__interval: the range over the points there is room for, rounded up to a step that reads well, and
    never below `shortest`, which is how often the data is scraped."""
    wanted = max(range_seconds / max_points, shortest)
    if wanted <= shortest:
        return shortest
    return next((float(step) for step in _STEPS if step >= wanted), -(-wanted // 86_400) * 86_400)


def rate_interval(step: float, scrape_seconds: float) -> float:
    """Grafana's $__rate_interval: long enough for every `rate()` to see at least four scrapes."""
    return max(step + scrape_seconds, 4 * scrape_seconds)


def built_in_variables(window: Window, step: float, scrape_seconds: float) -> dict[str, str]:
    """The variables that Grafana defines for every query."""
    whole = duration_text(max(1.0, round(window.seconds)))
    return {
        "__interval": duration_text(step),
        "__interval_ms": str(round(step * 1000)),
        "__rate_interval": duration_text(rate_interval(step, scrape_seconds)),
        "__range": whole,
        "__range_s": str(round(window.seconds)),
        "__range_ms": str(round(window.seconds * 1000)),
        "__from": str(round(window.start * 1000)),
        "__to": str(round(window.end * 1000)),
    }
