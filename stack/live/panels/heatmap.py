"""A histogram's buckets over time: the panel type "heatmap" over series with the label `le`. Pure."""

import math
from collections.abc import Sequence
from typing import Any

from stack.live.dashboard import Panel, mapping, number, string
from stack.live.fields import field_for
from stack.live.intervals import Window
from stack.live.panels.base import (
    NO_DATA,
    NO_TRAFFIC,
    Answer,
    Drawn,
    Mark,
    draw_marks,
    log_axis,
    milliseconds,
    nothing_to_draw,
    time_axis,
)
from stack.live.series import on_grid
from stack.live.units import plain_text

_SHADES = 5


def bucket_counts(edges: Sequence[float], cumulative: Sequence[Sequence[float | None]]) -> list[list[float | None]]:
    """Each bucket's own share of cumulative buckets, rows in the order of `edges` (ascending).

    Scrapes catch the buckets of one histogram at one instant, yet a rate over them may go down by a rounding error:
    such a difference counts as zero.
    """
    rows: list[list[float | None]] = []
    for index in range(len(edges)):
        row: list[float | None] = []
        for step, value in enumerate(cumulative[index]):
            below = cumulative[index - 1][step] if index else 0.0
            row.append(None if value is None else max(0.0, value - (below or 0.0)))
        rows.append(row)
    return rows


def draw_heatmap(panel: Panel, answers: Sequence[Answer], window: Window, marks: Sequence[Mark]) -> Drawn:
    """One figure: time across, bucket edges upward, colour for how many observations a bucket got."""
    empty = nothing_to_draw(answers)
    if empty:
        return empty
    found = _buckets(answers)
    if not found:
        return Drawn("message", "error", "A heatmap needs series with the label le: sum by (le) (rate(…_bucket[…]))")
    edges = sorted(found)
    answer = answers[0]
    cumulative = [found[edge] for edge in edges]
    # Only a target with format "heatmap" is taken apart: Grafana draws others as they come, one row a series.
    rows = bucket_counts(edges, cumulative) if any(a.target.format == "heatmap" for a in answers) else cumulative
    used = [index for index, row in enumerate(rows) if any(value for value in row)]
    if not used:
        return Drawn("message", "no_traffic" if rows else "no_data", NO_TRAFFIC if rows else NO_DATA)
    # One empty row on each side of what is occupied: the eye sees where the cloud ends.
    first, last = max(0, used[0] - 1), min(len(edges) - 1, used[-1] + 1)
    bounds, logarithmic = _bounds(edges)
    shown, lines = rows[first : last + 1], bounds[first : last + 2]
    steps = len(shown[0])
    unit = string(mapping(panel.options, "yAxis"), "unit") or field_for(panel).unit
    exponent = _exponent(panel)
    texts = [_bucket_text(edges, index, unit) for index in range(first, last + 1)]
    cell_unit = string(mapping(panel.options, "cellValues"), "unit")
    layout: dict[str, Any] = {
        "xaxis": time_axis(window),
        "yaxis": {
            **(log_axis if logarithmic else _linear_axis)(lines[0], lines[-1], unit),
            "showgrid": False,
        },
        "hovermode": "closest",
        "shapes": [],
        "annotations": [],
    }
    trace = {
        "type": "heatmap",
        "x": milliseconds(answer.window.start + (index - 1) * answer.step for index in range(steps + 1)),
        "y": lines,
        # An empty cell is no colour at all: the panel shows through.
        "z": [[None if not value else float(f"{value**exponent:.4g}") for value in row] for row in shown],
        "text": [
            [f"{text}<br><b>{_cell(value, cell_unit)}</b>" for value in row]
            for text, row in zip(texts, shown, strict=True)
        ],
        "hovertemplate": "%{text}<br>%{x|%H:%M:%S}<extra></extra>",
        "colorscale": [[index / (_SHADES - 1), f"@heat-{index}"] for index in range(_SHADES)],
        "zmin": 0,
        "showscale": False,
    }
    draw_marks(layout, marks, window)
    note = "the stronger the colour, the more observations in that band"
    return Drawn("figure", note=note, body={"figure": {"data": [trace], "layout": layout}})


def _buckets(answers: Sequence[Answer]) -> dict[float, list[float | None]]:
    """Upper edge -> values on the grid, added up where several series have the same edge."""
    found: dict[float, list[float | None]] = {}
    for answer in answers:
        for series in answer.series:
            try:
                edge = float(series.labels["le"])
            except (KeyError, ValueError):
                continue
            values = on_grid(series, answer.window, answer.step)
            before = found.get(edge)
            found[edge] = values if before is None else [_sum(a, b) for a, b in zip(before, values, strict=True)]
    return found


def _sum(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else a + b


def _bounds(edges: Sequence[float]) -> tuple[list[float], bool]:
    """(the buckets' bounds, one more than there are buckets; whether they suit a logarithmic axis).

    The lowest bucket and the one up to infinity have no second bound of their own: they get a neighbour's width.
    """
    finite = [edge for edge in edges if math.isfinite(edge)]
    if not finite:
        return [0.0, 1.0], False
    if finite[0] > 0:
        ratio = finite[1] / finite[0] if len(finite) > 1 else 2.0
        lower, upper = finite[0] / ratio, finite[-1] * (finite[-1] / finite[-2] if len(finite) > 1 else 2.0)
    else:
        width = finite[1] - finite[0] if len(finite) > 1 else 1.0
        lower, upper = finite[0] - width, finite[-1] + width
    bounds = [lower, *finite]
    return (bounds if len(finite) == len(edges) else [*bounds, upper]), finite[0] > 0


def _bucket_text(edges: Sequence[float], index: int, unit: str) -> str:
    upper = edges[index]
    if math.isinf(upper):
        return f"over {plain_text(edges[index - 1], unit)}" if index else "all"
    if index == 0:
        return f"up to {plain_text(upper, unit)}"
    return f"{plain_text(edges[index - 1], unit)} – {plain_text(upper, unit)}"


def _cell(value: float | None, unit: str) -> str:
    return "no sample" if value is None else plain_text(value, unit)


def _linear_axis(low: float, high: float, unit: str) -> dict[str, Any]:
    values = [low + (high - low) * part / 5 for part in range(6)]
    return {"range": [low, high], "tickvals": values, "ticktext": [plain_text(value, unit) for value in values]}


def _exponent(panel: Panel) -> float:
    """Grafana's colour scale: a small exponent lets rare, slow requests be seen beside thousands of fast ones."""
    color = mapping(panel.options, "color")
    value = number(color, "exponent")
    return value if value is not None and 0 < value <= 2 and string(color, "scale") != "linear" else 0.5
