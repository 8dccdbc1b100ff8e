"""Lines over time: the panel type "timeseries". Pure."""

import math
from collections.abc import Sequence
from typing import Any

from stack.live.dashboard import Panel, flag, mapping, number, string
from stack.live.fields import field_for
from stack.live.intervals import Window
from stack.live.panels.base import (
    Answer,
    Drawn,
    Line,
    Mark,
    as_text,
    axis_scale,
    dash_of,
    draw_marks,
    edge_label,
    hover_number,
    largest,
    legend_of,
    limit_lines,
    lines_of,
    log_axis,
    milliseconds,
    nothing_to_draw,
    on_log_axis,
    overlay_of,
    quarter_decades,
    rounded,
    time_axis,
    translucent,
    value_axis,
)
from stack.live.units import Scale, plain_text, tidy_ceiling

_SHAPES = {"stepAfter": "hv", "stepBefore": "vh", "smooth": "spline"}
# A threshold up to this many times the highest value is drawn in its place; beyond, it is named at the edge.
_LIMIT_IN_SIGHT = 12.0


def draw_timeseries(panel: Panel, answers: Sequence[Answer], window: Window, marks: Sequence[Mark]) -> Drawn:
    """One figure over `window`, with the marks across it."""
    empty = nothing_to_draw(answers)
    if empty:
        return empty
    lines = [line for line in lines_of(panel, answers) if not flag(mapping(line.field.custom, "hideFrom"), "viz")]
    left, right = _sides(lines)
    layout: dict[str, Any] = {"xaxis": time_axis(window), "shapes": [], "annotations": [], "hovermode": "x unified"}
    traces: list[dict[str, Any]] = []
    for key, name, group in (("yaxis", "y", left), ("yaxis2", "y2", right)):
        if not group:
            continue
        logarithmic = string(mapping(group[0].field.custom, "scaleDistribution"), "type") == "log"
        scale = axis_scale(group, logarithmic)
        axis, top = _axis(panel, group, scale, logarithmic)
        if name == "y2":
            axis |= {"overlaying": "y", "side": "right", "showgrid": False}
        layout[key] = axis
        traces += [_trace(line, scale, name, logarithmic) for line in group]
        labels = _constant_labels(group, scale, name)
        if name == "y":
            shapes, limits = _limits(panel, group, scale, top)
            layout["shapes"] += shapes
            labels += limits
        layout["annotations"] += on_log_axis(labels) if logarithmic else labels
    if any(trace["type"] == "bar" for trace in traces):
        layout |= {"barmode": "stack" if _stacked(lines) else "overlay", "bargap": 0.1}
    draw_marks(layout, marks, window)
    return Drawn(
        "figure",
        overlay=overlay_of(answers, lines),
        body={"figure": {"data": traces, "layout": layout}, **legend_of(panel, lines)},
    )


def _sides(lines: Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """Left and right axis: as each line says, else by unit; the first line's unit is the left one's."""
    left: list[Line] = []
    right: list[Line] = []
    for line in lines:
        placement = string(line.field.custom, "axisPlacement")
        other_unit = bool(left) and line.field.unit != left[0].field.unit
        (right if placement == "right" or (placement != "left" and other_unit) else left).append(line)
    return (left, right) if left else (right, [])


def _stacked(lines: Sequence[Line]) -> bool:
    return any(string(mapping(line.field.custom, "stacking"), "mode") in ("normal", "percent") for line in lines)


def _axis(panel: Panel, lines: Sequence[Line], scale: Scale, logarithmic: bool) -> tuple[dict[str, Any], float]:
    """(y axis, its top in shown units). It starts at zero unless something is below, and its end is a tidy number."""
    first = lines[0].field
    values = [value for line in lines for value in line.values if value is not None]
    peak = _stack_peak(lines) if _stacked(lines) else max(values, default=0.0)
    low = min(values, default=0.0)
    shown = largest(values)
    style = _limit_style(panel, lines)
    if style:
        drawn = [limit.value for limit in first.limits if limit.value is not None]
        peak = max([peak, *(value for value in drawn if 0 < value <= shown * _LIMIT_IN_SIGHT)])
    soft_top, soft_bottom = number(first.custom, "axisSoftMax"), number(first.custom, "axisSoftMin")
    peak = max(peak, soft_top) if soft_top is not None else peak
    low = min(low, soft_bottom) if soft_bottom is not None else low
    title = string(first.custom, "axisLabel")
    more: dict[str, Any] = {"title": {"text": title}} if title else {}
    if logarithmic:
        bottom, top = quarter_decades((*values, peak))
        return log_axis(bottom, top, first.unit, scale.factor) | more, top * scale.factor
    lowest, highest = first.lowest, first.highest
    if values and (
        max(values) < -_or_infinite(None if lowest is None else -lowest) or min(values) > _or_infinite(highest)
    ):
        lowest = highest = None  # everything lies beyond the ends that the file fixes: better seen than hidden
    top = highest * scale.factor if highest is not None else tidy_ceiling(peak * scale.factor * 1.04)
    if lowest is not None:
        bottom = lowest * scale.factor
    else:
        bottom = 0.0 if low >= 0 else -tidy_ceiling(-low * scale.factor * 1.04)
    if peak <= 0 and highest is None:
        # Nothing but zeros: the line lies on the floor of an axis of whole numbers; below zero the axis ends at zero.
        top = 1.0 if low >= 0 else 0.0
    return value_axis(scale, range=[bottom, max(top, bottom + 1e-9)], zeroline=bottom < 0, **more), top


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value


def _stack_peak(lines: Sequence[Line]) -> float:
    sums: dict[float, float] = {}
    for line in lines:
        for time, value in zip(line.times, line.values, strict=True):
            sums[time] = sums.get(time, 0.0) + (value or 0.0)
    return max(sums.values(), default=0.0)


def _limit_style(panel: Panel, lines: Sequence[Line]) -> str:
    """How thresholds are drawn: "" when they are not."""
    for custom in (field_for(panel).custom, *(line.field.custom for line in lines)):
        mode = string(mapping(custom, "thresholdsStyle"), "mode")
        if mode and mode != "off":
            return mode
    return ""


def _limits(
    panel: Panel, lines: Sequence[Line], scale: Scale, top: float
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    style = _limit_style(panel, lines)
    if not style:
        return [], []
    first = field_for(panel)
    # A line of its own may already stand where the threshold is, and say what it is.
    constants = {line.constant for line in lines}
    return limit_lines([limit for limit in first.limits if limit.value not in constants], first.unit, scale, top, style)


def _constant_labels(lines: Sequence[Line], scale: Scale, axis: str) -> list[dict[str, Any]]:
    """The name of each dashed line that never moves (an objective) written on it."""
    labels = []
    for line in lines:
        value = line.constant
        if not value or dash_of(line.field) == "solid":
            continue
        text = plain_text(value, line.field.unit, line.field.decimals)
        name = line.name if text in line.name else f"{line.name} {text}"
        labels.append(edge_label(name, value * scale.factor, line.colour, "bottom", yref=axis))
    return labels


def _trace(line: Line, scale: Scale, axis: str, logarithmic: bool) -> dict[str, Any]:
    custom = line.field.custom
    # Zero has no place on a logarithmic axis: a gap, where Plotly would draw a line down to nowhere.
    shown = [value if value is not None and (value > 0 or not logarithmic) else None for value in line.values]
    trace: dict[str, Any] = {
        "name": line.name,
        "x": milliseconds(line.times),
        "y": rounded(shown, scale.factor),
        "yaxis": axis,
        "hovertemplate": f"{hover_number(scale)}<extra>{as_text(line.name)}</extra>",
    }
    if string(custom, "drawStyle") == "bars":
        opacity = _share(custom, "fillOpacity", 0.7)
        return {**trace, "type": "bar", "marker": {"color": translucent(line.colour, opacity or 0.7)}}
    width = number(custom, "lineWidth")
    width = 1.8 if width is None else max(width, 1.8) if width else 0.0
    points = string(custom, "drawStyle") == "points" or string(custom, "showPoints") == "always"
    lonely = _has_lonely_point(line)
    mode = "markers" if string(custom, "drawStyle") == "points" else "lines+markers" if points or lonely else "lines"
    trace |= {
        "type": "scatter",
        "mode": mode,
        "line": {
            "color": line.colour,
            "width": width,
            "dash": dash_of(line.field),
            "shape": _SHAPES.get(string(custom, "lineInterpolation"), "linear"),
        },
        "marker": {"color": line.colour, "size": 5 if points else 3},
        "connectgaps": flag(custom, "spanNulls"),
    }
    opacity = _share(custom, "fillOpacity", 0.0)
    if string(mapping(custom, "stacking"), "mode") in ("normal", "percent"):
        trace |= {"stackgroup": axis, "fillcolor": translucent(line.colour, opacity or 0.25)}
        if string(mapping(custom, "stacking"), "mode") == "percent":
            trace["groupnorm"] = "percent"
    elif opacity:
        trace |= {"fill": "tozeroy", "fillcolor": translucent(line.colour, opacity)}
    return trace


def _share(custom: Any, key: str, default: float) -> float:
    """Grafana's opacities are percentages."""
    value = number(custom, key)
    return default if value is None else max(0.0, min(1.0, value / 100))


def _has_lonely_point(line: Line) -> bool:
    """A sample between two gaps makes no line: without a marker it would not be seen."""
    values = (None, *line.values, None)
    return any(
        here is not None and before is None and after is None
        for before, here, after in zip(values, values[1:], values[2:], strict=False)
    )
