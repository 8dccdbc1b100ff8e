"""What every kind of panel is drawn from and drawn to, and the parts of a figure that several kinds share. Pure.

Figures are plain dictionaries for Plotly in the browser. A colour "@name" or "@name/0.2" (with an opacity) is looked
up there in the theme of the moment, so that light and dark need no second figure. Times are unix milliseconds, which
Plotly shows in the viewer's own zone.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from stack.live.dashboard import Panel, Target, flag, mapping, string
from stack.live.fields import PALETTE_SIZE, Field, Threshold, colour, field_for
from stack.live.intervals import Window
from stack.live.series import CALC_NAMES, Series, on_grid, reduce, series_name
from stack.live.units import Scale, plain_text, scale_for

State = Literal["ok", "no_data", "no_traffic", "error"]
NO_TRAFFIC = "No traffic in this time range"
NO_DATA = "No data in this time range"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one query of a panel gave over `window`, a sample at every `step` seconds (an instant query: at its end)."""

    target: Target
    series: tuple[Series, ...]
    window: Window
    step: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of time to be marked on every time axis: an alert that fired."""

    start: float
    end: float
    title: str
    text: str
    colour: str
    ongoing: bool
    earlier: bool = False  # it was there when the window began: when it started is not known


@dataclass(frozen=True, slots=True)
class Drawn:
    """A panel ready for the browser; `message` stands in place of the panel, `overlay` and `note` beside it."""

    kind: Literal["figure", "stat", "table", "text", "message"]
    state: State = "ok"
    message: str = ""
    overlay: str = ""
    note: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)

    def payload(self) -> dict[str, Any]:
        texts = {"message": self.message, "overlay": self.overlay, "note": self.note}
        return {"kind": self.kind, "state": self.state, **{k: v for k, v in texts.items() if v}, **self.body}


@dataclass(frozen=True, slots=True)
class Line:
    """One named series on its panel's grid of steps."""

    name: str
    ref_id: str
    field: Field
    colour: str
    times: tuple[float, ...]  # unix seconds
    values: tuple[float | None, ...]

    @property
    def has_value(self) -> bool:
        return any(value is not None for value in self.values)

    @property
    def constant(self) -> float | None:
        """The value of a line that never moves, such as an objective; None for any other."""
        known = {value for value in self.values if value is not None}
        return known.pop() if len(known) == 1 else None

    def reduced(self, calc: str) -> float | None:
        return reduce(self.values, calc)


def lines_of(panel: Panel, answers: Sequence[Answer]) -> list[Line]:
    """Every series of every shown query, named and coloured."""
    lines: list[Line] = []
    for answer in answers:
        for series in answer.series:
            name = series_name(series.labels, answer.target.legend, answer.target.expr, len(answer.series) == 1)
            style = field_for(panel, name, answer.target.ref_id)
            # The grid's instants: a missing sample must break the line, so every step has its place.
            values = tuple(on_grid(series, answer.window, answer.step))
            times = tuple(answer.window.start + index * answer.step for index in range(len(values)))
            shown = style.fixed_colour if style.colour_mode in ("fixed", "shades") and style.fixed_colour else ""
            lines.append(
                Line(
                    style.display_name or name,
                    answer.target.ref_id,
                    style,
                    colour(shown) if shown else f"@series-{len(lines) % PALETTE_SIZE}",
                    times,
                    values,
                )
            )
    return lines


def nothing_to_draw(answers: Sequence[Answer]) -> Drawn | None:
    """The message that stands in place of a panel without a single number; None when there is one.

    Only NaN means that the series are there and nothing happened: a quantile or a ratio of no requests.
    """
    if any(series.has_value for answer in answers for series in answer.series):
        return None
    if any(answer.series for answer in answers):
        return Drawn("message", "no_traffic", NO_TRAFFIC)
    return Drawn("message", "no_data", NO_DATA)


def overlay_of(answers: Sequence[Answer], lines: Sequence[Line]) -> str:
    """What to write over a figure in which only constants, such as an objective, have values."""
    silent = [answer for answer in answers if not any(series.has_value for series in answer.series)]
    if not silent or any(line.has_value and line.constant is None for line in lines):
        return ""
    return NO_TRAFFIC if any(answer.series for answer in silent) else NO_DATA


def milliseconds(times: Iterable[float]) -> list[int]:
    return [round(time * 1000) for time in times]


def rounded(values: Iterable[float | None], factor: float = 1.0) -> list[float | None]:
    """Scaled and cut to six significant digits: half the bytes, no visible difference."""
    return [None if value is None else float(f"{value * factor:.6g}") for value in values]


def translucent(name: str, opacity: float) -> str:
    """A theme colour or a plain one with an opacity."""
    return f"{name}/{opacity:g}"


def time_axis(window: Window) -> dict[str, Any]:
    """The x axis of everything over time; ticks are chosen in the browser, where the width is known."""
    long = window.seconds > 86_400
    return {
        "type": "date",
        "range": milliseconds((window.start, window.end)),
        "tickformat": "%b %d\n%H:%M" if long else "%H:%M:%S" if window.seconds <= 300 else "%H:%M",
        "hoverformat": "%b %d, %H:%M:%S" if long else "%H:%M:%S",
    }


def value_axis(scale: Scale, **more: Any) -> dict[str, Any]:
    """A y axis whose ticks carry their unit."""
    return {"tickprefix": scale.prefix, "ticksuffix": scale.suffix, "tickformat": ",~r", "nticks": 6, **more}


def hover_number(scale: Scale, axis: str = "y") -> str:
    """A hover template's number with its unit: four significant digits."""
    return f"{scale.prefix}%{{{axis}:,.4~r}}{scale.suffix}"


def largest(values: Iterable[float | None]) -> float:
    return max((abs(value) for value in values if value is not None and math.isfinite(value)), default=0.0)


def axis_scale(lines: Sequence[Line], logarithmic: bool = False) -> Scale:
    """One scale for all lines of an axis, by the first one's unit and the largest value; on a logarithmic axis by the
    middle of its values, for its top may be decades away from where most of them are."""
    unit = next((line.field.unit for line in lines if line.field.unit), "")
    values = [value for line in lines for value in line.values]
    if logarithmic:
        positive = [value for value in values if value is not None and value > 0]
        return scale_for(unit, math.sqrt(min(positive) * max(positive)) if positive else 0.0)
    return scale_for(unit, largest(values))


def limit_lines(
    limits: Sequence[Threshold], unit: str, scale: Scale, top: float, style: str, labelled: bool = True, axis: str = "y"
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(shapes, annotations) that draw thresholds as labelled lines, and with an "area" style tint what lies beyond.

    A threshold far above everything drawn would squeeze the data flat: it is named at the top edge instead.
    """
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for limit in limits:
        if limit.value is None:
            continue
        y, paint = limit.value * scale.factor, colour(limit.colour)
        text = f"limit {plain_text(limit.value, unit)}"
        if y > top:
            notes.append(edge_label(f"↑ {text}", 1.0, paint, "top", yref="paper"))
            continue
        if "line" in style or "dashed" in style:
            dash = "dash" if "dashed" in style or style == "line" else "solid"
            shapes.append(
                {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": axis, "y0": y, "y1": y,
                 "line": {"color": paint, "width": 1.5, "dash": dash}, "layer": "above"}
            )  # fmt: skip
        if "area" in style:
            shapes.append(
                {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "yref": axis, "y0": y, "y1": top,
                 "fillcolor": translucent(paint, 0.08), "line": {"width": 0}, "layer": "below"}
            )  # fmt: skip
        if labelled:
            notes.append(edge_label(text, y, paint, "bottom", yref=axis))
    return shapes, notes


def edge_label(text: str, y: float, paint: str, anchor: str, yref: str = "y") -> dict[str, Any]:
    """A word at the left edge of the plot, on a plate of the panel's own colour so that lines do not cross it out.

    Plotly places it on a logarithmic axis by the logarithm: `on_log_axis`.
    """
    return {
        "text": as_text(text), "xref": "paper", "x": 0, "xanchor": "left", "xshift": 4, "yref": yref, "y": y,
        "yanchor": anchor, "showarrow": False, "font": {"size": 11, "color": paint},
        "bgcolor": "@panel/0.75", "borderpad": 1,
    }  # fmt: skip


def on_log_axis(labels: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Labels moved to where a logarithmic axis wants them (a shape there keeps its plain value)."""
    return [{**label, "y": math.log10(label["y"])} if label["yref"] != "paper" else label for label in labels]


def log_axis(low: float, high: float, unit: str, factor: float = 1.0) -> dict[str, Any]:
    """A logarithmic axis from `low` to `high` in `unit`, each tick with its own unit: 500 µs, 1 ms, … 1 s.

    Ticks stand at 1, 2 and 5 of each decade, at fewer of them where there are many decades. `factor` is the scale of
    the numbers drawn, which the hover texts show.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        # Written as decimals: 5 * 10.0**-3 is 0.005, 2 * 10.0**-3 is 0.002, yet 3 * 10.0**-1 is 0.30000000000000004.
        values = [float(f"{step}e{power}") for power in decades for step in steps]
        values = [value for value in values if low <= value <= high]
        if len(values) <= 8:
            break
    return {
        "type": "log",
        "range": [math.log10(low * factor), math.log10(high * factor)],
        "tickvals": [float(f"{value * factor:.6g}") for value in values],
        "ticktext": [plain_text(value, unit) for value in values],
    }


def quarter_decades(values: Iterable[float]) -> tuple[float, float]:
    """Ends of a logarithmic axis on quarters of a decade: it stays where it is while the values move a little."""
    positive = [value for value in values if value > 0] or [0.1, 1.0]
    low, high = math.log10(min(positive) / 1.1), math.log10(max(positive) * 1.1)
    return 10.0 ** (math.floor(low * 4) / 4), 10.0 ** (math.ceil(high * 4) / 4)


def draw_marks(layout: dict[str, Any], marks: Sequence[Mark], window: Window) -> None:
    """Add the marks to a figure over time: a tint over every marked stretch, and for each mark a line where it begins
    and a flag above the plot. The browser, which knows the width, puts flags together that would cover each other."""
    seen = [mark for mark in marks if mark.end >= window.start and mark.start <= window.end]
    for start, end, paint in _tints(seen):
        x0, x1 = milliseconds((max(start, window.start), min(end, window.end)))
        layout["shapes"].append(
            {"type": "rect", "name": "mark", "xref": "x", "x0": x0, "x1": x1, "yref": "paper", "y0": 0, "y1": 1,
             "fillcolor": translucent(paint, 0.1), "line": {"width": 0}, "layer": "below"}
        )  # fmt: skip
    for mark in seen:
        paint = colour(mark.colour)
        (x,) = milliseconds((max(mark.start, window.start),))
        if not mark.earlier:
            layout["shapes"].append(
                {"type": "line", "name": "mark", "xref": "x", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1,
                 "line": {"color": paint, "width": 1, "dash": "dot"}, "layer": "below"}
            )  # fmt: skip
        layout["annotations"].append(
            {"name": "mark", "text": as_text(mark.title), "hovertext": as_text(mark.text), "xref": "x", "x": x,
             "yref": "paper", "y": 1, "yanchor": "bottom", "showarrow": False, "font": {"size": 10, "color": paint},
             "captureevents": True}
        )  # fmt: skip


def _tints(marks: Sequence[Mark]) -> list[tuple[float, float, str]]:
    """Stretches that any mark covers, in the colour of the first: two alerts at once are no darker than one."""
    tints: list[tuple[float, float, str]] = []
    for mark in sorted(marks, key=lambda mark: mark.start):
        if tints and mark.start <= tints[-1][1]:
            start, end, paint = tints[-1]
            tints[-1] = (start, max(end, mark.end), paint)
        else:
            tints.append((mark.start, mark.end, colour(mark.colour)))
    return tints


def legend_of(panel: Panel, lines: Sequence[Line]) -> dict[str, Any]:
    """The legend: beside its colour and dash each line has its name and the numbers that the panel asks for."""
    options = mapping(panel.options, "legend")
    if options.get("showLegend") is False or string(options, "displayMode") == "hidden":
        return {}
    asked = options.get("calcs")
    calcs = [calc for calc in asked if isinstance(calc, str)] if isinstance(asked, list) else []
    # Somebody who looks from afar wants the present value: it is there unless the file asks for others.
    calcs = calcs or ["last"]
    entries = []
    for line in lines:
        if flag(mapping(line.field.custom, "hideFrom"), "legend"):
            continue
        reduced = [line.reduced(calc) for calc in calcs]
        entries.append(
            {
                "name": line.name,
                "colour": line.colour,
                "dash": dash_of(line.field),
                "values": []
                if _says_its_value(line)
                else ["–" if v is None else plain_text(v, line.field.unit, line.field.decimals) for v in reduced],
            }
        )
    return {
        "legend": {
            "calcs": [CALC_NAMES.get(calc, calc) for calc in calcs],
            "entries": entries,
            "place": "right" if string(options, "placement") == "right" else "bottom",
        }
    }


def as_text(text: str) -> str:
    """Plotly reads a few HTML tags in its texts; names of series and alerts are only text."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _says_its_value(line: Line) -> bool:
    """A constant such as "SLO 50 ms" has its value in its name."""
    return line.constant is not None and plain_text(line.constant, line.field.unit) in line.name


def dash_of(style: Field) -> str:
    fill = string(mapping(style.custom, "lineStyle"), "fill")
    return {"dash": "dash", "dot": "dot"}.get(fill, "solid")
