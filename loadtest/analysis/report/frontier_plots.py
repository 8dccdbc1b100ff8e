"""The picture of a search: p99 against throughput for every setting."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Final, Literal

from loadtest.analysis.order import percentile_name
from loadtest.analysis.report.axes import Figure, LatencyAxis, Rows, axis, figure, level, named
from loadtest.analysis.report.looks import Looks, keys
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.frontier import Frontier
from loadtest.analysis.tuner.trial import Measured
from loadtest.analysis.words import interval_text, rate_text, seconds_text

_WIDE: Final = 12.0  # rates that span more than this factor are drawn on a logarithmic axis
_STEPS: Final = (1, 2, 5)
_RIGHT: Final = 0.2  # of the axis, kept free for words
_SPAN: Final = 2.0  # of rates among which a bend can be seen
_ROOM: Final = 0.14  # of the axis, below the points


def latency_by_throughput(found: Found, near: float | None = None) -> Figure:
    """One line per setting through its trials, each with its 95% interval; lost ones are at the top.

    With `near` only those within that factor of the answer's rate.
    """
    frontiers = [frontier for frontier in _kept(found, near) if frontier.valid()]
    trials = [trial for frontier in frontiers for trial in frontier.valid()]
    looks = Looks.of(frontier.knobs for frontier in frontiers)
    threshold, name = found.slo.threshold_seconds, percentile_name(found.slo.objective)
    marks = _marks(found) if near is None else _marks(found)[:1]
    latency = _latency_axis(trials, threshold, room=bool(marks))
    rates = RateAxis([trial.achieved_rate for trial in trials], marked=found.rate, from_zero=near is None)
    rows = Rows(440)
    last = [frontier for frontier in frontiers if frontier.knobs == found.knobs]
    others = [frontier for frontier in frontiers if frontier.knobs != found.knobs]
    traces = [
        trace
        for frontier in (*others, *last)
        for trace in _setting(frontier, looks, latency, name, chosen=frontier.knobs == found.knobs)
    ]
    return figure(
        keys(looks, threshold, trials),
        [*traces, *(mark.point(latency) for mark in marks)],
        rows.layout(
            xaxis=rates.layout(title=named("offered load, requests per second")),
            yaxis=latency.layout(domain=[0, 1]),
            shapes=[*latency.band((0, 1), "y"), level(threshold, "y"), *(mark.fall(latency) for mark in marks)],
            annotations=[mark.words(rates) for mark in marks],
            hovermode="closest",
            hoverdistance=40,
        ),
    )


def _latency_axis(trials: Sequence[Measured], threshold: float, *, room: bool) -> LatencyAxis:
    """With `room` under the lowest point for a word or two."""
    finite = [trial.p99 for trial in trials if math.isfinite(trial.p99)]
    lost = len(finite) < len(trials)
    low, high = min([*finite, threshold]), max([*finite, threshold])
    return LatencyAxis(finite, infinite=lost, shown=[threshold, *([low * (low / high) ** _ROOM] if room else [])])


def _kept(found: Found, near: float | None) -> list[Frontier]:
    if near is None or found.rate is None:
        return found.frontiers
    low, high = found.rate / near, found.rate * near
    return [
        replace(frontier, trials=tuple(trial for trial in frontier.trials if low <= trial.rate <= high))
        for frontier in found.frontiers
    ]


class RateAxis:
    """Requests per second: from zero, or logarithmic where the rates are far apart."""

    def __init__(self, rates: Sequence[float], marked: float | None = None, *, from_zero: bool = True) -> None:
        """There is room for a word to the right of the rate `marked`."""
        shown = [rate for rate in rates if rate > 0] or [1.0]
        self.low, self.high = min(shown) / 1.25, max(shown) * 1.12
        self.logarithmic = self.high / self.low > _WIDE
        self.start = 0.0
        if not from_zero:
            margin = (max(shown) - min(shown)) * 0.06 or 0.05 * max(shown)
            self.start, self.high = min(shown) - margin, max(shown) + margin
            return
        if marked:
            room = (marked / self.low) ** (_RIGHT / (1 - _RIGHT)) if self.logarithmic else 1 / (1 - _RIGHT)
            self.high = max(self.high, marked * room)

    def layout(self, **options: Any) -> Figure:
        if not self.logarithmic:
            return axis(range=[self.start, self.high], tickformat=",~g", nticks=8, **options)
        ticks = [s * 10.0**p for p in range(-3, 8) for s in _STEPS if self.low <= s * 10.0**p <= self.high]
        return axis(
            type="log",
            range=[math.log10(self.low), math.log10(self.high)],
            tickvals=ticks,
            ticktext=[rate_text(tick) for tick in ticks],
            minor={"ticks": "", "showgrid": False},
            **options,
        )

    def place(self, rate: float) -> float:
        """Where an annotation must be put: on a logarithmic axis Plotly wants the exponent."""
        return math.log10(rate) if self.logarithmic else rate


def _setting(frontier: Frontier, looks: Looks, latency: LatencyAxis, name: str, *, chosen: bool) -> list[Figure]:
    """A line through the middle of each rate, and the trials as points."""
    color = f"@{looks.color(frontier.knobs.max_batch_rows)}"
    tried = frontier.tried()
    line = {
        "type": "scatter",
        "mode": "lines",
        "x": [_mean(trial.achieved_rate for trial in trials) for _, trials in tried],
        "y": [_middle([latency.place(trial.p99) for trial in trials]) for _, trials in tried],
        "hoverinfo": "skip",
        "line": {"color": color, "width": 3.5 if chosen else 1.75, "dash": looks.dash(frontier.knobs)},
    }
    trials = frontier.valid()
    symbol = looks.symbol(frontier.knobs)
    ends = [_interval(trial, latency) for trial in trials]
    points = {
        "type": "scatter",
        "mode": "markers",
        "name": escape(frontier.knobs.told()),
        "x": [trial.achieved_rate for trial in trials],
        "y": [latency.place(trial.p99) for trial in trials],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [high for _, high in ends],
            "arrayminus": [low for low, _ in ends],
            "color": color,
            "thickness": 1.25,
            "width": 0,
        },
        "customdata": [_told(trial, name) for trial in trials],
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {
            "symbol": [symbol] * len(trials),
            "size": 9 if chosen else 7,
            "color": ["@card" if trial.verdict == "FAIL" else color for trial in trials],
            "line": {"color": color, "width": 1.75},
        },
        "cliponaxis": False,
    }
    return [line, points]


def _interval(trial: Measured, latency: LatencyAxis) -> tuple[float, float]:
    """Down and up from the point; up into the band where the interval has no end, nothing where the point is lost."""
    if math.isinf(trial.p99):
        return 0.0, 0.0
    low, high = trial.p99_interval
    return max(trial.p99 - max(low, latency.bottom), 0.0), max(latency.place(high) - trial.p99, 0.0)


def _told(trial: Measured, name: str) -> str:
    return (
        f"<b>{escape(trial.ask.knobs.told())}</b><br>{rate_text(trial.rate)}/s: {name} <b>{seconds_text(trial.p99)}</b>"
        f"{'' if math.isinf(trial.p99) else f' ({interval_text(*_ends(trial))})'}<br>"
        f"{trial.verdict}, {rate_text(trial.good_rate)}/s good, seed {trial.ask.seed}"
    )


def _ends(trial: Measured) -> tuple[float | None, float | None]:
    low, high = trial.p99_interval
    return low, None if math.isinf(high) else high


@dataclass(frozen=True, slots=True)
class _Mark:
    """A point with a word: a dotted line falls from it to its rate, and the word stands beside its foot."""

    what: str
    rate: float
    p99: float
    symbol: str
    side: Literal["left", "right"]

    def point(self, latency: LatencyAxis) -> Figure:
        return {
            "type": "scatter",
            "mode": "markers",
            "name": self.what,
            "x": [self.rate],
            "y": [latency.place(self.p99)],
            "marker": {"symbol": self.symbol, "size": 19, "color": "@ink", "line": {"color": "@ink", "width": 2.5}},
            "hoverinfo": "skip",
            "cliponaxis": False,
        }

    def fall(self, latency: LatencyAxis) -> Figure:
        line = {"color": "@ink", "width": 1.25, "dash": "dot"}
        span = {"x0": self.rate, "x1": self.rate, "y0": latency.bottom, "y1": latency.place(self.p99)}
        return {"type": "line", "xref": "x", "yref": "y", **span, "line": line}

    def words(self, rates: "RateAxis") -> Figure:
        return {
            "x": rates.place(self.rate),
            "y": 0,
            "xref": "x",
            "yref": "paper",
            "xanchor": "right" if self.side == "left" else "left",
            "xshift": -4 if self.side == "left" else 4,
            "yanchor": "bottom",
            "align": "right" if self.side == "left" else "left",
            "showarrow": False,
            "text": f"<b>{self.what}</b><br>{rate_text(self.rate)}/s",
            "font": {"size": 12, "color": "@ink"},
        }


def knee(frontier: Frontier) -> Measured | None:
    """The trial with the most throughput per latency, rate/p99: below it load is nearly free, above it the tail pays.

    Kleinrock's power with the tail in place of the mean (L. Kleinrock, "Power and deterministic rules of thumb for
    probabilistic problems in computer communications", ICC 1979). None with fewer than three rates, or all of
    them close together: no bend is seen.
    """
    rates = [rate for rate, _ in frontier.tried()]
    if len(rates) < 3 or rates[-1] < _SPAN * rates[0]:
        return None
    trials = [trial for trial in frontier.valid() if trial.verdict == "PASS" and 0 < trial.p99 < math.inf]
    return max(trials, key=lambda trial: trial.rate / trial.p99, default=None)


def _marks(found: Found) -> list[_Mark]:
    """The rate that was chosen, and the knee of its setting below it."""
    if found.rate is None:
        return []
    marks = [_Mark("chosen" if found.confirmed else "best", found.rate, _highest(found), "circle-open", "right")]
    bend = None if found.frontier is None else knee(found.frontier)
    if bend is not None and bend.rate < found.rate * 0.97:
        marks.append(_Mark("knee", bend.achieved_rate, bend.p99, "diamond-open", "left"))
    return marks


def _highest(found: Found) -> float:
    """The percentile at the answer, the highest of those that were measured there."""
    trials = found.confirmations or tuple(
        trial
        for trial in found.trials
        if trial.ask.knobs == found.knobs and trial.rate == found.rate and trial.verdict == "PASS"
    )
    return max((trial.p99 for trial in trials), default=found.slo.threshold_seconds)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _middle(values: Sequence[float]) -> float:
    """The median; of two the geometric mean, as the axis is logarithmic."""
    ordered = sorted(values)
    return math.sqrt(ordered[(len(ordered) - 1) // 2] * ordered[len(ordered) // 2])
