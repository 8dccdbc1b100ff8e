"""What a page says about two results side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadtest.analysis.report import telling
from loadtest.analysis.report.words import NOTHING, latency_text, rate_text, seconds_text, share_text

_ABSENT = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Pair:
    """One line of a table: a name, a cell for each side, and whether they differ."""

    name: str
    cells: tuple[str, str]

    @property
    def differs(self) -> bool:
        return self.cells[0] != self.cells[1]


def figures(results: Sequence[Mapping[str, Any]]) -> list[Pair]:
    """The key figures of both."""
    told = [_figures(result) for result in results]
    return [Pair(name, (told[0][name], told[1][name])) for name in told[0]]


def _figures(result: Mapping[str, Any]) -> dict[str, str]:
    total, success = result["latency_seconds"], result["success_latency_seconds"]
    ratio = result["slo"]["ratio"]
    return {
        "p50": latency_text(total["p50"]),
        "p95": latency_text(total["p95"]),
        "p99": latency_text(total["p99"]),
        "p99.9": latency_text(total["p999"]),
        "max": latency_text(total["max"]),
        "p99 of service time": seconds_text(result["service_seconds"]["p99"]),
        "mean of successes": seconds_text(success["mean"]),
        "good arrivals": NOTHING if ratio is None else share_text(ratio),
        "lost arrivals": share_text(telling.lost_share(result)),
        "completed": f"{rate_text(telling.completed_rate(result))}/s",
        "sent": f"{rate_text(result['achieved_rate'])}/s",
    }


def facts(results: Sequence[Mapping[str, Any]]) -> dict[str, list[Pair]]:
    """Headed lists of how both runs were made; what only one of them has is blank for the other."""
    told = [telling.facts(result) for result in results]
    headed = {}
    for heading in dict.fromkeys(heading for facts in told for heading in facts):
        lists = [facts.get(heading, {}) for facts in told]
        names = dict.fromkeys(name for listed in lists for name in listed)
        headed[heading] = [Pair(name, (lists[0].get(name, _ABSENT), lists[1].get(name, _ABSENT))) for name in names]
    return headed
