"""One big number a series: the panel types "stat", "gauge" and "bargauge". Pure."""

from collections.abc import Sequence
from typing import Any

from stack.live.dashboard import Panel, mapping, string
from stack.live.fields import Field, colour, is_calm, mapped_text
from stack.live.intervals import Window
from stack.live.panels.base import (
    NO_DATA,
    NO_TRAFFIC,
    Answer,
    Drawn,
    Line,
    lines_of,
    milliseconds,
    rounded,
    time_axis,
    translucent,
)
from stack.live.series import CALC_NAMES
from stack.live.units import plain_text, value_text

# A value older than this many steps is not "now": its age is written beside it.
_STALE_STEPS = 4


def draw_stat(panel: Panel, answers: Sequence[Answer], window: Window) -> Drawn:
    """A tile for each series, with a small line over time where the panel asks for an area graph."""
    calc = _calc(panel)
    stats = [_stat(panel, line, calc, answer, window) for answer in answers for line in lines_of(panel, [answer])]
    if not stats:
        style = _no_value(panel)
        return Drawn("stat", "no_data", body={"stats": [_blank(style, NO_DATA)]})
    state = "ok" if any(stat["known"] for stat in stats) else "no_traffic"
    named = len(stats) > 1 or string(panel.options, "textMode") in ("value_and_name", "name")
    for stat in stats:
        if not named:
            stat["name"] = ""
    return Drawn("stat", "ok" if state == "ok" else "no_traffic", body={"stats": stats})


def _calc(panel: Panel) -> str:
    calcs = mapping(panel.options, "reduceOptions").get("calcs")
    return calcs[0] if isinstance(calcs, list) and calcs and isinstance(calcs[0], str) else "lastNotNull"


def _no_value(panel: Panel) -> str:
    return string(panel.defaults, "noValue")


def _blank(text: str, reason: str) -> dict[str, Any]:
    """A tile without a number: the file's own words where it has some, else the reason."""
    return {
        "known": False,
        "text": text or reason,
        "suffix": "",
        "name": "",
        "colour": "@muted",
        "fill": "",
        "note": "",
    }


def _stat(panel: Panel, line: Line, calc: str, answer: Answer, window: Window) -> dict[str, Any]:
    value = line.reduced(calc)
    style = line.field
    mapped = mapped_text(value, style.mappings)
    if value is None:
        text, paint = mapped or (style.no_value, "")
        return _blank(text, NO_TRAFFIC) | {"name": line.name, "colour": colour(paint) if paint else "@muted"}
    number, suffix = value_text(value, style.unit, style.decimals)
    step = style.threshold_at(value)
    paint = colour(step.colour) if step and style.colour_mode in ("thresholds", "") else line.colour
    if mapped:
        number, suffix = mapped[0] or number, "" if mapped[0] else suffix
        paint = colour(mapped[1]) if mapped[1] else paint
    mode = string(panel.options, "colorMode") or "value"
    stat: dict[str, Any] = {
        "known": True,
        "text": number,
        "suffix": suffix,
        "name": line.name,
        "colour": paint if mode != "none" else "@text",
        "fill": paint if mode.startswith("background") else "",
        "note": _note(line, calc, value, answer),
    }
    if string(panel.options, "graphMode") == "area" and not answer.target.instant:
        stat["figure"] = _spark(line, stat["colour"], window)
    return stat


def _note(line: Line, calc: str, value: float, answer: Answer) -> str:
    """What colour alone would have to say (the threshold that is passed), and how old a last value is."""
    parts = []
    if calc not in ("lastNotNull", "last"):
        parts.append(CALC_NAMES.get(calc, calc))
    parts += _passed(line.field, value)
    if calc == "lastNotNull" and not answer.target.instant:
        last = max(time for time, known in zip(line.times, line.values, strict=True) if known is not None)
        age = answer.window.end - last
        if age > _STALE_STEPS * answer.step:
            parts.append(f"{plain_text(round(age), 's')} ago")
    return " · ".join(parts)


def _passed(style: Field, value: float) -> list[str]:
    """The threshold that makes a value stand out: "over 50 ms", or "under 25%" where the low values are the bad ones.

    Nothing for a calm colour, whichever end of the scale it is at.
    """
    held = style.threshold_at(value)
    if held is None or is_calm(held.colour):
        return []
    if held.value is not None:
        above = style.thresholds[style.thresholds.index(held) + 1 :]
        # Bad at the bottom and better further up: what matters is the limit that is not reached.
        if above and above[-1].value is not None and is_calm(above[-1].colour):
            return [f"under {plain_text(above[0].value or 0.0, style.unit)}"]
        return [f"over {plain_text(held.value, style.unit)}"]
    following = style.limits
    return [f"under {plain_text(following[0].value or 0.0, style.unit)}"] if following else []


def _spark(line: Line, paint: str, window: Window) -> dict[str, Any]:
    values = [value for value in line.values if value is not None]
    low, high = min(values), max(values)
    fill = "tozeroy" if low >= 0 else "none"
    room = (high - low) * 0.15 or abs(high) * 0.5 or 1.0
    bottom = low - room if low - room > 0 or low < 0 else 0.0
    return {
        "data": [
            {
                "type": "scatter", "mode": "lines", "hoverinfo": "skip", "x": milliseconds(line.times),
                "y": rounded(line.values), "line": {"color": paint, "width": 1.5}, "fill": fill,
                "fillcolor": translucent(paint, 0.14),
            }
        ],
        "layout": {
            "xaxis": {**time_axis(window), "visible": False},
            "yaxis": {"range": [bottom, high + room], "visible": False},
        },
    }  # fmt: skip
