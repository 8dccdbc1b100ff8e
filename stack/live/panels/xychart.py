"""One measure against another, a point for each step of time: the panel type "xychart". Pure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stack.live.dashboard import Json, Panel, mapping, objects, string
from stack.live.fields import field_for, matches
from stack.live.panels.base import (
    NO_DATA,
    NO_TRAFFIC,
    Answer,
    Drawn,
    Line,
    as_text,
    axis_scale,
    edge_label,
    hover_number,
    legend_of,
    limit_lines,
    lines_of,
    log_axis,
    nothing_to_draw,
    on_log_axis,
    quarter_decades,
    rounded,
    value_axis,
)
from stack.live.units import Scale, plain_text, tidy_ceiling

_OLDEST_OPACITY = 0.18  # points fade with age, so that one sees where the service is heading


def draw_xychart(panel: Panel, answers: Sequence[Answer]) -> Drawn:
    """A figure of y against x; queries are joined on time, as Grafana's transformation joinByField does it."""
    empty = nothing_to_draw(answers)
    if empty:
        return empty
    lines = lines_of(panel, answers)
    pairs = _pairs(panel, lines)
    if not pairs:
        unanswered = len([answer for answer in answers if answer.series]) < 2 <= len(answers)
        return Drawn("message", "no_data", NO_DATA if unanswered else "Two series are needed: one for each axis")
    x_lines, y_lines = [x for x, _ in pairs], [y for _, y in pairs]
    logarithmic = string(mapping(y_lines[0].field.custom, "scaleDistribution"), "type") == "log"
    x_scale, y_scale = axis_scale(x_lines), axis_scale(y_lines, logarithmic)
    several = max(len(pairs), len(objects(panel.options, "series"))) > 1
    levels = [y for y in y_lines if several and y.constant is not None]
    clouds = [(x, y) for x, y in pairs if y not in levels]
    points = [(x, y, _joined(x, y, above_zero=logarithmic)) for x, y in clouds]
    if not any(cloud for _, _, cloud in points):
        idle = any(answer.series and not any(one.has_value for one in answer.series) for answer in answers)
        return Drawn("message", "no_traffic", NO_TRAFFIC) if idle else Drawn("message", "no_data", NO_DATA)
    highest = max(
        [p[2] for _, _, cloud in points for p in cloud] + [level.constant or 0.0 for level in levels] or [0.0]
    )
    custom_style = string(mapping(field_for(panel).custom, "thresholdsStyle"), "mode")
    y_field = y_lines[0].field
    style = string(mapping(y_field.custom, "thresholdsStyle"), "mode") or custom_style
    limits = [] if style in ("", "off") else [limit for limit in y_field.limits if limit.value]
    near = [limit.value for limit in limits if limit.value is not None and limit.value <= 12 * highest]
    y_axis: dict[str, Any]
    if logarithmic:
        drawn = [p[2] for _, _, cloud in points for p in cloud] + [level.constant or 0.0 for level in levels] + near
        bottom, highest = quarter_decades(drawn)
        top = highest * y_scale.factor
        y_axis = log_axis(bottom, highest, y_lines[0].field.unit, y_scale.factor)
    else:
        top = tidy_ceiling(max([highest, *near]) * y_scale.factor * 1.06)
        y_axis = value_axis(y_scale, range=[0, top])
    widest = max((p[1] for _, _, cloud in points for p in cloud), default=0.0)
    layout: dict[str, Any] = {
        "xaxis": {
            **value_axis(x_scale, range=[0, tidy_ceiling(widest * x_scale.factor * 1.04)], zeroline=False),
            "title": {"text": as_text(_axis_title(x_lines[0]))},
        },
        "yaxis": {**y_axis, "zeroline": False, "title": {"text": as_text(_axis_title(points[0][1]))}},
        "hovermode": "closest",
        "shapes": [],
        "annotations": [],
    }
    for level in levels:
        shapes, notes = _level(level, y_scale)
        layout["shapes"] += shapes
        layout["annotations"] += notes
    shapes, notes = limit_lines(limits, y_field.unit, y_scale, top, style)
    layout["shapes"] += shapes
    layout["annotations"] += notes
    if logarithmic:
        layout["annotations"] = on_log_axis(layout["annotations"])
    traces = [trace for _, y, cloud in points if cloud for trace in _traces(y, cloud, x_scale, y_scale)]
    body = {"figure": {"data": traces, "layout": layout}}
    shown = [y for _, y, _ in points]
    return Drawn(
        "figure",
        note="each point is one step of time; older ones fade, the ring is now",
        body={**body, **(legend_of(panel, shown) if len(shown) > 1 else {})},
    )


def _pairs(panel: Panel, lines: Sequence[Line]) -> list[tuple[Line, Line]]:
    """(x, y) by the panel's manual mapping where it has one that fits, else the first series against all others."""
    pairs: list[tuple[Line, Line]] = []
    for series in objects(panel.options, "series"):
        x = _find(mapping(mapping(series, "x"), "matcher"), lines)
        y = _find(mapping(mapping(series, "y"), "matcher"), lines)
        if x is not None and y is not None and x is not y:
            name = string(mapping(series, "name"), "fixed")
            pairs.append((x, replace(y, name=name) if name else y))
    if pairs:
        return pairs
    return [(lines[0], y) for y in lines[1:]]


def _find(matcher: Json, lines: Sequence[Line]) -> Line | None:
    """The series that a matcher means; Grafana calls a query's values "Value #A" where they have no better name."""
    for line in lines:
        names = (line.name, f"Value #{line.ref_id}", f"Value {line.ref_id}", line.ref_id)
        if any(matches(matcher, name, line.ref_id) for name in names):
            return line
    return None


def _joined(x: Line, y: Line, above_zero: bool) -> list[tuple[float, float, float]]:
    """(time, x, y) wherever both have a value at the same instant, oldest first; a logarithmic axis has no zero."""
    by_time = {round(time): value for time, value in zip(x.times, x.values, strict=True) if value is not None}
    return [
        (time, by_time[round(time)], value)
        for time, value in zip(y.times, y.values, strict=True)
        if value is not None and round(time) in by_time and (value > 0 or not above_zero)
    ]


def _axis_title(line: Line) -> str:
    return string(line.field.custom, "axisLabel") or line.name


def _level(line: Line, scale: Scale) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A y series that never moves is an objective: a labelled line across the whole chart."""
    value = line.constant or 0.0
    text = plain_text(value, line.field.unit)
    shape = {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value * scale.factor, "y1": value * scale.factor,
        "line": {"color": line.colour, "width": 1.5, "dash": "dash"},
    }  # fmt: skip
    name = line.name if text in line.name else f"{line.name} {text}"
    return [shape], [edge_label(name, value * scale.factor, line.colour, "bottom")]


def _traces(
    y: Line, cloud: Sequence[tuple[float, float, float]], x_scale: Scale, y_scale: Scale
) -> list[dict[str, Any]]:
    """The points, and a ring around the newest."""
    count = len(cloud)
    fade = [
        round(_OLDEST_OPACITY + (0.9 - _OLDEST_OPACITY) * (index + 1) / count, 3) for index in range(count)
    ]  # oldest first
    hover = f"{hover_number(y_scale)} at {hover_number(x_scale, 'x')}<br>%{{text}}<extra>{as_text(y.name)}</extra>"
    base: dict[str, Any] = {"type": "scatter", "mode": "markers", "name": y.name, "hovertemplate": hover}
    xs, ys = [x for _, x, _ in cloud], [value for _, _, value in cloud]
    # `clock` holds unix milliseconds that the browser writes into `text` in the viewer's own zone.
    clock = [round(time * 1000) for time, _, _ in cloud]
    return [
        {
            **base,
            "x": rounded(xs, x_scale.factor),
            "y": rounded(ys, y_scale.factor),
            "clock": clock,
            "marker": {"color": y.colour, "size": 7, "opacity": fade, "line": {"width": 0}},
        },
        {
            **base,
            "x": rounded(xs[-1:], x_scale.factor),
            "y": rounded(ys[-1:], y_scale.factor),
            "clock": clock[-1:],
            "showlegend": False,
            "marker": {"color": "@panel/0", "size": 15, "line": {"color": "@text", "width": 2}},
        },
    ]
