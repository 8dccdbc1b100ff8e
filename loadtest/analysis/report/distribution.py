"""The plots of a distribution: latency against the share of arrivals, and a histogram."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Any, Final

from loadtest.analysis.order import percentile_name
from loadtest.analysis.report.axes import (
    SIDES,
    Figure,
    Key,
    LatencyAxis,
    Rows,
    TailAxis,
    axis,
    figure,
    level,
    named,
    tail,
)
from loadtest.analysis.report.telling import lost_share
from loadtest.analysis.words import count_text, seconds_text, setting_text, share_text

MARKED: Final[Mapping[float, str]] = {0.9: "top left", 0.99: "top left", 0.999: "bottom right"}
_GOOD, _LATE, _LOST = "@served", "@late", "@lost"


@dataclass(frozen=True, slots=True)
class TailLine:
    """One distribution: `[q, seconds]` ascending, None for +∞, and the exact share that is +∞."""

    name: str
    color: str
    points: Sequence[tuple[float, float | None]]
    lost_share: float = 0.0
    of: str = "arrivals"
    width: float = 2.0
    dash: str = "solid"
    marked: Mapping[float, str] = field(default_factory=dict)  # percentiles to write, and where beside the line


def tail_lines(result: Mapping[str, Any]) -> list[TailLine]:
    """Total time over all arrivals and, thin on top of it, service time."""
    points = result["series"]["curve"]
    total = [(q, seconds) for q, seconds, _ in points]
    service = [(q, seconds) for q, _, seconds in points if seconds is not None]
    return [
        TailLine("total time", "p99", total, lost_share(result), width=5, marked=MARKED),
        TailLine("service time", "service", service, of="replies", width=1.5),
    ]


def tail_lines_of_both(results: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[TailLine]:
    """Both runs in the colours of their side, service times thin and dotted on top."""
    service, total = [], []
    for result, name, color, place in zip(results, names, SIDES, ("top left", "bottom right"), strict=True):
        points, lost = result["series"]["curve"], lost_share(result)
        replies = [(q, served) for q, _, served in points if served is not None]
        arrivals = [(q, seconds) for q, seconds, _ in points]
        service.append(TailLine(f"{name}, service time", color, replies, of="replies", width=1.5, dash="dot"))
        total.append(TailLine(name, color, arrivals, lost, width=3.5, marked={0.99: place}))
    return [*total, *service]


def latency_by_share(lines: Sequence[TailLine], slo: Mapping[str, float]) -> Figure:
    """Latency against the share of arrivals, stretched towards the tail."""
    threshold, objective = slo["threshold_seconds"], slo["objective"]
    seconds = [s for line in lines for _, s in line.points if s is not None]
    latency = LatencyAxis(seconds, infinite=any(line.lost_share for line in lines), shown=[threshold])
    share = TailAxis(max((line.points[-1][0] for line in lines if line.points), default=0.999))
    rows = Rows(380)
    words = [
        *(Key(line.name, line.color, "line" if line.dash == "solid" else "dash") for line in lines),
        Key(f"SLO: {share_text(objective)} within {setting_text(threshold)}", "slo", "dash"),
    ]
    return figure(
        words,
        [trace for line in lines for trace in _tail_traces(line, latency, share)],
        rows.layout(
            xaxis=share.layout(title=named("share of arrivals")),
            yaxis=latency.layout(domain=[0, 1]),
            shapes=[*latency.band((0, 1), "y"), *_crossing(latency, share, threshold, objective)],
            hovermode="closest",
            hoverdistance=60,
        ),
    )


def _tail_traces(line: TailLine, latency: LatencyAxis, share: TailAxis) -> list[Figure]:
    name = escape(line.name)  # Plotly reads markup in its texts
    finite = [(q, s) for q, s in line.points if s is not None]
    x = [tail(q) for q, _ in finite]
    y = [latency.place(s) for _, s in finite]
    told = [f"{_share_of_arrivals(q)} of {line.of}<br>within <b>{seconds_text(s)}</b>" for q, s in finite]
    if line.lost_share:
        start = min(-math.log10(line.lost_share), share.end)
        lost = f"{share_text(line.lost_share)} of {line.of}<br>got no good answer: <b>∞</b>"
        x += [start, start, share.end]
        y += [y[-1] if y else latency.at_infinity, latency.at_infinity, latency.at_infinity]
        told += [lost] * 3
    traces: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": x,
            "y": y,
            "customdata": told,
            "hovertemplate": f"%{{customdata}}<extra>{name}</extra>",
            "line": {"color": f"@{line.color}", "width": line.width, "dash": line.dash},
        }
    ]
    if line.marked:
        by_q = {round(q, 9): s for q, s in line.points}
        marks = [(q, by_q[q]) for q in line.marked if q in by_q]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "name": "percentiles",
                "x": [tail(q) for q, _ in marks],
                "y": [latency.place(math.inf if s is None else s) for _, s in marks],
                "text": [f"<b>{percentile_name(q)} {'∞' if s is None else seconds_text(s)}</b>" for q, s in marks],
                "textposition": ["bottom right" if s is None else line.marked[q] for q, s in marks],
                "textfont": {"color": "@ink", "size": 12},
                "marker": {"size": 9, "color": f"@{line.color}", "line": {"color": "@card", "width": 2}},
                "hoverinfo": "skip",
                "cliponaxis": False,
            }
        )
    return traces


def _share_of_arrivals(q: float) -> str:
    return f"{math.floor(q * 1e6) / 1e4:g}%"


def _crossing(latency: LatencyAxis, share: TailAxis, threshold: float, objective: float) -> list[Figure]:
    """The SLO as two lines: the curve must pass below the point in which they cross."""
    line = {"color": "@slo", "width": 1.5, "dash": "dash"}
    x, y = tail(objective), latency.place(threshold)
    return [
        {"type": "line", "xref": "x", "yref": "y", "x0": 0, "x1": share.end, "y0": y, "y1": y, "line": line},
        {"type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": line},
    ]


def histogram(result: Mapping[str, Any]) -> Figure:
    """How many successes took how long, and the lost ones beside them; both axes logarithmic."""
    told, threshold = result["series"]["histogram"], result["slo"]["threshold_seconds"]
    edges, counts, lost = told["edges_seconds"], told["counts"], told["lost"]
    latency = LatencyAxis(edges, infinite=lost > 0, shown=[threshold])
    most = max([*counts, lost, 10])
    rows = Rows(240)
    words = [Key("arrivals:"), Key("within the SLO", "served", "block"), Key("later", "late", "block")]
    data: list[Figure] = [
        {
            "type": "bar",
            "name": "arrivals",
            "x": [(low + high) / 2 for low, high in pairwise(edges)],
            "width": [high - low for low, high in pairwise(edges)],
            "y": [count or None for count in counts],
            "customdata": [
                f"{seconds_text(low)} to {seconds_text(high)}<br><b>{count_text(count)}</b> arrivals"
                for low, high, count in zip(edges, edges[1:], counts, strict=False)
            ],
            "hovertemplate": "%{customdata}<extra></extra>",
            "marker": {
                "color": [_GOOD if math.sqrt(low * high) <= threshold else _LATE for low, high in pairwise(edges)],
                "line": {"width": 1, "color": "@card"},
            },
        }
    ]
    if lost:
        words.append(Key("no good answer", "lost", "block"))
        span = (latency.end / latency.top) ** 0.25
        data.append(
            {
                "type": "bar",
                "name": "lost",
                "x": [(latency.at_infinity / span + latency.at_infinity * span) / 2],
                "width": [latency.at_infinity * span - latency.at_infinity / span],
                "y": [lost],
                "text": [count_text(lost)],
                "textposition": "outside",
                "textfont": {"color": "@ink"},
                "cliponaxis": False,
                "hovertemplate": f"<b>{count_text(lost)}</b> arrivals without a good answer<extra></extra>",
                "marker": {"color": _LOST},
            }
        )
    words.append(Key(f"SLO {setting_text(threshold)}", "slo", "dash"))
    ticks = [10**power for power in range(0, 9) if 10**power <= most * 2]
    return figure(
        words,
        data,
        rows.layout(
            xaxis=latency.layout(most=6, tickangle=0, title=named("total time")),
            yaxis=axis(
                type="log",
                range=[math.log10(0.6), math.log10(most * 2)],
                tickvals=ticks,
                ticktext=[count_text(tick) for tick in ticks],
            ),
            shapes=[*latency.band((0, 1), "x"), level(threshold, "x")],
            barmode="overlay",
            hovermode="closest",
        ),
    )
