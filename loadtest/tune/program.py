"""Composition root of `python -m loadtest tune`: options in, frontier.json, tuned.env and report.html out.

Importing this file lets gevent take over the process, as Locust does.
"""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import gevent

from loadtest import whole_file
from loadtest.analysis.report import tuned
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.grid import Grid
from loadtest.analysis.tuner.knobs import Knobs, Space
from loadtest.analysis.tuner.proposer import Proposer
from loadtest.analysis.tuner.trial import Ask
from loadtest.analysis.tuner.tuner import Tuner
from loadtest.errors import CannotGoOn, UsageError
from loadtest.prepared import check_files, prepare
from loadtest.rows import RowsError
from loadtest.run import about
from loadtest.run.crew import Crew, CrewSpec
from loadtest.run.progress import Progress
from loadtest.run.watch import Standing
from loadtest.tune import telling
from loadtest.tune.admin import Admin, AdminError
from loadtest.tune.measuring import Bench, Interrupted
from loadtest.tune.options import SETTINGS, TuneOptions, parse
from loadtest.tune.served import OwnService, RunningService
from slo import names

EXIT_CODES: Final = {"chosen": 0, "generator_limited": 0, "cannot_meet": 1, "too_slow": 2, "partial": 2}
OUT: Final = Path("out/tune")
FILES: Final = ("frontier.json", "tuned.env", "report.html")
MOST_ROWS: Final = 1024  # in a batch, of a service that does not say what it takes
_NOT_RESTORED: Final = 2
_NICE: Final = 10  # of this process beside the generators, which must be punctual
_ENDING: Final = "ending early: what was measured is kept, the knobs are set back"
_HURRIED: Final = "that is being done already"


def run(argv: Sequence[str]) -> int:
    """Make one search; its exit code. UsageError, CannotGoOn."""
    started = datetime.now().astimezone()
    options = parse(argv, sorted(os.sched_getaffinity(0)))
    try:
        check_files(options.settings)
    except RowsError as error:
        raise UsageError(str(error)) from None
    if options.dry_run and options.own_service:
        print(telling.plan(options, options.space(_most_rows())))
        return 0
    progress = Progress(sys.stderr, shutil.get_terminal_size().columns)
    with contextlib.ExitStack() as ends:
        ends.callback(progress.end)
        search = _Search(options, progress, started, ends)
        if options.dry_run:
            print(telling.plan(options, search.space))
            return 0
        return search.run()


class _Search:
    """One search on one service."""

    def __init__(self, options: TuneOptions, progress: Progress, started: datetime, ends: contextlib.ExitStack) -> None:
        """Finds the service, or starts one; `ends` gets what is to be done at the end."""
        self._options, self._progress, self._started, self._ends = options, progress, started, ends
        self._restored = False
        self._host = about.host()  # before this process keeps to some of its CPUs
        own = _own(options, ends) if options.own_service else None
        self._target = own.url if own else options.target
        self._admin = Admin(own.admin_url if own else options.admin, own.token if own else options.token)
        self._served = own or RunningService()
        if own is not None:
            progress.say("starting a service for this")
            self._served.ready_for(Knobs(1, 0.0, workers=options.workers[0], runtime=next(iter(options.models), None)))
        self._before = self._admin.knobs()
        reading = self._admin.reading()
        self._model = reading.model or self._target
        capacity = reading.gauges.get(names.QUEUE_CAPACITY_ROWS)
        self.space: Final[Space] = options.space(int(capacity or MOST_ROWS))

    def run(self) -> int:
        options = self._options
        try:
            said = prepare(options.settings, self._target).said
        except RowsError as error:
            raise UsageError(str(error)) from None
        self._admin.turn(self._before)  # a token that is not taken is told now and not after a trial
        out = _folder(options.out)
        self._progress.say(f"{self._target}: {said}\n{telling.plan(options, self.space)}\nresults go to {out}")
        crew = self._crew()
        # Until everything is written: a signal in between would have the default action, and lose it.
        self._ends.enter_context(_signals(crew, self._progress))
        return self._conclude(self._found(self._proposer(), crew), out)

    def _proposer(self) -> Proposer:
        options = self._options
        make = Grid if options.grid else Tuner
        return make(
            self.space,
            options.slo,
            options.budget_seconds,
            first_rate=options.settings.rate,
            seed=options.settings.seed,
        )

    def _crew(self) -> Crew:
        """The generator's processes, on their CPUs; this one keeps to the others."""
        options = self._options
        self._folder = Path(self._ends.enter_context(tempfile.TemporaryDirectory(prefix="tailboard-tune-")))
        # A load is stopped when its requests have ended, or when it no longer matters how they do.
        spec = CrewSpec(self._target, False, options.processes, "", options.edges, grace_seconds=0.0)
        here = os.sched_getaffinity(0)
        if options.cpus:
            os.sched_setaffinity(0, options.cpus)  # the generators inherit it
        crew = Crew(spec, self._folder)
        self._ends.callback(crew.end)
        if apart := here - set(options.cpus):
            os.sched_setaffinity(0, apart)  # to direct and to watch is not to make a generator late
        if len(self.space.workers) * len(self.space.runtimes) == 1:  # or a service started anew would inherit it
            os.nice(_NICE)
        return crew

    def _found(self, proposer: Proposer, crew: Crew) -> Found:
        """Measure what is proposed until all is found or somebody has enough; the knobs are as before afterwards."""
        bench = Bench(
            *(crew, self._admin, self._served, self._options.settings, self._options.slo, self._folder),
            self._look(proposer),
        )
        try:
            while isinstance(ask := proposer.next(), Ask):
                if crew.interrupts:
                    raise Interrupted
                measured = bench.measure(ask)
                proposer.take(measured)
                self._progress.say(telling.trial(measured, self._options.slo))
            return ask
        except Interrupted:
            return proposer.interrupted()
        except CannotGoOn as error:
            if not proposer.trials:
                raise
            return replace(proposer.interrupted(), why=f"It broke off: {error}.")
        finally:
            self._restore()

    def _look(self, proposer: Proposer) -> Any:
        def look(ask: Ask, standing: Standing) -> None:
            line = telling.line(
                ask, standing, proposer.best(), proposer.left_seconds(), proposer.budget.left_seconds, self._options.slo
            )
            self._progress.show(line, time.monotonic())

        return look

    def _restore(self) -> None:
        """The knobs as they were; said if that fails, because whatever went wrong before says more."""
        if isinstance(self._served, OwnService):
            return
        try:
            self._admin.turn(self._before)
            self._restored = True
        except AdminError as error:
            self._progress.say(f"the knobs could not be set back to {self._before.told()}: {error}")

    def _conclude(self, found: Found, out: Path) -> int:
        options = self._options
        said = tuned.About(
            target=self._target,
            model=self._model,
            job=options.job,
            started_at=self._started.isoformat(timespec="seconds"),
            host=self._host,
            versions=about.versions(),
            budget_seconds=options.budget_seconds,
            processes=options.processes,
            seed=options.settings.seed,
            settings={name: value for name, value in options.settings.as_told().items() if name in SETTINGS},
            models=options.models,
        )
        written = [out / "frontier.json"]
        whole_file.write(written[0], tuned.dumps(found, said))  # first: all else can be made from it
        if (environment := tuned.tuned_env(found, said)) is not None:
            whole_file.write(out / "tuned.env", environment)
            written.append(out / "tuned.env")
        whole_file.write(out / "report.html", tuned.html(found, said, options.target_rate))
        written.append(out / "report.html")
        print(telling.conclusion(found, said))
        if found.confirmed and options.apply and found.knobs is not None:
            self._admin.turn(found.knobs)
            print(f"the service now runs with {found.knobs.told()}")
        elif self._restored:
            print(f"the service runs with what it had: {self._before.told()}")
        print("\n" + "\n".join(map(str, written)))
        return EXIT_CODES[found.kind] if self._restored or options.own_service else _NOT_RESTORED


def _most_rows() -> int:
    """What a service of our own would take, before it runs."""
    asked = os.environ.get("SERVICE_QUEUE_CAPACITY_ROWS", "").strip()
    return int(asked) if asked.isdigit() else MOST_ROWS


def _own(options: TuneOptions, ends: contextlib.ExitStack) -> OwnService:
    logs = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="tailboard-service-")))
    here = os.sched_getaffinity(0)
    apart = sorted(here - set(options.cpus)) or sorted(here)
    service = OwnService(os.environ, options.models, apart, logs / "service.log")
    ends.callback(service.end)
    return service


@contextlib.contextmanager
def _signals(crew: Crew, progress: Progress) -> Iterator[None]:
    def interrupt() -> None:
        progress.say(_HURRIED if crew.interrupt() else _ENDING)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = [gevent.signal_handler(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for each in handlers:
            each.cancel()


def _folder(asked: Path | None) -> Path:
    """A folder for the results; UsageError where some are already, unless nobody asked for just that one."""
    out = asked or OUT
    try:
        if any((out / name).exists() for name in FILES):
            if asked is not None:
                raise UsageError(f"--out is {str(out)!r} and holds a search already; expected a folder without one")
            made = datetime.fromtimestamp(out.stat().st_mtime).astimezone()
            out.rename(out.with_name(f"{out.name}-{made:%Y%m%d-%H%M%S}"))
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out is {str(out)!r}: {error.strerror or error}; expected a folder to write to") from None
    return out
