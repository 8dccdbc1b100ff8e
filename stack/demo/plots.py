"""The report's two plots as Plotly figures in plain JSON.

Colours are names such as "@p99", which the page replaces by those of its light or dark theme. A latency that is no
number is drawn in a band at the top that says so, never left out.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from stack.demo.record import Figures, RampPoint, Record
from stack.demo.telling import Event, events
from stack.demo.words import quantile_name, rate_text, rows_name, rows_text, seconds_text

Figure = dict[str, Any]

_TICKS_MS: Final = tuple(step * 10**power for power in range(-1, 5) for step in (1, 2, 5))
_RATE_TICKS: Final = tuple(step * 10**power for power in range(0, 6) for step in (1, 2, 5))
_BATCH_COLORS: Final = ("@batch0", "@batch1", "@batch2", "@batch3")
_HEADROOM: Final = 1.9  # the band for infinity, as a factor on a logarithmic axis


class _LatencyAxis:
    """A logarithmic axis in milliseconds, with a band above `top` for what is no number."""

    def __init__(self, seconds: Sequence[float | None], threshold_seconds: float) -> None:
        finite = [s * 1000 for s in seconds if s is not None and math.isfinite(s) and s > 0]
        threshold = threshold_seconds * 1000
        self.infinite = any(s is not None and math.isinf(s) for s in seconds)
        self.bottom = min([*finite, threshold]) / 1.5
        self.top = max([*finite, threshold]) * 1.6
        self.end = self.top * _HEADROOM if self.infinite else self.top
        self.at_infinity = math.sqrt(self.top * self.end)

    def place(self, seconds: float | None) -> float | None:
        """Where a latency is drawn, in milliseconds."""
        if seconds is None:
            return None
        return self.at_infinity if math.isinf(seconds) else max(seconds * 1000, self.bottom)

    def share(self, milliseconds: float) -> float:
        """Height as a share of the axis."""
        return math.log(milliseconds / self.bottom) / math.log(self.end / self.bottom)

    def layout(self, domain: tuple[float, float]) -> Figure:
        ticks = [tick for tick in _TICKS_MS if self.bottom <= tick <= self.top]
        texts = [f"{tick:g} ms" if tick < 1000 else f"{tick / 1000:g} s" for tick in ticks]
        if self.infinite:
            ticks, texts = [*ticks, self.at_infinity], [*texts, "∞"]
        return _axis(
            type="log",
            range=[math.log10(self.bottom), math.log10(self.end)],
            domain=list(domain),
            tickvals=ticks,
            ticktext=texts,
        )

    def band(self, domain: tuple[float, float]) -> list[Figure]:
        """The shaded band for infinity."""
        if not self.infinite:
            return []
        low, high = domain
        return [
            {
                "type": "rect",
                "xref": "paper",
                "yref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": low + (high - low) * self.share(self.top),
                "y1": high,
                "fillcolor": "@band",
                "line": {"width": 0},
                "layer": "below",
            }
        ]


def over_time(record: Record) -> Figure:
    """Latency over the experiment with numbered marks for what happened, and the rates under it on the same axis."""
    figures = record.series
    axis = _LatencyAxis(
        [value for f in figures for value in (f.mean, f.p50, f.p95, f.p99)], record.slo.threshold_seconds
    )
    upper, lower = (0.34, 1.0), (0.0, 0.24)
    times = [f.end for f in figures]
    last = max(times, default=1.0)
    marks = events(record)
    return {
        "data": [
            _latency_line("p50", times, [(f.p50, f.p50_text) for f in figures], axis, "@p50"),
            _latency_line("mean, answered", times, [(f.mean, seconds_text(f.mean)) for f in figures], axis, "@mean")
            | {"line": {"color": "@mean", "width": 2, "dash": "dot"}},
            _latency_line("p95", times, [(f.p95, f.p95_text) for f in figures], axis, "@p95"),
            _latency_line("p99", times, [(f.p99, f.p99_text) for f in figures], axis, "@p99")
            | {"line": {"color": "@p99", "width": 3}},
            _slo_line(record, [0, last]),
            _rate_line("offered", times, figures, "@offered")
            | {"line": {"color": "@offered", "width": 6}},  # seen behind what is served, where the two are one
            _rate_line("served", times, figures, "@served"),
        ],
        "layout": _layout(
            xaxis=_axis(
                title={"text": "seconds since the load was started"},
                range=[0, last],
                anchor="y2",
                showspikes=False,
                unifiedhovertitle={"text": "<b>%{x:.0f} s</b>"},
            ),
            yaxis=axis.layout(upper) | {"title": {"text": "latency"}},
            yaxis2=_axis(
                title={"text": "requests/s"},
                domain=list(lower),
                rangemode="tozero",
                anchor="x",
                nticks=4,
                tickformat=",d",
            ),
            shapes=[*axis.band(upper), *(_mark_line(mark) for mark in marks)],
            annotations=_mark_numbers(marks, last),
            hovermode="x unified",
        ),
    }


def against_throughput(record: Record) -> Figure:
    """p99 against what was served, one line per batch size in the order of the offered rates."""
    points = [point for size in record.batch_sizes() for point in record.points(size)]
    axis = _LatencyAxis([point.figures.p99 for point in points], record.slo.threshold_seconds)
    served = [max(point.figures.served_rps, 1.0) for point in points]
    low, high = min(served, default=1.0) / 1.3, max(served, default=1.0) * 1.35
    ticks = [tick for tick in _RATE_TICKS if low <= tick <= high]
    return {
        "data": [
            *(
                _batch_line(size, record.points(size), record.largest_met(size), axis, color)
                for size, color in zip(record.batch_sizes(), _BATCH_COLORS, strict=False)
            ),
            _slo_line(record, [low, high]),
        ],
        "layout": _layout(
            xaxis=_axis(
                title={"text": "served requests/s"},
                type="log",
                range=[math.log10(low), math.log10(high)],
                tickvals=ticks,
                ticktext=[rate_text(tick) for tick in ticks],
            ),
            yaxis=axis.layout((0.0, 1.0)) | {"title": {"text": "p99"}},
            shapes=axis.band((0.0, 1.0)),
            hovermode="closest",
            margin={"l": 64, "r": 16, "t": 16, "b": 48},
        ),
    }


def _latency_line(
    name: str, times: Sequence[float], values: Sequence[tuple[float | None, str]], axis: _LatencyAxis, color: str
) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(times),
        "y": [axis.place(seconds) for seconds, _ in values],
        "customdata": [text for _, text in values],
        "hovertemplate": "%{customdata}",
        "line": {"color": color, "width": 2},
        "xaxis": "x",
        "yaxis": "y",
    }


def _rate_line(name: str, times: Sequence[float], figures: Sequence[Figures], color: str) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{name} requests/s",
        "x": list(times),
        "y": [f.offered_rps if name == "offered" else f.served_rps for f in figures],
        "hovertemplate": "%{y:,.0f}/s",
        "line": {"color": color, "width": 2},
        "xaxis": "x",
        "yaxis": "y2",
    }


def _slo_line(record: Record, ends: Sequence[float]) -> Figure:
    threshold = record.slo.threshold_seconds
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"SLO: {quantile_name(record.slo.objective)} ≤ {seconds_text(threshold)}",
        "x": list(ends),
        "y": [threshold * 1000] * len(ends),
        "line": {"color": "@slo", "width": 1.5, "dash": "dash"},
        "hoverinfo": "skip",
    }


def _batch_line(
    size: int, points: Sequence[RampPoint], best: RampPoint | None, axis: _LatencyAxis, color: str
) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines+markers+text",
        "name": f"max batch: {rows_name(size)}",
        "x": [max(point.figures.served_rps, 1.0) for point in points],
        "y": [axis.place(point.figures.p99) for point in points],
        "text": [f"<b>{rate_text(point.figures.served_rps)}/s</b>" if point is best else "" for point in points],
        "textposition": "bottom right",
        "textfont": {"color": color, "size": 13},
        "customdata": [
            f"offered {rate_text(f.offered_rps)}/s, served {rate_text(f.served_rps)}/s<br>p99 {f.p99_text}, "
            f"mean {seconds_text(f.mean)}<br>batches of {rows_text(f.mean_batch_rows)} rows"
            for f in (point.figures for point in points)
        ],
        "hovertemplate": "%{customdata}",
        "line": {"color": color, "width": 2.5},
        "marker": {
            "size": 9,
            "color": [color if point.figures.slo_met else "@card" for point in points],
            "line": {"color": color, "width": 2},
        },
        "cliponaxis": False,
    }


def _mark_line(mark: Event) -> Figure:
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": mark.at,
        "x1": mark.at,
        "y0": 0,
        "y1": 1,
        "line": {"color": "@mark", "width": 1},
        "layer": "below",
    }


def _mark_numbers(marks: Sequence[Event], last: float) -> list[Figure]:
    """Numbers above the plot; those too close to be read side by side go up a row."""
    placed: list[Figure] = []
    row_ends: list[float] = []
    for number, mark in enumerate(marks, start=1):
        row = next((row for row, end in enumerate(row_ends) if mark.at - end >= 0.06 * last), len(row_ends))
        row_ends[row : row + 1] = [mark.at]
        placed.append(
            {
                "x": mark.at,
                "y": 1,
                "xref": "x",
                "yref": "paper",
                "yanchor": "bottom",
                "yshift": 3 + 23 * row,
                "showarrow": False,
                "text": f"<b>{number}</b>",
                "font": {"color": "@card", "size": 11},
                "bgcolor": f"@{mark.kind}",
                "borderpad": 3,
                "hovertext": f"{mark.at:.1f} s: {mark.text}",
            }
        )
    return placed


def _axis(**options: Any) -> Figure:
    return {
        "gridcolor": "@grid",
        "linecolor": "@grid",
        "zerolinecolor": "@grid",
        "tickfont": {"color": "@soft"},
        "automargin": True,
        **options,
    }


def _layout(**options: Any) -> Figure:
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "@ink", "family": "system-ui, sans-serif", "size": 13},
        "legend": {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"},
        "hoverlabel": {"bgcolor": "@card", "bordercolor": "@grid", "font": {"color": "@ink"}},
        "margin": {"l": 64, "r": 16, "t": 76, "b": 48},
        **options,
    }
