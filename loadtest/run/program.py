"""Composition root of `python -m loadtest run`: options in, result.json and report.html out, the verdict as exit code.

Importing this file lets gevent take over the process, as Locust does.
"""

import math
import shutil
import signal
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import gevent

from loadtest import whole_file
from loadtest.analysis import result as results
from loadtest.analysis.report import html
from loadtest.analysis.series import series
from loadtest.analysis.verdict import EXIT_CODES
from loadtest.arrivals import Trace
from loadtest.errors import UsageError
from loadtest.outcomes import client_errors
from loadtest.prepared import check_files, prepare
from loadtest.rows import RowsError
from loadtest.run import about, breach
from loadtest.run.crew import Crew, CrewSpec
from loadtest.run.gap import decided_until
from loadtest.run.options import RunOptions, parse
from loadtest.run.own_user import OwnUserError, own_user_class
from loadtest.run.progress import Progress, line
from loadtest.run.telling import told
from loadtest.run.trial import Trial, TrialOutcome, TrialSpec
from loadtest.run.watch import RECENT_SECONDS, Standing
from loadtest.trace_file import TraceError

SAMPLES: Final = "samples"  # the folder in --out
_ENDING: Final = "ending early: requests under way may end; press Ctrl-C again to give them up"
_GIVEN_UP: Final = "requests under way are given up"
_CLOSED_NOTE: Final = (
    "A closed loop: while the service stalls its users wait and ask nothing, so that these percentiles hide the "
    "requests that would have come in that time; judge by an open loop."
)


def run(argv: Sequence[str]) -> int:
    """Make one run; its exit code. UsageError if it cannot be made as asked, TrialError if it broke."""
    started = datetime.now().astimezone()
    options = parse(argv, started)
    progress = Progress(sys.stderr, shutil.get_terminal_size().columns)
    try:
        trace = check_files(options.settings)
        said = "" if options.user else prepare(options.settings, options.target).said
        if options.user:
            own_user_class(options.user)
    except (RowsError, TraceError, OwnUserError) as error:
        raise UsageError(str(error)) from None
    seconds = _seconds(options, trace)
    rate = _mean_rate(options, trace, seconds)
    folder = _folder(options.out)
    progress.say(f"{options.target}: {said or f'tasks of {options.user}'}\nresults go to {options.out}")

    breached = breach.Breach(options.slo.objective, options.abort_seconds or math.inf, options.warmup_seconds)
    curve = None if options.closed_users or trace is not None else options.settings.curve()
    crew = Crew(_crew_spec(options), folder)

    def look(standing: Standing) -> bool:
        asked = math.nan if options.closed_users else rate if curve is None else curve.rate(standing.elapsed_seconds)
        text = line(standing, seconds, options.warmup_seconds, asked, options.slo.threshold_seconds)
        progress.show(text, standing.elapsed_seconds)
        return breached.lasts(standing)

    def interrupt() -> None:
        given_up = crew.interrupt()
        progress.say(_GIVEN_UP if given_up else _ENDING)

    signals = [gevent.signal_handler(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        outcome = Trial(_spec(options, trace, seconds, rate), crew, folder).run(look)
    finally:
        crew.end()
        for each in signals:
            each.cancel()
        progress.end()
    result = _result(options, outcome, rate, started)
    whole_file.write(options.out / "result.json", results.dumps(result))
    whole_file.write(options.out / "report.html", html(result))
    print(told(result))
    print(f"\nreport: {options.out / 'report.html'}")
    return EXIT_CODES[result["verdict"]]


def _seconds(options: RunOptions, trace: Trace | None) -> float:
    if options.duration_seconds is not None:
        return options.duration_seconds
    assert trace is not None
    seconds = trace.seconds / options.settings.trace_speed + 1e-3  # so that its last arrival is in
    if options.warmup_seconds >= seconds:
        raise UsageError(
            f"--warmup is {options.warmup_seconds:g}s and the trace takes {seconds:.3g} s at this speed; "
            "expected a warm-up shorter than the run"
        )
    return seconds


def _mean_rate(options: RunOptions, trace: Trace | None, seconds: float) -> float:
    """Arrivals per second that the measured part asks for."""
    span = seconds - options.warmup_seconds
    if trace is not None:
        speed = options.settings.trace_speed
        instants = [options.warmup_seconds * speed, seconds * speed]
        return sum(instants[0] <= each < instants[1] for each in trace.instants) / span
    curve = options.settings.curve()
    return (curve.expected(seconds) - curve.expected(options.warmup_seconds)) / span


def _folder(out: Path) -> Path:
    """A new folder for the samples; UsageError where a result is already."""
    if (out / "result.json").exists() or (out / SAMPLES).exists():
        raise UsageError(f"--out is {str(out)!r} and holds a run already; expected a folder without one")
    try:
        (out / SAMPLES).mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"--out is {str(out)!r}: {error.strerror or error}; expected a folder to write to") from None
    return out / SAMPLES


def _crew_spec(options: RunOptions) -> CrewSpec:
    return CrewSpec(
        target=options.target,
        closed=bool(options.closed_users),
        processes=options.processes,
        user=options.user,
        edges=options.edges,
    )


def _spec(options: RunOptions, trace: Trace | None, seconds: float, rate: float) -> TrialSpec:
    recent = RECENT_SECONDS
    if options.abort_seconds is not None:
        recent = breach.window_seconds(options.slo.objective, options.abort_seconds, rate)
    return TrialSpec(
        settings=options.settings,
        trace=trace,
        seconds=seconds,
        warmup_seconds=options.warmup_seconds,
        cap=options.closed_users or options.users or options.settings.default_cap(trace),
        threshold_seconds=options.slo.threshold_seconds,
        recent_seconds=recent,
    )


def _result(options: RunOptions, outcome: TrialOutcome, rate: float, started: datetime) -> dict[str, Any]:
    closed = bool(options.closed_users)
    settings = options.settings.as_told()
    if users := options.closed_users or options.users:
        settings["users"] = users
    if options.user:
        settings["user"] = options.user
    warmup = min(options.warmup_seconds, outcome.seconds)
    reasons = []
    if outcome.ended == "aborted":
        reasons.append(
            f"Ended early after {outcome.seconds:.1f} s, because the objective had been broken for "
            f"{options.abort_seconds:g} s."
            if options.abort_seconds is not None
            else f"Ended early after {outcome.seconds:.1f} s, because no worker of the generator was left."
        )
    seconds, excluded = outcome.seconds, []
    if outcome.ended == "interrupted":
        threshold = options.slo.threshold_seconds
        seconds = max(warmup, decided_until(outcome.samples, outcome.seconds, outcome.over_at, threshold))
        if seconds < outcome.seconds:
            why = "requests given up while they could still have been good"
            excluded.append(results.Excluded(seconds, outcome.seconds, why))
    measured = outcome.samples.between(warmup, seconds)
    return results.build(
        outcome.samples,
        results.About(
            target=options.target,
            arrivals="closed" if closed else options.settings.arrivals,
            planned_rate=None if closed else rate,
            seed=options.settings.seed,
            started_at=started.isoformat(timespec="seconds"),
            settings=settings,
            versions=about.versions(),
            host=about.host(),
            processes=options.processes,
            failures=outcome.failures,
            client_errors=client_errors(outcome.failures),
        ),
        options.slo,
        outcome.health,
        duration_seconds=seconds,
        warmup_seconds=warmup,
        ended=outcome.ended,
        excluded=excluded,
        reasons=reasons,
        notes=[_CLOSED_NOTE] if closed else [],
        series=series(outcome.samples, measured, seconds),
    )
