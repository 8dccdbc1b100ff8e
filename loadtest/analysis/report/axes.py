"""Axes of a report's plots: logarithmic latency with a place for +∞, shares stretched towards the tail, rows.

Figures are Plotly's in plain JSON. Colours are names such as "@p99", which the page replaces by those of its theme.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from loadtest.analysis.words import INFINITE, setting_text

Figure = dict[str, Any]

SIDES: Final = ("one", "two")  # colours of two runs side by side
_SECONDS_TICKS: Final = tuple(step * 10.0**power for power in range(-6, 5) for step in (1, 2, 5))
_SHARE_TICKS: Final = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999)
_MARKS: Final = {"line": "━", "dash": "┅", "block": "■"}
_TOP: Final = 10  # pixels above a plot
_NARROWEST: Final = 6.0  # a latency axis spans at least this factor, so that noise does not look like news


class LatencyAxis:
    """A logarithmic axis in seconds; if anything on it is infinite, with a band at its end for that."""

    def __init__(self, seconds: Iterable[float | None], *, infinite: bool, shown: Sequence[float] = ()) -> None:
        """From the finite latencies to draw and other values that must be in sight, such as the SLO."""
        values = [s for s in (*seconds, *shown) if s is not None and 0 < s < math.inf] or [0.001, 0.01]
        low, high = min(values) / 1.25, max(values) * 1.3
        stretch = max(math.sqrt(_NARROWEST / (high / low)), 1.0)
        self.bottom, self.top = low / stretch, high * stretch
        self.infinite = infinite
        self.end = self.top * (self.top / self.bottom) ** 0.13 if infinite else self.top
        self.at_infinity = math.sqrt(self.top * self.end)

    def place(self, seconds: float) -> float:
        """Where a latency is drawn."""
        return self.at_infinity if math.isinf(seconds) else max(seconds, self.bottom)

    def layout(self, most: int = 9, **options: Any) -> Figure:
        """With more than `most` ticks only the powers of ten are left."""
        ticks = [tick for tick in _SECONDS_TICKS if self.bottom <= tick <= self.top]
        if len(ticks) > most:
            ticks = [tick for tick in ticks if math.log10(tick).is_integer()]
        texts = [setting_text(tick) for tick in ticks]
        if self.infinite:
            ticks, texts = [*ticks, self.at_infinity], [*texts, f"<b>{INFINITE}</b>"]
        return axis(
            type="log",
            range=[math.log10(self.bottom), math.log10(self.end)],
            tickvals=ticks,
            ticktext=texts,
            minor={"ticks": "", "showgrid": False},
            **options,
        )

    def band(self, domain: tuple[float, float], across: str) -> list[Figure]:
        """The shaded band for infinity over a domain of the paper; `across` is the axis' own letter, x or y."""
        if not self.infinite:
            return []
        other = "y" if across == "x" else "x"
        share = math.log(self.top / self.bottom) / math.log(self.end / self.bottom)
        low, high = domain
        return [
            {
                "type": "rect",
                "xref": "paper",
                "yref": "paper",
                f"{across}0": low + (high - low) * share,
                f"{across}1": high,
                f"{other}0": 0,
                f"{other}1": 1,
                "fillcolor": "@band",
                "line": {"width": 0},
                "layer": "below",
            }
        ]


class TailAxis:
    """Shares of arrivals, stretched towards 1: equal steps from 90% to 99% to 99.9%."""

    def __init__(self, last: float) -> None:
        """From 0 to the share `last`, below 1."""
        self.end = max(tail(last), tail(0.99) * 1.1)

    def layout(self, **options: Any) -> Figure:
        ticks = [q for q in _SHARE_TICKS if tail(q) <= self.end]
        return axis(
            range=[0, self.end],
            tickvals=[tail(q) for q in ticks],
            ticktext=[f"{q * 100:.10g}%" for q in ticks],
            **options,
        )


def tail(q: float) -> float:
    """Where a share is drawn on a `TailAxis`: −log₁₀(1−q)."""
    return -math.log10(1 - q)


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of a legend: a mark in a colour of the page, and words."""

    name: str
    color: str = ""
    mark: Literal["line", "dash", "block"] = "line"


class Rows:
    """Plots one above another over the same x axis; each but the first has a line of words above it."""

    def __init__(self, *pixels: int, heading: int = 34, foot: int = 46) -> None:
        self._drawn = sum(pixels) + heading * (len(pixels) - 1)
        self._heading, self._foot, self._pixels = heading, foot, pixels

    def domain(self, row: int) -> tuple[float, float]:
        """Lower and upper end of a row in shares of the plot's area; row 0 is on top."""
        above = sum(self._pixels[:row]) + self._heading * row
        top = 1 - above / self._drawn
        return max(top - self._pixels[row] / self._drawn, 0.0), top

    def heading(self, row: int, *keys: Key) -> Figure:
        """Words above a row."""
        return {
            "x": 0,
            "y": self.domain(row)[1],
            "xref": "paper",
            "yref": "paper",
            "xanchor": "left",
            "yanchor": "bottom",
            "yshift": 5,
            "align": "left",
            "showarrow": False,
            "text": "&nbsp;&nbsp; ".join(_heading_text(key) for key in keys),
        }

    def layout(self, **options: Any) -> Figure:
        return {
            "height": self._drawn + _TOP + self._foot,
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": "@ink", "family": "system-ui, sans-serif", "size": 13},
            "showlegend": False,
            "hoverlabel": {"bgcolor": "@card", "bordercolor": "@grid", "font": {"color": "@ink"}},
            "margin": {"l": 58, "r": 12, "t": _TOP, "b": self._foot},
            **options,
        }


def figure(keys: Sequence[Key], data: Sequence[Figure], layout: Figure) -> Figure:
    """A plot with the legend that the page writes above it."""
    return {"keys": [asdict(key) for key in keys], "data": list(data), "layout": layout}


def named(title: str) -> Figure:
    """The title of an axis."""
    return {"text": title, "font": {"size": 12, "color": "@soft"}, "standoff": 8}


def axis(**options: Any) -> Figure:
    """An axis in the report's colours."""
    return {
        "gridcolor": "@grid",
        "linecolor": "@grid",
        "zeroline": False,
        "tickfont": {"color": "@soft"},
        "fixedrange": True,  # a page that is scrolled on a phone must not zoom
        **options,
    }


def level(value: float, across: str) -> Figure:
    """A dashed line at a value of the first axis `across`, through the whole plot."""
    other = "y" if across == "x" else "x"
    span = {f"{other}ref": "paper", f"{other}0": 0, f"{other}1": 1}
    line = {"color": "@slo", "width": 1.5, "dash": "dash"}
    return {"type": "line", f"{across}ref": across, f"{across}0": value, f"{across}1": value, **span, "line": line}


def _heading_text(key: Key) -> str:
    return f'<span style="color:@{key.color}"><b>{_MARKS[key.mark]}</b></span> {key.name}' if key.color else key.name
