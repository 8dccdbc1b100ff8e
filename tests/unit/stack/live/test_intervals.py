"""Ranges, steps and the built-in variables: tables."""

import pytest

from stack.live.intervals import (
    Window,
    built_in_variables,
    duration_text,
    parse_duration,
    parse_window,
    rate_interval,
    step_seconds,
)

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15s", 15), ("5m", 300), ("1h30m", 5400), ("100ms", 0.1), (">5s", 5), ("1.5h", 5400), ("7d", 604_800)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "-5s", "5s5", "$__interval"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(20, "20s"), (60, "1m"), (90, "90s"), (7200, "2h"), (86_400, "1d"), (0.5, "500ms")]
)
def test_durations_as_promql(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("start", "end", "window"),
    [
        ("now-15m", "now", Window(NOW - 900, NOW, live=True)),
        ("now-1h", "now-30m", Window(NOW - 3600, NOW - 1800, live=False)),
        ("1799999000000", "1799999900000", Window(1_799_999_000, 1_799_999_900, live=False)),
    ],
)
def test_windows(start: str, end: str, window: Window) -> None:
    assert parse_window(start, end, NOW) == window


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ("yesterday", "now", "'yesterday' is no time"),
        ("now", "now-5m", "shorter than 10 s"),
        ("now-5s", "now", "shorter than 10 s"),
        ("now-3y", "now", "longer than a year"),
        ("now-1h; drop", "now", "is no time"),
    ],
)
def test_windows_that_are_none(start: str, end: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_window(start, end, NOW)


@pytest.mark.parametrize(
    ("range_seconds", "points", "shortest", "step"),
    [
        (900, 240, 5, 5),  # 3.75 s would be finer than the scrapes
        (3600, 240, 5, 15),
        (86_400, 240, 5, 600),
        (604_800, 480, 5, 1800),
        (900, 240, 1, 5),
        (900, 240, 60, 60),  # a panel's own smallest step
        (31_536_000, 60, 5, 7 * 86_400),  # beyond the table: whole days
    ],
)
def test_steps(range_seconds: float, points: int, shortest: float, step: float) -> None:
    assert step_seconds(range_seconds, points, shortest) == step


def test_a_rate_always_sees_four_scrapes() -> None:
    assert rate_interval(5, 5) == 20
    assert rate_interval(60, 5) == 65


def test_aligned_windows_keep_their_points_between_refreshes() -> None:
    first, later = Window(NOW - 898.3, NOW + 1.7).aligned(5), Window(NOW - 897.3, NOW + 2.7).aligned(5)
    assert first == later == Window(NOW - 900, NOW)


def test_built_in_variables() -> None:
    assert built_in_variables(Window(NOW - 900, NOW), 5, 5) == {
        "__interval": "5s",
        "__interval_ms": "5000",
        "__rate_interval": "20s",
        "__range": "15m",
        "__range_s": "900",
        "__range_ms": "900000",
        "__from": "1799999100000",
        "__to": "1800000000000",
    }
