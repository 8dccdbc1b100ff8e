"""The plots of a search: p99 against throughput for every setting, goodput against batch size, the SLO's price."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, Literal

from loadtest.analysis.order import percentile_name
from loadtest.analysis.report.axes import Figure, Key, LatencyAxis, Rows, axis, figure, level, named
from loadtest.analysis.report.trade import Price, knee
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.frontier import Frontier
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Measured
from loadtest.analysis.words import interval_text, rate_text, seconds_text, setting_text

SHADES: Final = 8  # colours of batch sizes, from @batch0 to @batch7
_DASHES: Final = ("solid", "dash", "dot", "longdash")  # by wait, the shortest first
_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up")  # by policy, workers and runtime
_WIDE: Final = 12.0  # rates that span more than this factor are drawn on a logarithmic axis
_STEPS: Final = (1, 2, 5)
_RIGHT: Final = 0.17  # of the axis, kept free for words
_ROOM: Final = 0.14  # of the axis, below the points


@dataclass(frozen=True, slots=True)
class Looks:
    """How each setting is drawn: its batch by colour, its wait by dashes, all else by the shape of its points."""

    sizes: Sequence[int]
    waits: Sequence[float]
    families: Sequence[tuple[str, int | None, str | None]]

    @classmethod
    def of(cls, settings: Iterable[Knobs]) -> "Looks":
        settings = list(settings)
        return cls(
            sorted({knobs.max_batch_rows for knobs in settings}),
            sorted({knobs.max_wait_seconds for knobs in settings}),
            list(dict.fromkeys(knobs.family for knobs in settings)),
        )

    def color(self, max_batch_rows: int) -> str:
        place = self.sizes.index(max_batch_rows)
        if len(self.sizes) == 1:
            return f"batch{SHADES - 2}"
        steps = len(self.sizes) - 1
        return f"batch{round(place * (SHADES - 1) / steps)}"

    def dash(self, knobs: Knobs) -> str:
        return _DASHES[min(self.waits.index(knobs.max_wait_seconds), len(_DASHES) - 1)]

    def symbol(self, knobs: Knobs) -> str:
        return _SYMBOLS[self.families.index(knobs.family) % len(_SYMBOLS)]


def latency_by_throughput(found: Found) -> Figure:
    """One line per setting through its trials, each with its 95% interval; lost ones are at the top."""
    frontiers = [frontier for frontier in found.frontiers if frontier.valid()]
    trials = [trial for frontier in frontiers for trial in frontier.valid()]
    looks = Looks.of(frontier.knobs for frontier in frontiers)
    threshold, name = found.slo.threshold_seconds, percentile_name(found.slo.objective)
    marks = _marks(found)
    latency = _latency_axis(trials, threshold, room=bool(marks))
    rates = RateAxis([trial.achieved_rate for trial in trials], marked=found.rate)
    rows = Rows(440)
    last = [frontier for frontier in frontiers if frontier.knobs == found.knobs]
    others = [frontier for frontier in frontiers if frontier.knobs != found.knobs]
    traces = [
        trace
        for frontier in (*others, *last)
        for trace in _setting(frontier, looks, latency, name, chosen=frontier.knobs == found.knobs)
    ]
    return figure(
        _keys(looks, threshold, trials),
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


class RateAxis:
    """Requests per second: from zero, or logarithmic where the rates are far apart."""

    def __init__(self, rates: Sequence[float], marked: float | None = None) -> None:
        """There is room for a word to the right of the rate `marked`."""
        shown = [rate for rate in rates if rate > 0] or [1.0]
        self.low, self.high = min(shown) / 1.25, max(shown) * 1.12
        self.logarithmic = self.high / self.low > _WIDE
        if marked:
            room = (marked / self.low) ** (_RIGHT / (1 - _RIGHT)) if self.logarithmic else 1 / (1 - _RIGHT)
            self.high = max(self.high, marked * room)

    def layout(self, **options: Any) -> Figure:
        if not self.logarithmic:
            return axis(range=[0, self.high], tickformat=",~g", nticks=8, **options)
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


def _keys(looks: Looks, threshold: float, trials: Sequence[Measured]) -> list[Key]:
    keys = [Key("batch of at most")]
    keys += [Key(f"{size:,}", looks.color(size)) for size in looks.sizes]
    keys.append(Key(f"SLO {setting_text(threshold)}", "slo", "dash"))
    if any(trial.verdict == "FAIL" for trial in trials):
        keys.append(Key("hollow: the trial failed"))
    if len(looks.waits) > 1:
        waits = ", ".join(f"{dash} {setting_text(wait)}" for wait, dash in zip(looks.waits, _DASH_WORDS, strict=False))
        keys.append(Key(f"wait: {waits}"))
    if len(looks.families) > 1:
        families = ", ".join(
            f"{symbol.partition('-')[0]} {family_text(family)}"
            for family, symbol in zip(looks.families, _SYMBOLS, strict=False)
        )
        keys.append(Key(families))
    return keys


_DASH_WORDS: Final = ("solid", "dashed", "dotted", "long dashes")


def family_text(family: tuple[str, int | None, str | None]) -> str:
    """The part of a setting that is neither batch nor wait."""
    policy, workers, runtime = family
    told = [policy, *([] if workers is None else [f"{workers} worker{'' if workers == 1 else 's'}"])]
    return " ".join([*told, *([] if runtime is None else [runtime])])


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


def goodput_by_batch(found: Found) -> Figure:
    """The largest rate inside the objective for each batch size, of its best wait, up to the smallest that failed."""
    frontiers = [frontier for frontier in found.frontiers if frontier.valid()]
    looks = Looks.of(frontier.knobs for frontier in frontiers)
    rows = Rows(260)
    traces: list[Figure] = []
    for family in looks.families:
        bests = [
            best
            for size in looks.sizes
            if (best := _best(each for each in frontiers if each.knobs.family == family
                              and each.knobs.max_batch_rows == size)) is not None
        ]  # fmt: skip
        traces += _goodputs(bests, family, looks, found.knobs)
    most = max(rate for each in frontiers for rate in (each.passed_rate or 0.0, each.failed_rate or 0.0))
    keys = [
        Key("point: the largest rate that passed, requests/s"),
        Key("up to the smallest that failed", "offered", "block"),
    ]
    if any(frontier.passed_rate is None for frontier in frontiers):
        keys.append(Key("hollow: failed at the only rate tried"))
    return figure(
        keys,
        traces,
        rows.layout(
            xaxis=axis(
                type="log",
                title=named("largest batch, rows"),
                range=[math.log10(looks.sizes[0]) - 0.12, math.log10(looks.sizes[-1]) + 0.12],
                tickvals=looks.sizes,
                ticktext=[f"{size:,}" for size in looks.sizes],
                showgrid=False,
                minor={"ticks": "", "showgrid": False},
            ),
            yaxis=axis(range=[0, most * 1.15], tickformat=",~g", nticks=5),
            hovermode="closest",
        ),
    )


def _best(frontiers: Iterable[Frontier]) -> Frontier | None:
    return max(frontiers, key=lambda each: (each.passed_rate or 0.0, -(each.failed_rate or 0.0)), default=None)


def _goodputs(
    bests: Sequence[Frontier], family: tuple[str, int | None, str | None], looks: Looks, chosen: Knobs | None
) -> list[Figure]:
    symbol = _SYMBOLS[looks.families.index(family) % len(_SYMBOLS)]
    heights = [best.passed_rate or best.failed_rate or 0.0 for best in bests]
    colored = [(best, f"@{looks.color(best.knobs.max_batch_rows)}") for best in bests]
    return [
        {
            "type": "scatter",
            "mode": "markers+lines",
            "name": family_text(family),
            "x": [best.knobs.max_batch_rows for best in bests],
            "y": heights,
            "error_y": {
                "type": "data",
                "symmetric": False,
                "array": [
                    max((best.failed_rate or 0.0) - height, 0.0) for best, height in zip(bests, heights, strict=True)
                ],
                "arrayminus": [0.0] * len(bests),
                "color": "@offered",
                "thickness": 6,
                "width": 0,
            },
            "customdata": [_goodput_told(best) for best in bests],
            "hovertemplate": "%{customdata}<extra></extra>",
            "line": {"color": "@soft", "width": 1.25, "dash": "dot"},
            "marker": {
                "symbol": symbol,
                "size": [15 if best.knobs == chosen else 10 for best in bests],
                "color": ["@card" if best.passed_rate is None else color for best, color in colored],
                "line": {"color": [color for _, color in colored], "width": 2},
                "opacity": 1,
            },
            "cliponaxis": False,
        }
    ]


def _goodput_told(frontier: Frontier) -> str:
    passed, failed = frontier.passed_rate, frontier.failed_rate
    told = [f"<b>{escape(frontier.knobs.told())}</b>"]
    told += [] if passed is None else [f"passed {rate_text(passed)}/s"]
    told += [] if failed is None else [f"failed {rate_text(failed)}/s"]
    return "<br>".join(told)


def price_curve(prices: Sequence[Price], threshold_seconds: float) -> Figure:
    """The rate that is left under tighter and looser thresholds."""
    drawn = [price for price in prices if price.rate]
    rows = Rows(220)
    latency = LatencyAxis([price.threshold_seconds for price in prices], infinite=False)
    return figure(
        [Key("largest rate inside the threshold, requests/s", "served"), Key("the SLO", "slo", "dash")],
        [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": [price.threshold_seconds for price in drawn],
                "y": [price.rate for price in drawn],
                "customdata": [
                    f"{setting_text(price.threshold_seconds)}: <b>{rate_text(price.rate)}/s</b>" for price in drawn
                ],
                "hovertemplate": "%{customdata}<extra></extra>",
                "line": {"color": "@served", "width": 2.5},
                "marker": {"size": 7, "color": "@served"},
            }
        ],
        rows.layout(
            xaxis=latency.layout(title=named("threshold")),
            yaxis=axis(rangemode="tozero", tickformat=",~g", nticks=5),
            shapes=[level(threshold_seconds, "x")],
            hovermode="closest",
        ),
    )


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _middle(values: Sequence[float]) -> float:
    """The median; of two the geometric mean, as the axis is logarithmic."""
    ordered = sorted(values)
    return math.sqrt(ordered[(len(ordered) - 1) // 2] * ordered[len(ordered) // 2])
