"""The plots over the seconds of a run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from loadtest.analysis.report.axes import SIDES, Figure, Key, LatencyAxis, Rows, axis, figure, level, named
from loadtest.analysis.words import rate_text, seconds_text, setting_text

Column = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The columns of `series.over_time`, with the x of each bin."""

    columns: Mapping[str, Column]
    warmup_seconds: float

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> "Timeline":
        return cls(result["series"]["over_time"], result["warmup_seconds"])

    @property
    def edges(self) -> list[float]:
        return [edge for edge in self.columns["edges_seconds"] if edge is not None]

    @property
    def middles(self) -> list[float]:
        return [(a + b) / 2 for a, b in pairwise(self.edges)]

    @property
    def widths(self) -> list[float]:
        return [b - a for a, b in pairwise(self.edges)]

    def latency(self, name: str) -> list[float | None]:
        """Seconds, +∞ where so many were lost, None where nothing was offered."""
        offered = self.columns["offered_per_second"]
        return [
            math.inf if value is None and count else value
            for value, count in zip(self.columns[name], offered, strict=True)
        ]

    def has(self, name: str) -> bool:
        """Whether a column has anything but zeros."""
        return any(self.columns[name])

    def x_axis(self, **options: Any) -> Figure:
        return axis(
            title=named("seconds since the start"),
            range=[0, self.edges[-1]],
            showspikes=False,
            showgrid=False,
            unifiedhovertitle={"text": "<b>%{x:.4~g} s</b>"},
            **options,
        )

    def shade(self) -> list[Figure]:
        """The warm-up."""
        if not self.warmup_seconds:
            return []
        return [
            {
                "type": "rect",
                "xref": "x",
                "yref": "paper",
                "x0": 0,
                "x1": min(self.warmup_seconds, self.edges[-1]),
                "y0": 0,
                "y1": 1,
                "fillcolor": "@warm",
                "line": {"width": 0},
                "layer": "below",
            }
        ]

    def shade_key(self) -> list[Key]:
        return [Key("warm-up, not measured", "warmkey", "block")] if self.warmup_seconds else []


def latency_over_time(result: Mapping[str, Any]) -> Figure:
    """p50, p95, p99 and the mean, and under them what was offered and what was answered."""
    line, threshold = Timeline.of(result), result["slo"]["threshold_seconds"]
    columns = {name: line.latency(name) for name in ("p50", "p95", "p99")}
    mean = line.columns["mean"]
    latency = LatencyAxis(
        [s for column in (*columns.values(), mean) for s in column],
        infinite=any(s == math.inf for column in columns.values() for s in column),
        shown=[threshold],
    )
    rows = Rows(300, 130)
    words = [
        Key("p99", "p99"),
        Key("p95", "p95"),
        Key("mean of successes", "mean", "dash"),
        Key("p50", "p50"),
        Key(f"SLO {setting_text(threshold)}", "slo", "dash"),
        *line.shade_key(),
    ]
    return figure(
        words,
        [
            _latency_line("p50", columns["p50"], line, latency, {"color": "@p50", "width": 2}),
            _latency_line("mean of successes", mean, line, latency, {"color": "@mean", "width": 2, "dash": "dot"}),
            _latency_line("p95", columns["p95"], line, latency, {"color": "@p95", "width": 2}),
            _latency_line("p99", columns["p99"], line, latency, {"color": "@p99", "width": 3}),
            _line("offered", line.middles, line.columns["offered_per_second"], "y2", "@offered", 6),
            _line("completed", line.middles, line.columns["completed_per_second"], "y2", "@served", 2),
        ],
        rows.layout(
            xaxis=line.x_axis(anchor="y2"),
            yaxis=latency.layout(domain=list(rows.domain(0))),
            yaxis2=_count_axis(rows, 1),
            shapes=[*line.shade(), *latency.band(rows.domain(0), "y"), level(latency.place(threshold), "y")],
            annotations=[rows.heading(1, Key("per second:"), Key("offered", "offered"), Key("completed", "served"))],
            hovermode="x unified",
        ),
    )


def arrivals_over_time(result: Mapping[str, Any]) -> Figure:
    """What became of the arrivals: how many were due and sent, which were lost, and what was in flight."""
    line = Timeline.of(result)
    lost = line.has("failed_per_second") or line.has("dropped_per_second")
    rows = Rows(*([120, 100, 100, 90] if lost else [120, 100, 90]))
    flight, age = (2, 3) if lost else (1, 2)
    words = [Key("arrivals per second:"), Key("due", "offered"), Key("sent", "served"), *line.shade_key()]
    headings = [
        rows.heading(flight, Key("requests in flight")),
        rows.heading(age, Key("age of the oldest in flight, seconds")),
    ]
    data = [
        _line("due", line.middles, line.columns["offered_per_second"], "y", "@offered", 6),
        _line("sent", line.middles, line.columns["started_per_second"], "y", "@served", 2),
        _line("in flight", line.edges[1:], line.columns["in_flight"], f"y{flight + 1}", "@p50", 2, fill=True),
        _line("oldest", line.edges[1:], line.columns["oldest_in_flight_seconds"], f"y{age + 1}", "@mean", 2, fill=True)
        | {"hovertemplate": "%{y:.3~g} s"},
    ]
    if lost:
        headings.append(
            rows.heading(1, Key("lost per second:"), Key("failed", "late", "block"), Key("dropped", "lost", "block"))
        )
        data += [
            _bars("failed", line, line.columns["failed_per_second"], "y2", "@late"),
            _bars("dropped", line, line.columns["dropped_per_second"], "y2", "@lost"),
        ]
    return figure(
        words,
        data,
        rows.layout(
            xaxis=line.x_axis(anchor=f"y{age + 1}"),
            **{f"yaxis{row + 1 if row else ''}": _count_axis(rows, row) for row in range(age + 1)},
            barmode="stack",
            bargap=0,
            shapes=line.shade(),
            annotations=headings,
            hovermode="x unified",
        ),
    )


def lateness(result: Mapping[str, Any], limit_seconds: float) -> Figure:
    """How punctual the generator was."""
    line = Timeline.of(result)
    late = line.columns["lateness_p99"]
    latency = LatencyAxis([s for s in late if s is None or s >= 1e-6], infinite=False, shown=[limit_seconds])
    rows = Rows(150)
    words = [
        Key("lateness p99", "service"),
        Key(f"limit {setting_text(limit_seconds)}", "slo", "dash"),
        *line.shade_key(),
    ]
    return figure(
        words,
        [_latency_line("lateness p99", late, line, latency, {"color": "@service", "width": 2})],
        rows.layout(
            xaxis=line.x_axis(),
            yaxis=latency.layout(),
            shapes=[*line.shade(), level(limit_seconds, "y")],
            hovermode="x unified",
        ),
    )


def p99_of_both(results: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Figure:
    """p99 of two runs over the seconds of each, and what each completed."""
    lines = [Timeline.of(result) for result in results]
    columns = [line.latency("p99") for line in lines]
    thresholds = sorted({result["slo"]["threshold_seconds"] for result in results})
    latency = LatencyAxis(
        [s for column in columns for s in column],
        infinite=any(s == math.inf for column in columns for s in column),
        shown=thresholds,
    )
    rows = Rows(260, 120)
    words = [
        Key("p99:"),
        *(Key(name, color) for name, color in zip(names, SIDES, strict=True)),
        *(Key(f"SLO {setting_text(threshold)}", "slo", "dash") for threshold in thresholds),
    ]
    longest = max(lines, key=lambda line: line.edges[-1])
    data = [
        _latency_line(f"{name} p99", column, line, latency, {"color": f"@{color}", "width": 2.5})
        for name, color, line, column in zip(names, SIDES, lines, columns, strict=True)
    ]
    data += [
        _line(f"{name} completed", line.middles, line.columns["completed_per_second"], "y2", f"@{color}", 2)
        for name, color, line in zip(names, SIDES, lines, strict=True)
    ]
    return figure(
        words,
        data,
        rows.layout(
            xaxis=longest.x_axis(anchor="y2"),
            yaxis=latency.layout(domain=list(rows.domain(0))),
            yaxis2=_count_axis(rows, 1),
            shapes=[*latency.band(rows.domain(0), "y"), *(level(latency.place(t), "y") for t in thresholds)],
            annotations=[rows.heading(1, Key("completed per second"))],
            hovermode="x unified",
        ),
    )


def _latency_line(name: str, seconds: Column, line: Timeline, latency: LatencyAxis, style: Figure) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(seconds) == 1 else "lines",
        "name": escape(name),  # Plotly reads markup in its texts
        "x": line.middles,
        "y": [None if s is None else latency.place(s) for s in seconds],
        "customdata": [seconds_text(s) for s in seconds],
        "hovertemplate": "%{customdata}",
        "line": style,
        "xaxis": "x",
        "yaxis": "y",
    }


def _line(
    name: str, x: Sequence[float], values: Column, yaxis: str, color: str, width: float, *, fill: bool = False
) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(values) == 1 else "lines",
        "name": escape(name),  # Plotly reads markup in its texts
        "x": list(x),
        "y": list(values),
        "hovertemplate": "%{y:,.4~g}",
        "line": {"color": color, "width": width},
        "xaxis": "x",
        "yaxis": yaxis,
        **({"fill": "tozeroy", "fillcolor": f"{color}fill"} if fill else {}),
    }


def _bars(name: str, line: Timeline, values: Column, yaxis: str, color: str) -> Figure:
    return {
        "type": "bar",
        "name": escape(name),  # Plotly reads markup in its texts
        "x": line.middles,
        "width": line.widths,
        "y": [value or None for value in values],
        "customdata": [rate_text(value) for value in values],
        "hovertemplate": "%{customdata}",
        "marker": {"color": color, "line": {"width": 0}},
        "xaxis": "x",
        "yaxis": yaxis,
    }


def _count_axis(rows: Rows, row: int) -> Figure:
    return axis(domain=list(rows.domain(row)), rangemode="tozero", nticks=4, tickformat=",~g", anchor="x")
