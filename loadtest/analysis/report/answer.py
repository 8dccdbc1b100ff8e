"""What a search found, in words: the sentence that one could sign, the key figures, what limits, every trial."""

import math
from collections.abc import Mapping
from typing import Final

from loadtest.analysis import needed
from loadtest.analysis.frontier_file import About
from loadtest.analysis.order import percentile_name
from loadtest.analysis.report import telling
from loadtest.analysis.report.breakdown import at_the_answer, stage_mean
from loadtest.analysis.report.prices import THRESHOLDS_SECONDS
from loadtest.analysis.report.telling import Card, Row
from loadtest.analysis.tuner.found import Found, Kind
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.limit import BATCH_ROWS, FIXED, PER_ROW
from loadtest.analysis.tuner.replicas import HEADROOM, replicas
from loadtest.analysis.tuner.trial import Measured
from loadtest.analysis.words import (
    INFINITE,
    NOTHING,
    count_text,
    interval_text,
    name_text,
    rate_text,
    seconds_text,
    setting_text,
    share_text,
    span_text,
    value_text,
)

BADGES: Final[Mapping[Kind, tuple[str, str]]] = {
    "chosen": ("CHOSEN", "PASS"),
    "cannot_meet": ("CANNOT BE MET", "FAIL"),
    "generator_limited": ("LIMITED BY THE GENERATOR", "INVALID"),
    "too_slow": ("NEEDS MORE TIME", "INVALID"),
    "partial": ("NOT FINISHED", "INVALID"),
}
HEADROOMS: Final = (0.0, HEADROOM, 2 * HEADROOM)
TARGETS: Final = 4  # rates for which replicas are counted when none was asked for
CLEARLY: Final = 1.5
SPARE: Final = 1.2  # above the floor, for some load to fit in
PURPOSES: Final[Mapping[str, str]] = {
    "floor": "does it hold at all",
    "bracket": "searching",
    "bisect": "narrowing",
    "confirm": "confirming",
}


def objective(found: Found) -> str:
    """p99 within 50 ms."""
    return f"{percentile_name(found.slo.objective)} within {setting_text(found.slo.threshold_seconds)}"


def sentence(found: Found, about: About) -> str:
    """The answer, or what is the matter instead."""
    return _SENTENCES[found.kind](found, about)


def _chosen(found: Found, about: About) -> str:
    return f"{_carries(found, about)}{_bracket(found)}."


def _generator_limited(found: Found, about: About) -> str:
    if not found.confirmed:
        return f"The generator gave out before {about.model} did, so nothing is claimed of the service."
    held = "more" if found.generator_rate is None else f"more than {rate_text(found.generator_rate)}/s"
    return f"{_carries(found, about)}; the generator could not send {held}, so nothing is claimed beyond that."


def _carries(found: Found, about: About) -> str:
    assert found.knobs is not None
    assert found.rate is not None
    count = len(found.confirmations)
    held = "it held once" if count == 1 else f"it held {count} of {count} times with fresh arrivals"
    return (
        f"With {setting(found.knobs)}, {about.model} carries {rate_text(found.rate)} requests/s "
        f"with {objective(found)}: {held}"
    )


def _bracket(found: Found) -> str:
    if found.failed_rate is None:
        return ", and no higher rate was seen to fail"
    return f" and failed at {rate_text(found.failed_rate)}/s"


def _cannot_meet(found: Found, about: About) -> str:
    floor = found.floor
    said = f"{about.model} cannot keep {objective(found)} at any rate"
    if floor is None:
        return f"{said}."
    return (
        f"{said}: even at {rate_text(floor.rate)}/s, with {setting(floor.ask.knobs)}, "
        f"{percentile_name(found.slo.objective)} was {seconds_text(floor.p99)}{_between(floor)}."
    )


def advice(found: Found) -> str:
    """What one could ask instead; empty where there is an answer."""
    if found.kind == "cannot_meet" and found.floor is not None:
        above = [seconds for seconds in THRESHOLDS_SECONDS if seconds > found.floor.p99 * SPARE]
        return f"Ask for {setting_text(above[0])} or more, or serve a faster model." if above else ""
    if found.kind == "too_slow" and found.needed_seconds is not None:
        return f"Give it --budget {math.ceil(found.needed_seconds / 60)}m, or ask for a lower percentile."
    return ""


def _too_slow(found: Found, about: About) -> str:
    samples = needed.samples_needed(found.slo.objective)
    wanted = f"{percentile_name(found.slo.objective)} needs {samples:,} samples a trial"
    if found.needed_seconds is None:
        return f"{wanted}, and {about.model} is too slow for that in {span_text(about.budget_seconds)}."
    return (
        f"{wanted}, and at the rate that {about.model} can take, the search needs about "
        f"{_minutes(found.needed_seconds)}; it was given {_minutes(about.budget_seconds)}."
    )


def _partial(found: Found, about: About) -> str:
    if found.knobs is None or found.rate is None:
        return f"Nothing is known yet of {about.model}: the search ended before any rate kept {objective(found)}."
    return (
        f"Not confirmed: the most that {about.model} carried with {objective(found)} before the search ended was "
        f"{rate_text(found.rate)} requests/s, with {setting(found.knobs)}."
    )


_SENTENCES: Final = {
    "chosen": _chosen,
    "generator_limited": _generator_limited,
    "cannot_meet": _cannot_meet,
    "too_slow": _too_slow,
    "partial": _partial,
}


def circumstances(found: Found, about: About) -> str:
    """Where, how long, how much was tried: the second half of the answer."""
    cpu, cpus = about.host.get("cpu"), about.host.get("cpus")
    machine = f" ({', '.join(filter(None, [cpu, cpus and f'{cpus} CPUs']))})" if cpu or cpus else ""
    settings = len(found.frontiers)
    tried = f"{len(found.trials)} trial{'' if len(found.trials) == 1 else 's'} of {settings} setting"
    return (
        f"Measured on {about.host.get('name') or 'an unnamed host'}{machine} in {span_text(found.spent_seconds)}, "
        f"with {tried}{'' if settings == 1 else 's'}."
    )


def setting(knobs: Knobs) -> str:
    """In a sentence: batches of at most 32 rows, no wait, adaptive."""
    rows = "single rows" if knobs.max_batch_rows == 1 else f"batches of at most {knobs.max_batch_rows:,} rows"
    wait = "no wait" if not knobs.max_wait_seconds else f"a wait of {setting_text(knobs.max_wait_seconds)}"
    parts = [rows, wait, f"the {knobs.policy} policy"]
    if knobs.workers is not None:
        parts.append(f"{knobs.workers} worker{'' if knobs.workers == 1 else 's'}")
    if knobs.runtime is not None:
        parts.append(knobs.runtime)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _between(trial: Measured) -> str:
    low, high = trial.p99_interval
    if math.isinf(trial.p99):
        return ""
    return f" (95% interval {interval_text(low, None if math.isinf(high) else high)})"


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return span_text(math.ceil(seconds))
    minutes = math.ceil(seconds / 60)
    return f"{minutes:,} minutes" if minutes < 600 else f"{minutes / 60:,.0f} hours"


def cards(found: Found, about: About) -> list[Card]:
    """The figures that a reader wants first; empty where no rate passed."""
    knobs, rate = found.knobs, found.rate
    if knobs is None or rate is None:
        return []
    trials = at_the_answer(found)
    shown = [
        Card(
            "confirmed throughput" if found.confirmed else "best that passed",
            f"{rate_text(rate)}/s",
            "no failure above it was seen"
            if found.failed_rate is None
            else f"failed at {rate_text(found.failed_rate)}/s",
            "good" if found.confirmed else "",
        ),
        Card("largest batch", f"{knobs.max_batch_rows:,}", _rows(trials)),
        Card("longest wait", setting_text(knobs.max_wait_seconds), _family(knobs)),
    ]
    if trials:
        worst = max(trials, key=lambda trial: trial.p99)
        name = percentile_name(found.slo.objective)
        times = f"the highest of {len(trials)}; " if len(trials) > 1 else ""
        low, high = worst.p99_interval
        ends = interval_text(low, None if math.isinf(high) else high)
        shown.append(Card(f"{name} at that rate", seconds_text(worst.p99), f"{times}95% interval {ends}"))
    gain = _gain(found)
    return [*shown, gain] if gain else shown


def _family(knobs: Knobs) -> str:
    told = [f"{knobs.policy} policy"]
    if knobs.workers is not None:
        told.append(f"{knobs.workers} worker{'' if knobs.workers == 1 else 's'}")
    return ", ".join([*told, *([] if knobs.runtime is None else [knobs.runtime])])


def _rows(trials: tuple[Measured, ...]) -> str:
    rows = stage_mean(trials, BATCH_ROWS)
    return "rows" if rows is None else f"rows; {rows:.1f} on average"


def _gain(found: Found) -> Card | None:
    """Over a batch of one row, where that was tried and is not the answer itself."""
    if found.rate is None or found.knobs is None or found.knobs.max_batch_rows == 1:
        return None
    single = found.single
    if single is None:
        return None
    times, rate = found.rate / single.rate, rate_text(single.rate)
    if single.verdict == "PASS":
        return Card("against single rows", f"×{times:.3g}", f"single rows passed {rate}/s")
    if times < CLEARLY:  # where they failed says little of what they carry
        return None
    return Card("against single rows", f"> ×{times:.3g}", f"single rows failed {rate}/s")


def limits(found: Found) -> str:
    """What keeps the chosen setting from more, in a sentence; empty where nothing was confirmed."""
    limit = found.limit()
    return "" if limit is None else limit.told


def batching(found: Found) -> list[str]:
    """Whether batches help this model, in sentences; empty where nothing was confirmed."""
    said = found.batching()
    if said is None:
        return []
    fixed, per_row = (stage_mean(found.confirmations, name) for name in (FIXED, PER_ROW))
    if fixed is None or per_row is None or not fixed + per_row > 0:
        return [said]
    fixed, per_row = max(fixed, 0.0), max(per_row, 0.0)
    share, rows = share_text(round(fixed / (fixed + per_row), 2)), 32
    return [
        said,
        f"The fixed cost, which a batch pays once, is {share} of a call with one row: in a batch of {rows} a row costs "
        f"{seconds_text(fixed / rows + per_row)} instead of {seconds_text(fixed + per_row)}.",
    ]


def replica_rows(found: Found, target_rate: float | None) -> list[Row]:
    """How many carry `target_rate`, or round rates above that of one; columns as HEADROOMS and then one to spare."""
    if not found.confirmed or found.rate is None:
        return []
    each = found.rate
    ladder = [step * 10.0**power for power in range(-2, 8) for step in (1, 2, 5)]
    targets = [target_rate] if target_rate else [rate for rate in ladder if rate > each][:TARGETS]
    return [
        Row(
            rate_text(target),
            [
                *(count_text(replicas(each, target, headroom).count) for headroom in HEADROOMS),
                count_text(replicas(each, target, 0.0).count + 1),
            ],
        )
        for target in targets
    ]


def trial_heads(found: Found) -> list[str]:
    """Of the columns of `trial_rows`."""
    percentile = percentile_name(found.slo.objective)
    return ["purpose", "rate", "p50", "p95", percentile, "95% interval", "good", "seconds", "verdict"]


def trial_rows(found: Found) -> list[tuple[Row, str]]:
    """One line per trial in the order of their measurement, and the verdict as its class."""
    rows: list[tuple[Row, str]] = []
    for number, trial in enumerate(found.trials, 1):
        low, high = trial.p99_interval
        known = bool(trial.offered)
        cells = [
            PURPOSES[trial.ask.purpose],
            rate_text(trial.rate),
            *(seconds_text(value) if known else NOTHING for value in (trial.p50, trial.p95, trial.p99)),
            interval_text(low, None if math.isinf(high) else high) if known and math.isfinite(trial.p99) else INFINITE,
            rate_text(trial.good_rate),
            f"{trial.ask.seconds:.3g}{' (cut short)' if trial.ended_early else ''}",
            trial.verdict,
        ]
        rows.append((Row(f"{number}. {trial.ask.knobs.told()}", cells), trial.verdict))
    return rows


def facts(found: Found, about: About) -> dict[str, dict[str, str]]:
    """Headed lists of how the search was made."""
    search = {
        "target": about.target,
        "model": about.model,
        "started at": telling.started_at({"started_at": about.started_at}),
        "took": span_text(found.spent_seconds),
        "budget": span_text(about.budget_seconds),
        "SLO": objective(found),
        "trials": count_text(len(found.trials)),
        "INVALID among them": count_text(sum(trial.verdict == "INVALID" for trial in found.trials)),
        "seed": str(about.seed),
        "generator processes": str(about.processes),
    }
    settings = {
        name_text(name): value_text(name, value) for name, value in about.settings.items() if name not in ("seed",)
    }
    host = {name_text(name): value_text(name, value) for name, value in about.host.items()}
    headed: dict[str, dict[str, str]] = {
        "This search": search,
        "Load": settings,
        "Host": host,
        "Versions": dict(about.versions),
    }
    return {heading: listed for heading, listed in headed.items() if listed}
