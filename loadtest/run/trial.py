"""One load made by a crew: begun, watched until it is over, and what became of its arrivals."""

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import gevent

from loadtest.analysis.samples import Samples, joined
from loadtest.analysis.verdict import GeneratorHealth
from loadtest.arrivals import Trace
from loadtest.director import sample_path
from loadtest.run.crew import JOIN_SECONDS, Crew, TrialError
from loadtest.run.gap import gap, since, unmade
from loadtest.run.watch import Standing, Watch
from loadtest.sample_file import SUFFIX, read_rows
from loadtest.settings import LoadSettings

LOOK_SECONDS: Final = 0.5
DRAIN_SECONDS: Final = 2.0  # beyond the timeout, for requests under way at the end

Ended = Literal["complete", "aborted", "interrupted"]


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """What to send, for how long."""

    settings: LoadSettings
    trace: Trace | None
    seconds: float
    warmup_seconds: float
    cap: int  # on requests in flight; in a closed loop its users
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

    def __init__(self, spec: TrialSpec, crew: Crew, folder: Path) -> None:
        """`folder` takes the samples and has none yet; the crew's processes are ready."""
        self._spec = spec
        self._crew = crew
        self._folder = folder

    def run(self, look: Callable[[Standing], bool]) -> TrialOutcome:
        """Make the load. `look` is shown how it stands twice a second, and may end it by saying True. TrialError."""
        spec, crew = self._spec, self._crew
        before, gone = crew.reports.sum().kinds, len(crew.workers.ended)
        crew.begin(spec.settings, None if crew.spec.closed else spec.seconds, spec.cap, self._folder)
        ended, elapsed, cpu_share = self._watch(look)
        ended_early = len(crew.workers.ended) - gone
        looked_at = time.monotonic()
        crew.stop()
        over_at = elapsed + time.monotonic() - looked_at
        failures = dict(Counter(crew.reports.sum().kinds) - Counter(before))
        seconds = min(elapsed, spec.seconds)
        samples, hung = self._samples(seconds)
        lost = max(len(crew.director.lost) + hung, ended_early)  # Locust misses one only after some heartbeats
        health = GeneratorHealth(cpu_share=cpu_share, workers_lost=lost)
        return TrialOutcome(samples, ended, seconds, over_at, health, failures)

    def _watch(self, look: Callable[[Standing], bool]) -> tuple[Ended, float, float]:
        """Look on until the load is over; how it ended, its length, and the busiest worker's share of a core."""
        spec, crew = self._spec, self._crew
        workers = crew.workers
        watch = Watch(self._folder, spec.threshold_seconds, spec.recent_seconds)
        marked = False
        begin_by = time.monotonic() + JOIN_SECONDS
        while True:
            gevent.sleep(LOOK_SECONDS)
            now = time.monotonic()
            standing = watch.look(now)
            if crew.director.problems:
                raise TrialError(crew.director.problems[0])
            if not standing.started:
                if now > begin_by or len(workers.ended) == crew.spec.processes:
                    raise TrialError(f"the load did not begin: {workers.last_words(0)}")
                if crew.interrupts:
                    raise TrialError("interrupted before the load began")
                continue
            elapsed = standing.elapsed_seconds
            if not marked and elapsed >= spec.warmup_seconds:
                workers.mark(now)
                marked = True
            over = elapsed >= spec.seconds
            drained = standing.in_flight == 0 or elapsed >= spec.seconds + spec.settings.timeout_seconds + DRAIN_SECONDS
            asked = look(standing)
            if over and (drained or crew.spec.closed):
                return "complete", elapsed, workers.cpu_share(now)
            if len(workers.ended) == crew.spec.processes:
                return "aborted", elapsed, workers.cpu_share(now)
            if crew.interrupts > (1 if over else 0):  # after the end requests under way have their time already
                return "interrupted", elapsed, workers.cpu_share(now)
            if asked and not over:
                return "aborted", elapsed, workers.cpu_share(now)

    def _samples(self, seconds: float) -> tuple[Samples, int]:
        """All arrivals, and for the workers that were lost those that they would have made.

        And how many workers were lost that nobody had missed yet, because they hung or went just before the end.
        """
        spec, director = self._spec, self._crew.director
        files = {path: read_rows(path) for path in sorted(self._folder.glob("*" + SUFFIX))}
        parts = {path: since(began, rows) for path, (began, rows) in files.items()}

        def last(worker: str) -> float:
            made = parts.get(sample_path(self._folder, worker))
            return float(made["scheduled"][-1]) if made is not None and len(made) else -math.inf

        if self._crew.spec.closed:
            return joined(parts.values()), 0
        gaps = [
            gap(spec.settings.plan(each.share, each.begun, spec.trace), last(each.id), min(each.until, seconds))
            for each in director.lost
        ]
        # Those that a second Ctrl-C ended may have had some to release yet, and word of new shares may have come late.
        dealt = {} if self._crew.interrupts > 1 or director.lost else director.dealt
        ends = [
            unmade(spec.settings.plan(share, begun, spec.trace), last(worker), seconds)
            for worker, (share, begun) in dealt.items()
        ]
        return joined([*parts.values(), *gaps, *ends]), sum(len(each) > 0 for each in ends)
