"""The plots of what is carried inside an SLO: by batch size, and by how tight the SLO is."""

import math
from collections.abc import Iterable, Sequence
from html import escape

from loadtest.analysis.report.axes import Figure, Key, LatencyAxis, Rows, axis, figure, level, named
from loadtest.analysis.report.looks import Looks, family_text
from loadtest.analysis.report.prices import Price
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.frontier import Frontier
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.words import rate_text, setting_text


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
        keys.append(Key("hollow: failed there, its own is somewhere below"))
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
    heights = [best.passed_rate or best.failed_rate or 0.0 for best in bests]
    colored = [(best, f"@{looks.color(best.knobs.max_batch_rows)}") for best in bests]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": family_text(family),
            "x": [best.knobs.max_batch_rows for best in bests],
            "y": heights,
            "error_y": {
                "type": "data",
                "symmetric": False,
                "array": [
                    max((best.failed_rate or 0.0) - height, 0.0) for best, height in zip(bests, heights, strict=True)
                ],
                "arrayminus": [
                    height if best.passed_rate is None else 0.0 for best, height in zip(bests, heights, strict=True)
                ],
                "color": "@offered",
                "thickness": 6,
                "width": 0,
            },
            "customdata": [_goodput_told(best) for best in bests],
            "hovertemplate": "%{customdata}<extra></extra>",
            "marker": {
                "symbol": [looks.symbol(best.knobs) for best in bests],
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
        [
            Key("largest rate inside the threshold, requests/s", "served"),
            *([Key("triangle: at least")] if any(price.at_least for price in drawn) else []),
            Key("the SLO", "slo", "dash"),
        ],
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
                "marker": {
                    "size": 9,
                    "color": "@served",
                    "symbol": ["triangle-up" if price.at_least else "circle" for price in drawn],
                },
            }
        ],
        rows.layout(
            xaxis=latency.layout(title=named("threshold")),
            yaxis=axis(rangemode="tozero", tickformat=",~g", nticks=5),
            shapes=[level(threshold_seconds, "x")],
            hovermode="closest",
        ),
    )
