"""Defaults and overrides, thresholds and mappings."""

from typing import Any

import pytest

from stack.live.dashboard import Grid, Panel
from stack.live.fields import Threshold, colour, field_for, is_calm, mapped_text

STEPS = [{"color": "green", "value": None}, {"color": "#f08c00", "value": 0.04}, {"color": "red", "value": 0.05}]


def panel(defaults: dict[str, Any], *overrides: dict[str, Any]) -> Panel:
    return Panel(1, "timeseries", "", "", Grid(0, 0, 12, 8), (), defaults=defaults, overrides=tuple(overrides))


def test_overrides_come_after_defaults_and_in_order() -> None:
    given = panel(
        {"unit": "s", "custom": {"lineWidth": 1, "fillOpacity": 5}, "thresholds": {"mode": "absolute", "steps": STEPS}},
        {"matcher": {"id": "byName", "options": "p99"}, "properties": [{"id": "custom.lineWidth", "value": 3}]},
        {"matcher": {"id": "byRegexp", "options": "/^p9/"}, "properties": [{"id": "unit", "value": "ms"}]},
        {"matcher": {"id": "byFrameRefID", "options": "B"}, "properties": [{"id": "displayName", "value": "second"}]},
        {
            "matcher": {"id": "byName", "options": "p99"},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": "red"}}],
        },
    )
    p99 = field_for(given, "p99", "A")
    assert (p99.unit, p99.custom["lineWidth"], p99.custom["fillOpacity"]) == ("ms", 3, 5)
    assert (p99.colour_mode, p99.fixed_colour, p99.display_name) == ("fixed", "red", "")
    mean = field_for(given, "mean", "B")
    assert (mean.unit, mean.custom["lineWidth"], mean.display_name) == ("s", 1, "second")


@pytest.mark.parametrize(
    ("value", "expected"), [(-1.0, "green"), (0.04, "#f08c00"), (0.0499, "#f08c00"), (0.05, "red")]
)
def test_the_step_that_holds(value: float, expected: str) -> None:
    held = field_for(panel({"thresholds": {"steps": STEPS}})).threshold_at(value)
    assert held is not None
    assert held.colour == expected


def test_limits_are_the_steps_with_a_value() -> None:
    assert field_for(panel({"thresholds": {"steps": STEPS}})).limits == (
        Threshold(0.04, "#f08c00"),
        Threshold(0.05, "red"),
    )


MAPPINGS = [
    {"type": "value", "options": {"1": {"text": "up", "color": "green"}, "0": {"text": "down", "color": "red"}}},
    {"type": "range", "options": {"from": 10, "to": None, "result": {"text": "> 10 s", "color": "#e03131"}}},
    {"type": "special", "options": {"match": "null+nan", "result": {"text": "no traffic"}}},
]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, ("up", "green")),
        (0.0, ("down", "red")),
        (10.0, ("> 10 s", "#e03131")),
        (None, ("no traffic", "")),
        (5.0, None),
    ],
)
def test_value_mappings(value: float | None, expected: tuple[str, str] | None) -> None:
    assert mapped_text(value, MAPPINGS) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("green", "@green"),
        ("semi-dark-red", "@semi-dark-red"),
        ("#7048e8", "#7048e8"),
        ("rgba(1, 2, 3, 0.5)", "rgba(1, 2, 3, 0.5)"),
        ("url(x)", "@text"),
    ],
)
def test_colours(name: str, expected: str) -> None:
    assert colour(name) == expected


@pytest.mark.parametrize(
    ("name", "calm"),
    [
        ("green", True),
        ("dark-red", False),
        ("#2f9e44", True),
        ("#1971c2", True),
        ("#e03131", False),
        ("#f08c00", False),
    ],
)
def test_calm_colours(name: str, calm: bool) -> None:
    assert is_calm(name) is calm
