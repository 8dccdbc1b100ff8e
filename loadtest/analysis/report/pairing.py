"""What a page says about two results side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from loadtest.analysis.report import telling
from loadtest.analysis.words import INFINITE, NOTHING, latency_text, rate_text, seconds_text, share_text

_REALITY: Final = {
    True: ("real", "real"),
    False: ("may be chance", "chance"),
    None: ("cannot be told", "unknown"),
}
_HUGE: Final = 1000.0  # a factor beyond it has no digits worth reading
_LARGE: Final = 2.0  # a change above it is read better as a factor than in percent
_ABSENT: Final = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Pair:
    """One line of a table: a name, a cell for each side, and whether they differ."""

    name: str
    cells: tuple[str, str]

    @property
    def differs(self) -> bool:
        return self.cells[0] != self.cells[1]


def figures(results: Sequence[Mapping[str, Any]]) -> list[Pair]:
    """Figures of both beside those that have an interval."""
    told = [_figures(result) for result in results]
    return [Pair(name, (told[0][name], told[1][name])) for name in told[0]]


def _figures(result: Mapping[str, Any]) -> dict[str, str]:
    total = result["latency_seconds"]
    return {
        "p99.9": latency_text(total["p999"]),
        "max": latency_text(total["max"]),
        "p99 of service time": seconds_text(result["service_seconds"]["p99"]),
        "lost arrivals": share_text(telling.lost_share(result)),
        "sent": f"{rate_text(result['achieved_rate'])}/s",
    }


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of both and what stands between them."""

    name: str
    cells: tuple[str, str]
    change: str
    interval: str
    verdict: str
    css: str  # real | chance | unknown


def changes(comparison: Mapping[str, Any]) -> list[Change]:
    """The figures that have an interval, and whether their difference is more than chance."""
    return [
        Change(
            figure["what"],
            (_shown(figure["name"], figure["a"]), _shown(figure["name"], figure["b"])),
            *_change(figure),
            *_REALITY[figure["real"]],
        )
        for figure in comparison["figures"]
    ]


def headline(comparison: Mapping[str, Any]) -> str:
    """What became of p99 from the first run to the second, in a sentence."""
    first, second = comparison["names"]
    p99 = next(figure for figure in comparison["figures"] if figure["name"] == "p99")
    a, b = p99["a"], p99["b"]
    if p99["real"] is None:
        return f"These runs cannot tell whether p99 of {first} and {second} differ."
    if not p99["real"]:
        return f"p99 of {first} is {latency_text(a)} and of {second} {latency_text(b)}; the difference may be chance."
    if a is None or b is None:
        lossy, other, finite = (first, second, b) if a is None else (second, first, a)
        return f"p99 of {lossy} is ∞, because so many arrivals were lost, and that of {other} {seconds_text(finite)}."
    higher = b > a
    share = abs(p99["change"])
    by = f"{share_text(round(share, 3))} {'higher' if higher else 'lower'} than"
    if higher and share >= 1:
        by = f"{b / a:.3g} times"
    return (
        f"p99 of {second} is {by} that of {first}: {seconds_text(b)} against {seconds_text(a)}. "
        "The difference is more than chance."
    )


def _shown(name: str, value: float | None) -> str:
    match name:
        case "good":
            return NOTHING if value is None else share_text(value)
        case "throughput":
            return NOTHING if value is None else f"{rate_text(value)}/s"
        case "mean":
            return seconds_text(value)
        case _:
            return latency_text(value)


def _change(figure: Mapping[str, Any]) -> tuple[str, str]:
    """The change and its 95% interval: in points for a share, else in percent, or as a factor when it is large."""
    if figure["real"] is None:
        return NOTHING, ""
    change, (low, high) = figure["change"], figure["change_ci95"]
    ends = [end for end in (change, low, high) if end is not None]
    if figure["name"] == "good":
        tell, unit = _points, " points"
    elif ends and max(abs(end) for end in ends) >= _LARGE:
        tell, unit = _factor, ""
    else:
        tell, unit = _percent, "%"
    told_change = "" if change is None else f"{tell(change)}{unit}"
    if low is None:  # p99 of one run is +∞ at both ends: what is real needs no figures
        return told_change, ""
    return told_change, f"{tell(low)} to {tell(high)}{unit}" if high is not None else f"{tell(low)}{unit} to {INFINITE}"


def _points(change: float) -> str:
    return f"{100 * change:+.2f}"


def _percent(change: float) -> str:
    return f"{100 * change:+.1f}"


def _factor(change: float) -> str:
    factor = 1 + change
    if factor >= _HUGE:
        return f"more than ×{_HUGE:,.0f}"
    return f"×{factor:.3g}" if factor >= 1 / _HUGE else "×0"


def facts(results: Sequence[Mapping[str, Any]]) -> dict[str, list[Pair]]:
    """Headed lists of how both runs were made; what only one of them has is blank for the other."""
    told = [telling.facts(result) for result in results]
    headed = {}
    for heading in dict.fromkeys(heading for facts in told for heading in facts):
        lists = [facts.get(heading, {}) for facts in told]
        names = dict.fromkeys(name for listed in lists for name in listed)
        headed[heading] = [Pair(name, (lists[0].get(name, _ABSENT), lists[1].get(name, _ABSENT))) for name in names]
    return headed
