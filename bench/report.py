"""The report: what was run, the tables, the targets and how far the machine can be trusted. Pure; Markdown."""

import statistics
from collections.abc import Sequence

from bench import loadgen
from bench.confirm import Confirmation
from bench.found import Found
from bench.large import QUEUE_ROWS, ROWS, Large
from bench.latency import Latency
from bench.metrics_cost import CONNECTIONS, SLICE_SECONDS, MetricsCost
from bench.overload import CAPACITY_ROWS_PER_SECOND, DEADLINE_SECONDS, MODEL, Overload
from bench.reading import Cell, best
from bench.servers import OURS, Server
from bench.table import milliseconds, table
from bench.targets import SLO_SECONDS, TIGHT_SECONDS, Verdict
from bench.throughput import Throughput
from bench.yardstick import Calibration

SLOW_MOMENT: float = 1.25  # times the run's median calibration


def text(found: Found, machine: str) -> str:
    parts = ["# Bench: ours beside peers", about(found, machine)]
    if found.throughput.readings:
        for runtime in ("sklearn", "onnx"):
            servers = [server for server in found.throughput.servers if server.runtime == runtime]
            if any(found.throughput.cells(server) for server in servers):
                parts += [
                    f"## One row a request, {runtime}",
                    cells_table(found.throughput, servers, found.calibrations),
                    best_table(found.throughput, servers),
                ]
    parts += [
        section
        for section in (
            confirmations(found.confirmations),
            latencies(found.latencies),
            larges(found.larges),
            metrics(found.metrics_cost),
            overloads(found.overloads),
            loadgen.text(found.loadgen),
        )
        if section
    ]
    parts += ["## Targets", targets_table(found.verdicts()), noise(found)]
    failures = {**found.throughput.failures, **found.failures}
    if failures:
        parts.append("## Not measured")
        parts += [f"**{name}**: {reason}" for name, reason in failures.items()]
    return "\n\n".join(parts) + "\n"


def about(found: Found, machine: str) -> str:
    options = found.options
    pinned = (
        "The generator is pinned to the first CPU, servers to the others."
        if options.pin
        else "Nothing is pinned: generator and servers share all CPUs (`--pin` separates them)."
    )
    lines = [
        machine,
        f"A random forest of 100 trees on 20 features, the same for all; one row a request unless said otherwise, "
        f"probabilities as the answer. Load from wrk, one thread, closed loop: {options.rounds} "
        f"round{'s' if options.rounds > 1 else ''}, {options.seconds} s a cell, servers in turn. {pinned} Figures are "
        "medians over the rounds. Replies other than 2xx are no throughput, and a cell with more than 0.1% errors does "
        "not count. Compare within one run: absolute figures drift with the machine.",
    ]
    if found.interrupted:
        lines.insert(0, "**Interrupted: this is what had been measured by then.**")
    if options.quick:
        lines.append("This was `--quick`: one short round shows an order of magnitude, not a ratio to rely on.")
    return "\n\n".join(lines)


def cells_table(found: Throughput, servers: Sequence[Server], calibrations: Sequence[tuple[str, Calibration]]) -> str:
    slow = slow_moments(calibrations)
    rows = []
    for server in servers:
        for cell in found.cells(server):
            spread = "-" if cell.spread is None else f"{cell.spread:.0%}"
            notes = [f"{cell.errors} errors"] if cell.errors else []
            if not cell.counts:
                notes.append("does not count")
            if f"{server.key} c={cell.connections}" in slow:
                notes.append("slow moment")
            rows.append(
                (
                    server.label,
                    ", ".join(notes),
                    str(cell.connections),
                    f"{cell.rate:,.0f}",
                    milliseconds(cell.p50_seconds),
                    milliseconds(cell.p99_seconds),
                    spread,
                )
            )
    return table(("server", "note", "connections", "requests/s", "p50", "p99", "spread"), rows, left=2)


def best_table(found: Throughput, servers: Sequence[Server]) -> str:
    """Per family, its better setting: the highest rate inside each bound, and ours over it."""
    bounds = (SLO_SECONDS, TIGHT_SECONDS)
    runtime = servers[0].runtime
    ours = {bound: best(found.family(OURS, runtime), bound) for bound in bounds}
    rows = []
    for family in dict.fromkeys(server.family for server in servers):
        cells = found.family(family, runtime)
        if not cells:
            continue
        row = [family]
        for bound in bounds:
            cell = best(cells, bound)
            row += [_best_text(found, cell), _over(ours[bound], cell) if family != OURS else ""]
        rows.append(row)
    head = ["best requests/s"]
    for bound in bounds:
        head += [f"p99 ≤ {1000 * bound:g} ms", "ours ÷ it"]
    return table(head, rows)


def _best_text(found: Throughput, cell: Cell | None) -> str:
    if cell is None:
        return "never"
    return f"{cell.rate:,.0f} ({found.server(cell.server).setting}, c={cell.connections})"


def _over(ours: Cell | None, theirs: Cell | None) -> str:
    return "-" if ours is None or theirs is None else f"{ours.rate / theirs.rate:.2f} ×"


def confirmations(found: Sequence[Confirmation]) -> str:
    if not found:
        return ""
    rows = []
    for one in found:
        answer = one.answer
        notes = [] if one.holds else ["p99 beyond its bound"]
        if one.client_late:
            notes.append("the client was late")
        rows.append(
            (
                f"{one.runtime}, {one.setting}",
                ", ".join(notes),
                f"{one.share * one.winning_rate:,.0f} ({one.share:.0%})",
                f"{answer.offered:,}",
                f"{answer.offered - answer.dropped:,}",
                f"{answer.good:,}",
                milliseconds(answer.latency_p50_seconds),
                milliseconds(answer.latency_p99_seconds),
                milliseconds(answer.lateness_p99_seconds),
                f"{answer.cpu_share:.0%}",
            )
        )
    head = ("ours", "note", "arrivals/s (of the winning rate)", "due", "sent", "2xx", "p50", "p99")
    return (
        "## The winning rate, open loop\n\n"
        "Poisson arrivals at a share of the best closed-loop rate; latency from the instant at which each was due, "
        "over all of them: what was not sent or not answered well counts as infinitely late. “Late” is the client's "
        "own delay (p99), “CPU” what it took of one CPU beside the server.\n\n"
        + table((*head, "late", "CPU"), rows, left=2)
    )


def latencies(found: Sequence[Latency]) -> str:
    rows = [
        (
            f"{one.runtime}, {one.setting}",
            milliseconds(statistics.median(one.served)),
            milliseconds(statistics.median(one.bare)),
            milliseconds(one.added_seconds),
        )
        for one in found
        if one.served and one.bare
    ]
    if not rows:
        return ""
    return "## One connection, over the bare model call\n\n" + table(("ours", "p50", "bare", "added"), rows)


def larges(found: Sequence[Large]) -> str:
    rows = []
    for one in found:
        if one.best is None or one.share is None:
            continue
        connections, rate = one.best
        note = f"{one.errors} errors, in runs left out" if one.errors else ""
        bare = statistics.median(one.bare)
        rows.append(
            (
                f"{one.runtime}, {one.setting}",
                note,
                str(connections),
                f"{rate:,.0f}",
                f"{bare:,.0f}",
                f"{one.share:.2f} ×",
            )
        )
    if not rows:
        return ""
    about = (
        f"## Requests of {ROWS} rows, binary tensors\n\nWith `SERVICE_MAX_BATCH_ROWS={ROWS}` and room for "
        f"{QUEUE_ROWS} rows in the queue; the bare runtime is called in a loop, in turns with the load.\n\n"
    )
    return about + table(("ours", "note", "connections", "rows/s", "bare rows/s", "of bare"), rows, left=2)


def metrics(found: MetricsCost) -> str:
    if found.cost is None:
        return ""
    on, off = (statistics.median(pair[index] for pair in found.pairs) for index in (0, 1))
    interval = found.interval
    trust = f"{interval[0]:.1%} to {interval[1]:.1%} with 90% confidence" if interval else "too few to say how certain"
    return (
        "## Cost of all metrics\n\n"
        f"The service on onnxruntime without a worker, {CONNECTIONS} connections: {on:,.0f} requests/s with its "
        f"metrics and a scrape every {SLICE_SECONDS} s, {off:,.0f} with nothing recorded. Metrics take "
        f"{found.cost:.1%}, the median of {len(found.pairs)} pairs taken in turns ({trust})."
    )


def overloads(found: Sequence[Overload]) -> str:
    if not found:
        return ""
    rows = [
        (
            f"{one.times} ×",
            f"{one.answer.offered:,}",
            f"{one.in_time:,}",
            f"{one.answer.good - one.in_time:,}",
            f"{one.answer.refused:,}",
            f"{one.answer.failed:,}",
            f"{one.answer.dropped:,}",
            f"{one.share:.1%}",
            milliseconds(one.answer.lateness_p99_seconds),
        )
        for one in found
    ]
    head = ("arrivals", "due", "2xx in time", "2xx late", "refused", "failed", "not sent", "of capacity", "client late")
    return (
        f"## Overload\n\nPoisson arrivals of one row at a multiple of what a synthetic model takes, "
        f"{CAPACITY_ROWS_PER_SECOND} rows/s whatever the batch (`{MODEL}`), for {found[0].seconds:g} s after a "
        f"warm-up; in time is within {DEADLINE_SECONDS:g} s.\n\n" + table(head, rows)
    )


def targets_table(verdicts: Sequence[Verdict]) -> str:
    rows = [(verdict.what, verdict.target, verdict.found, verdict.met, verdict.margin) for verdict in verdicts]
    return table(("what", "target", "found", "met", "by"), rows, left=5)


def noise(found: Found) -> str:
    """How much the machine itself moved while all this was measured."""
    lines = ["## Noise"]
    spreads = [
        cell.spread
        for server in found.throughput.servers
        for cell in found.throughput.cells(server)
        if cell.spread is not None
    ]
    if spreads:
        lines.append(
            f"Between rounds the rate of a cell moved by {statistics.median(spreads):.0%} (median), "
            f"{max(spreads):.0%} at most."
        )
    if found.calibrations:
        python = [calibration.python_seconds for _, calibration in found.calibrations]
        model = [calibration.model_seconds for _, calibration in found.calibrations]
        slow = len(slow_moments(found.calibrations))
        lines.append(
            f"Before each of {len(python)} measurements the same work was timed: a loop of plain Python took "
            f"{_range(python)}, the bare forest on one row {_range(model)}. {slow} of them found the machine more than "
            f"{SLOW_MOMENT - 1:.0%} slower than usual" + ("; their cells are marked “slow moment”." if slow else ".")
        )
    return "\n\n".join(lines) if len(lines) > 1 else ""


def slow_moments(calibrations: Sequence[tuple[str, Calibration]]) -> set[str]:
    """Names of the measurements before which the fixed work took much longer than usual."""
    if not calibrations:
        return set()
    python = statistics.median(calibration.python_seconds for _, calibration in calibrations)
    model = statistics.median(calibration.model_seconds for _, calibration in calibrations)
    return {
        name
        for name, calibration in calibrations
        if calibration.python_seconds > SLOW_MOMENT * python or calibration.model_seconds > SLOW_MOMENT * model
    }


def _range(seconds: Sequence[float]) -> str:
    low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
    return f"{1000 * middle:.2f} ms ({1000 * low:.2f} to {1000 * high:.2f})"
