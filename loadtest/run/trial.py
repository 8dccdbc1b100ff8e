"""One load, made by Locust: this process is the master, which only directs and watches; workers send.

Importing this file lets gevent take over the process, as Locust does.
"""

import logging
import math
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import gevent
from locust.env import Environment
from locust.event import Events

from loadtest.analysis.samples import Samples, joined
from loadtest.analysis.verdict import GeneratorHealth
from loadtest.arrivals import Trace
from loadtest.director import Director, sample_path
from loadtest.generator import REPORT_KEY
from loadtest.run.gap import gap, since, unmade
from loadtest.run.own_user import own_user_class
from loadtest.run.watch import Standing, Watch
from loadtest.run.workers import Workers
from loadtest.sample_file import SUFFIX, read_rows
from loadtest.settings import LoadSettings
from loadtest.user import ClosedLoopUser, OpenLoopUser
from loadtest.worker_report import WorkerReports

# Its warnings are about many users at once, and ours only wait; what happens to workers is told in the run's own words.
logging.getLogger("locust.runners").setLevel(logging.ERROR)

LOOK_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.05
JOIN_SECONDS: Final = 60.0  # for the workers to come up on a busy machine
DRAIN_SECONDS: Final = 2.0  # beyond the timeout, for requests under way at the end

Ended = Literal["complete", "aborted", "interrupted"]


class TrialError(Exception):
    """The load could not be made: one sentence."""


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """What to send, where to, for how long."""

    settings: LoadSettings
    trace: Trace | None
    target: str
    seconds: float
    warmup_seconds: float
    cap: int  # on requests in flight; in a closed loop its users
    closed: bool
    processes: int
    user: str  # FILE or FILE:CLASS with a user class of somebody's own, or nothing
    edges: tuple[float, ...]
    threshold_seconds: float
    recent_seconds: float


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """What became of the arrivals."""

    samples: Samples  # in seconds of the load's own time
    ended: Ended
    seconds: float  # that the load lasted
    over_at: float  # of its own time, when requests still under way were given up
    health: GeneratorHealth
    failures: dict[str, int]


class Trial:
    """Runs one load; `run` may be called once."""

    def __init__(self, spec: TrialSpec, folder: Path) -> None:
        """`folder` takes the samples and the workers' logs."""
        self._spec = spec
        self._folder = folder
        self._interrupts = 0

    def interrupt(self) -> bool:
        """End the load early: the first time requests under way may end, the second time they are given up; whether."""
        self._interrupts += 1
        return self._interrupts > 1

    def run(self, look: Callable[[Standing], bool]) -> TrialOutcome:
        """Make the load. `look` is shown how it stands twice a second, and may end it by saying True. TrialError."""
        spec = self._spec
        environment = Environment(
            user_classes=[self._user_class()],
            events=Events(),  # type: ignore[no-untyped-call]
            host=spec.target,
            parsed_options=Namespace(
                **spec.settings.as_dict(), stop_timeout=0.0, headless=True, enable_rebalancing=False, tags=None,
                exclude_tags=None,
            ),
        )  # fmt: skip
        runner = environment.create_master_runner("127.0.0.1", 0)
        reports = WorkerReports(spec.edges, (), time.monotonic)
        events: Any = environment.events
        events.worker_report.add_listener(lambda client_id, data: reports.receive(client_id, data[REPORT_KEY]))
        director = Director(environment)
        director.limit(None if spec.closed else spec.seconds, self._folder)
        watching = director.start()
        workers = Workers(spec.processes, runner.server.port, self._folder, spec.user.partition(":")[0])
        try:
            self._wait_for(runner, workers)
            runner.start(spec.cap, float(spec.cap))
            ended, elapsed, cpu_share = self._watch(director, workers, look)
            ended_early = len(workers.ended)
            looked_at = time.monotonic()
            stopping = gevent.spawn(runner.stop)
            while not stopping.ready() and self._interrupts < 2:
                gevent.sleep(_POLL_SECONDS)
            stopping.kill(block=False)
            over_at = elapsed + time.monotonic() - looked_at
            failures = reports.sum().kinds
        finally:
            watching.kill()
            runner.greenlet.kill(block=False)
            workers.end(at_once=self._interrupts > 1)
        seconds = min(elapsed, spec.seconds)
        samples, hung = self._samples(director, seconds)
        lost = max(len(director.lost) + hung, ended_early)  # Locust misses one only after some heartbeats
        health = GeneratorHealth(cpu_share=cpu_share, workers_lost=lost)
        return TrialOutcome(samples, ended, seconds, over_at, health, failures)

    def _user_class(self) -> Any:
        if self._spec.user:
            return own_user_class(self._spec.user)
        return ClosedLoopUser if self._spec.closed else OpenLoopUser

    def _wait_for(self, runner: Any, workers: Workers) -> None:
        end = time.monotonic() + JOIN_SECONDS
        while len(runner.clients.ready) < self._spec.processes:
            if workers.ended:
                raise TrialError(f"a generator process did not start: {workers.last_words(workers.ended[0])}")
            if self._interrupts:
                raise TrialError("interrupted before the load began")
            if time.monotonic() > end:
                raise TrialError(f"the generator's processes did not start within {JOIN_SECONDS:g} s")
            gevent.sleep(_POLL_SECONDS)

    def _watch(
        self, director: Director, workers: Workers, look: Callable[[Standing], bool]
    ) -> tuple[Ended, float, float]:
        """Look on until the load is over; how it ended, its length, and the busiest worker's share of a core."""
        spec = self._spec
        watch = Watch(self._folder, spec.threshold_seconds, spec.recent_seconds)
        marked = False
        begin_by = time.monotonic() + JOIN_SECONDS
        while True:
            gevent.sleep(LOOK_SECONDS)
            now = time.monotonic()
            standing = watch.look(now)
            if director.problems:
                raise TrialError(director.problems[0])
            if not standing.started:
                if now > begin_by or len(workers.ended) == spec.processes:
                    raise TrialError(f"the load did not begin: {workers.last_words(0)}")
                if self._interrupts:
                    raise TrialError("interrupted before the load began")
                continue
            elapsed = standing.elapsed_seconds
            if not marked and elapsed >= spec.warmup_seconds:
                workers.mark(now)
                marked = True
            over = elapsed >= spec.seconds
            drained = standing.in_flight == 0 or elapsed >= spec.seconds + spec.settings.timeout_seconds + DRAIN_SECONDS
            asked = look(standing)
            if over and (drained or spec.closed):
                return "complete", elapsed, workers.cpu_share(now)
            if len(workers.ended) == spec.processes:
                return "aborted", elapsed, workers.cpu_share(now)
            if self._interrupts > (1 if over else 0):  # after the end requests under way have their time already
                return "interrupted", elapsed, workers.cpu_share(now)
            if asked and not over:
                return "aborted", elapsed, workers.cpu_share(now)

    def _samples(self, director: Director, seconds: float) -> tuple[Samples, int]:
        """All arrivals, and for the workers that were lost those that they would have made.

        And how many workers were lost that nobody had missed yet, because they hung or went just before the end.
        """
        spec = self._spec
        files = {path: read_rows(path) for path in sorted(self._folder.glob("*" + SUFFIX))}
        parts = {path: since(began, rows) for path, (began, rows) in files.items()}

        def last(worker: str) -> float:
            made = parts.get(sample_path(self._folder, worker))
            return float(made["scheduled"][-1]) if made is not None and len(made) else -math.inf

        if spec.closed:
            return joined(parts.values()), 0
        gaps = [
            gap(spec.settings.plan(each.share, each.begun, spec.trace), last(each.id), min(each.until, seconds))
            for each in director.lost
        ]
        # Those that a second Ctrl-C ended may have had some to release yet, and word of new shares may have come late.
        dealt = {} if self._interrupts > 1 or director.lost else director.dealt
        ends = [
            unmade(spec.settings.plan(share, begun, spec.trace), last(worker), seconds)
            for worker, (share, begun) in dealt.items()
        ]
        return joined([*parts.values(), *gaps, *ends]), sum(len(each) > 0 for each in ends)
