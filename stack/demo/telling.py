"""What the terminal shows while the demo runs, and the tables at its end."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stack.demo.experiment import Phase
from stack.demo.record import Figures, Record
from stack.demo.words import (
    clock_text,
    quantile_name,
    rate_text,
    rows_name,
    rows_text,
    seconds_text,
)

HEADINGS: Final = (
    "max batch",
    "offered rps",
    "served rps",
    "mean",
    "p50",
    "p95",
    "p99",
    "mean batch rows",
    "SLO met",
)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, in seconds since the load was started."""

    at: float
    kind: str  # bad | act | good: how it is coloured
    text: str


def events(record: Record) -> list[Event]:
    """Everything that happened, in order."""
    times, slo = record.times, record.slo
    p99, threshold = quantile_name(slo.objective), seconds_text(slo.threshold_seconds)
    tuned = rows_name(record.tuned.get("max_batch_rows", 0))
    known: Sequence[tuple[float | None, str, str]] = (
        (times.breach, "bad", f"{p99} breaks its SLO of {threshold} for the clients"),
        (times.breach_in_prometheus, "bad", f"Prometheus sees {p99} beyond the SLO at the service"),
        (times.fired, "bad", f"the alert {record.alert} fires in Prometheus"),
        (times.arrived, "bad", "the alert arrives in the inbox"),
        (times.cured, "act", f"the batch is set to {tuned} at run time; the load is left alone"),
        (times.stopped, "act", "the traffic has stopped"),
        (times.recovered, "good", f"{p99} is back inside {threshold} for the clients"),
        (times.recovered_in_prometheus, "good", f"Prometheus sees {p99} back inside the SLO at the service"),
        (times.resolved, "good", f"the alert {record.alert} resolves in Prometheus"),
        (times.cleared, "good", "'resolved' arrives in the inbox"),
    )
    return sorted((Event(at, kind, text) for at, kind, text in known if at is not None), key=lambda event: event.at)


def news(before: Record, after: Record) -> list[str]:
    """A line for each thing that has happened in between."""
    old = events(before)
    return [f"  {event.at:5.1f} s  {event.text}" for event in events(after) if event not in old]


def state_line(at: float, now: Figures, phase: Phase, seconds_left: float) -> str:
    """Where the experiment stands: the figures of the last seconds, what is awaited, the time left for the whole."""
    return (
        f"  {at:5.1f} s  p99 {now.p99_text}, mean {seconds_text(now.mean)}; {rate_text(now.offered_rps)}/s offered, "
        f"{rate_text(now.served_rps)}/s served; waiting for {phase.value}; about {clock_text(seconds_left)} left"
    )


def cells(figures: Figures) -> list[str]:
    """A row of the table under HEADINGS."""
    return [
        str(figures.max_batch_rows),
        rate_text(figures.offered_rps),
        rate_text(figures.served_rps),
        seconds_text(figures.mean),
        figures.p50_text,
        figures.p95_text,
        figures.p99_text,
        rows_text(figures.mean_batch_rows),
        "yes" if figures.slo_met else "no",
    ]


def table(rows: Sequence[Figures]) -> str:
    """The rows under their headings, in columns of equal width, figures to the right."""
    lines = [list(HEADINGS), *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join(
        "  " + "   ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def findings(record: Record) -> list[str]:
    """What the ramp says to somebody who has to choose, one sentence each."""
    threshold = seconds_text(record.slo.threshold_seconds)
    best = {size: record.largest_met(size) for size in record.batch_sizes()}
    found: list[str] = []
    for size, point in best.items():
        rows = "one row" if size == 1 else f"up to {size} rows"
        if point is None:
            found.append(f"With batches of {rows} no rate that was tried stayed inside the SLO.")
            continue
        missed = any(not each.figures.slo_met and each.rate > point.rate for each in record.points(size))
        found.append(
            f"With batches of {rows} {'up to' if missed else 'at least'} {rate_text(point.figures.served_rps)} "
            f"requests/s stay inside the SLO of {threshold} (p99 {point.figures.p99_text}, mean batch "
            f"{rows_text(point.figures.mean_batch_rows)} rows)."
        )
    sizes = [size for size, point in best.items() if point is not None]
    if len(sizes) >= 2:
        low, high = best[sizes[0]], best[sizes[-1]]
        if low is not None and high is not None:
            times = high.figures.served_rps / low.figures.served_rps
            found.append(f"That is {times:.1f} times as much for {sizes[-1]} as for {sizes[0]}, on the same CPUs.")
    if record.cost_fixed_seconds and record.cost_per_row_seconds is not None:
        fixed, per_row = seconds_text(record.cost_fixed_seconds), record.cost_per_row_seconds * 1000
        found.append(
            f"Why: one run of the model costs about {fixed} whatever the batch, and {per_row:.2g} ms more for each "
            f"row. Requests that ride together pay the {fixed} once; that is all that batching buys."
        )
    return found


def ending(record: Record, report: Path) -> str:
    """The tables, what they mean, the verdict, and where the report is."""
    parts: list[str] = []
    compared = [figures for figures in (record.before, record.after) if figures is not None]
    if compared:
        parts += ["", "Under the one load, before and after the cure:", "", table(compared)]
    if record.ramp:
        points = [point.figures for size in record.batch_sizes() for point in record.points(size)]
        parts += ["", "The ramp:", "", table(points), "", *(f"  {sentence}" for sentence in findings(record))]
    verdict = record.verdict.sentence if record.verdict else "The demo was interrupted; this is what was measured."
    parts += [
        "",
        f"{record.state.upper()}: {verdict}",
        f"Report: {report} (after {clock_text(record.took_seconds)} min)",
    ]
    return "\n".join(parts)
