"""What a report says in words and tables about one result: the part of a page that is not a plot."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from loadtest.analysis.order import percentile_name
from loadtest.analysis.verdict import Objective, lateness_limit_seconds
from loadtest.analysis.words import (
    NOTHING,
    count_text,
    interval_text,
    latency_text,
    name_text,
    rate_text,
    seconds_text,
    setting_text,
    share_text,
    span_text,
    value_text,
)

MEANINGS: Final[Mapping[str, str]] = {
    "PASS": "The service kept its objective under this load, and the load was what it was meant to be.",
    "FAIL": "The service did not keep its objective. The load was what it was meant to be: it is the service's doing.",
    "INVALID": "This run cannot say whether the service kept its objective.",
}
ENDINGS: Final[Mapping[str, str]] = {
    "aborted": "The run was ended early because the objective could no longer be kept.",
    "interrupted": "The run was interrupted; this is what had been measured by then.",
}
CLOSED: Final = (
    "In this load each user waited for its answer before it asked again. When the service stalls, such a load stops "
    "asking: the requests that would have met the stall are never made, and the percentiles hide it. "
    "Do not read them as what independent clients would see."
)
PERCENTILES: Final[Mapping[str, str]] = {
    "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "p999": "p99.9", "max": "max", "mean": "mean",
}  # fmt: skip
SERIES: Final[Mapping[str, str]] = {
    "total time": "all arrivals, from the scheduled instant to the answer; lost ones count as ∞",
    "service time": "requests with a reply of any kind, from the moment they were sent",
    "successes only": "total time of what was answered with success, which flatters a service that loses requests",
}
COUNTS: Final[Mapping[str, str]] = {
    "offered": "offered",
    "completed": "completed with success",
    "failed": "failed, shed or timed out",
    "dropped": "dropped: no user was free",
    "in_flight_at_end": "in flight at the end",
}


@dataclass(frozen=True, slots=True)
class Card:
    """One key figure."""

    name: str
    figure: str
    detail: str
    css: str = ""  # good | bad


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: its heading and its cells."""

    name: str
    cells: list[str]


def lost_share(result: Mapping[str, Any]) -> float:
    """Share of the measured arrivals without a good answer."""
    offered = result["measured"]["offered"]
    return 1 - result["measured"]["completed"] / offered if offered else 0.0


def is_closed(result: Mapping[str, Any]) -> bool:
    return bool(result["arrivals"] == "closed")


def meaning(result: Mapping[str, Any]) -> str:
    """What the verdict means."""
    if is_closed(result) and result["verdict"] == "PASS":
        return "The requests that were made kept the objective; which ones were never made is said below."
    return MEANINGS[result["verdict"]]


def cards(result: Mapping[str, Any]) -> list[Card]:
    """The figures that a reader wants first; without colours that judge when the verdict does not."""
    found = [_latency(result), _kept(result), _throughput(result), _lost(result)]
    if result["verdict"] == "INVALID":
        found = [replace(card, css="") for card in found]
    return found if is_closed(result) else [*found, _lateness(result)]


def _latency(result: Mapping[str, Any]) -> Card:
    """The percentile that the objective speaks of, if the result has it, else p99 without a judgement."""
    threshold, objective = result["slo"]["threshold_seconds"], result["slo"]["objective"]
    judged = percentile_name(objective)
    field = next((field for field, name in PERCENTILES.items() if name == judged), "")
    name = judged if field in result["latency_seconds"] else "p99"
    seconds = result["latency_seconds"][field or "p99"]
    low, high = result["latency_p99_ci95"]
    if not result["measured"]["offered"]:
        return Card(f"{name}, total time", NOTHING, "nothing was measured")
    if seconds is None:
        detail = f"{share_text(lost_share(result))} of the arrivals got no good answer"
    elif name == "p99" and low is not None:
        detail = f"95% interval {interval_text(low, high)}; SLO {setting_text(threshold)}"
    else:
        detail = f"SLO {judged} within {setting_text(threshold)}"
    held = seconds is not None and seconds <= threshold
    css = "" if name != judged else "good" if held else "bad"
    return Card(f"{name}, total time", latency_text(seconds), detail, css)


def _kept(result: Mapping[str, Any]) -> Card:
    slo = result["slo"]
    ratio = slo["ratio"]
    if ratio is None:
        return Card("good arrivals", NOTHING, "nothing was measured")
    detail = f"within {setting_text(slo['threshold_seconds'])}; the objective is {share_text(slo['objective'])}"
    return Card("good arrivals", share_text(ratio), detail, "good" if ratio >= slo["objective"] else "bad")


def _throughput(result: Mapping[str, Any]) -> Card:
    sent = f"{rate_text(result['achieved_rate'])}/s were sent"
    planned = "" if is_closed(result) else f", {rate_text(result['planned_rate'])}/s planned"
    return Card("throughput", f"{rate_text(result['throughput'])}/s", f"completed; {sent}{planned}")


def _lost(result: Mapping[str, Any]) -> Card:
    counts = result["measured"]
    parts = [
        f"{count_text(counts[name])} {what}"
        for name, what in (("failed", "failed"), ("dropped", "dropped"), ("in_flight_at_end", "unanswered at the end"))
        if counts[name]
    ]
    if not counts["offered"]:
        return Card("lost arrivals", NOTHING, "nothing was measured")
    if not parts:
        return Card("lost arrivals", "none", f"all {count_text(counts['offered'])} were answered with success")
    return Card("lost arrivals", share_text(lost_share(result)), f"{', '.join(parts)}; each counts as ∞", "bad")


def _lateness(result: Mapping[str, Any]) -> Card:
    late, generator = result["dispatch_lateness_seconds"], result["generator"]
    share = generator["cpu_share"]
    used = "" if share is None else f"; its busiest process used {share:.0%} of a core"
    limit = lateness_limit_seconds(Objective(result["slo"]["threshold_seconds"], result["slo"]["objective"]))
    css = "bad" if late["p99"] is not None and late["p99"] > limit else ""
    detail = f"p99 of how late requests left; {seconds_text(late['max'])} at most{used}"
    return Card("generator's lateness", seconds_text(late["p99"]), detail, css)


def percentile_rows(result: Mapping[str, Any]) -> list[Row]:
    """One line per percentile; columns as SERIES."""
    total, service, success = (
        result[name] for name in ("latency_seconds", "service_seconds", "success_latency_seconds")
    )
    return [
        Row(
            words,
            [
                latency_text(total[name]) if name in total else "",
                seconds_text(service[name]) if name in service else "",
                seconds_text(success.get(name)),
            ],
        )
        for name, words in PERCENTILES.items()
    ]


def count_rows(result: Mapping[str, Any]) -> list[Row]:
    """Whole run and measured part; the first line is the sum of the others."""
    return [
        Row(words, [count_text(result[name]), count_text(result["measured"][name])]) for name, words in COUNTS.items()
    ]


def excluded(result: Mapping[str, Any]) -> list[str]:
    """What was left out of the measured part, in sentences."""
    return [
        f"Left out: {count_text(cut['samples'])} arrivals from {cut['from_seconds']:g} to {cut['to_seconds']:g} s "
        f"({cut['why']})."
        for cut in result["excluded"]
    ]


def headline(result: Mapping[str, Any]) -> str:
    """The run in one line: what was asked of whom, for how long."""
    if is_closed(result):
        load = "closed-loop users"
    else:
        load = f"{result['arrivals']} arrivals, {rate_text(result['planned_rate'])}/s"
    warmup = result["warmup_seconds"]
    spent = span_text(result["duration_seconds"]) + (f" with {span_text(warmup)} of warm-up" if warmup else "")
    return f"{load} · {spent} · {result['target']}"


def started_at(result: Mapping[str, Any]) -> str:
    """To the second, with its offset: 2026-03-14 15:09:26 +00:00."""
    try:
        instant = datetime.fromisoformat(result["started_at"])
    except ValueError:
        return str(result["started_at"])
    offset = f"{instant:%z}"
    return f"{instant:%Y-%m-%d %H:%M:%S}" + (f" {offset[:3]}:{offset[3:5]}" if offset else "")


def facts(result: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Headed lists of how the run was made."""
    slo, generator = result["slo"], result["generator"]
    run = {
        "target": result["target"],
        "started at": started_at(result),
        "ended": result["ended"],
        "duration": span_text(result["duration_seconds"]),
        "warm-up": span_text(result["warmup_seconds"]),
        "SLO": f"{percentile_name(slo['objective'])} within {setting_text(slo['threshold_seconds'])}",
        "arrivals": result["arrivals"],
        "seed": value_text("seed", result["seed"]),
    }
    made = {name_text(name): value_text(name, value) for name, value in generator.items()}
    settings = {
        name_text(name): value_text(name, value) for name, value in result["settings"].items() if name not in run
    }
    host = {name_text(name): value_text(name, value) for name, value in result["host"].items()}
    versions = {name: value_text(name, value) for name, value in result["versions"].items()}
    headed = {"This run": run, "Settings": settings, "Generator": made, "Host": host, "Versions": versions}
    return {heading: listed for heading, listed in headed.items() if listed}
