"""One ask measured on the service: knobs turned, what was left over settled, a load sent and judged."""

import math
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import gevent

from loadtest.analysis.intervals import Interval
from loadtest.analysis.order import quantiles
from loadtest.analysis.steady import steadiness
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Ask, Measured
from loadtest.analysis.verdict import (
    Objective,
    allowed_bad,
    judge,
)  # fmt: skip
from loadtest.outcomes import client_errors
from loadtest.run.crew import Crew
from loadtest.run.gap import decided_until
from loadtest.run.trial import Trial, TrialOutcome, TrialSpec
from loadtest.run.watch import Standing
from loadtest.settings import LoadSettings
from loadtest.tune.admin import Admin, Reading
from loadtest.tune.stages import stages
from slo import names

SETTLED_REQUESTS: Final = 1  # in flight; the health checks of others are none of ours
SETTLE_SECONDS: Final = 5.0
_SETTLE_LOOK_SECONDS: Final = 0.1
# A load may have to wait this long for its answers; beyond it nobody who tunes for a tail looks.
CAP_THRESHOLDS: Final = 20.0
LEAST_CAP: Final = 64
SURE: Final = 4.0  # standard deviations of a Poisson count


class Interrupted(Exception):
    """Somebody wants it to end; the trial under way counts for nothing."""


class Served(Protocol):
    """Whatever can be given knobs that only a restart changes."""

    def ready_for(self, knobs: Knobs) -> None: ...


class Bench:
    """Measures asks with one crew on one service."""

    def __init__(
        self,
        crew: Crew,
        admin: Admin,
        served: Served,
        settings: LoadSettings,
        slo: Objective,
        folder: Path,
        look: Callable[[Ask, Standing], None],
    ) -> None:
        """Samples of the trial under way are in `folder`. `look` is shown how it stands twice a second."""
        self._crew, self._admin, self._served = crew, admin, served
        self._settings, self._slo, self._folder, self._look = settings, slo, folder, look
        self._number = 0

    def measure(self, ask: Ask) -> Measured:
        """What came of `ask`. Interrupted; TrialError, AdminError."""
        began = time.monotonic()
        self._served.ready_for(ask.knobs)
        self._admin.turn(ask.knobs)
        before = self._settle()
        self._number += 1
        folder = self._folder / f"trial-{self._number:03d}"
        folder.mkdir()
        try:
            outcome = Trial(self._spec(ask), self._crew, folder).run(self._watching(ask))
            if outcome.ended == "interrupted":
                raise Interrupted
            found = stages(before, self._admin.reading(), outcome.over_at, outcome.health.cpu_share)
            return _measured(ask, self._slo, outcome, found, time.monotonic() - began)
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # what was asked of it is answered

    def _settle(self) -> Reading:
        """Until what an earlier trial left behind has gone."""
        end = time.monotonic() + SETTLE_SECONDS
        while True:
            reading = self._admin.reading()
            if reading.gauges.get(names.REQUESTS_IN_FLIGHT, 0.0) <= SETTLED_REQUESTS or time.monotonic() > end:
                return reading
            if self._crew.interrupts:
                raise Interrupted
            gevent.sleep(_SETTLE_LOOK_SECONDS)

    def _spec(self, ask: Ask) -> TrialSpec:
        settings = self._settings.with_values({"arrivals": "poisson", "rate": ask.rate, "seed": ask.seed})
        enough = math.ceil(CAP_THRESHOLDS * self._slo.threshold_seconds * ask.rate)
        seconds = ask.warmup_seconds + ask.seconds
        return TrialSpec(
            settings=settings,
            trace=None,
            seconds=seconds,
            warmup_seconds=ask.warmup_seconds,
            cap=max(LEAST_CAP, min(settings.default_cap(), enough)),
            threshold_seconds=self._slo.threshold_seconds,
            recent_seconds=seconds + settings.timeout_seconds,
        )

    def _watching(self, ask: Ask) -> Callable[[Standing], bool]:
        expected = max(1, round(ask.expected_arrivals))
        most_bad = allowed_bad(self._slo, round(expected + SURE * math.sqrt(expected)))
        # Whoever is due in the warm-up and not answered yet turns bad within a threshold after its end.
        settled = ask.warmup_seconds + self._slo.threshold_seconds
        before: list[int] = []  # bad ones by then

        def look(standing: Standing) -> bool:
            """Whether it can no longer pass. Not asked of a floor, whose percentile is told to people."""
            self._look(ask, standing)
            if standing.elapsed_seconds <= settled or ask.purpose == "floor":
                return False
            if not before:
                before.append(standing.recent_bad)
            return standing.recent_bad - before[0] > most_bad

        return look


def _measured(ask: Ask, slo: Objective, outcome: TrialOutcome, found: dict[str, float], seconds: float) -> Measured:
    aborted = outcome.ended == "aborted"
    start, end = min(ask.warmup_seconds, outcome.seconds), outcome.seconds
    if aborted:  # requests under way then are neither good nor bad
        end = max(start, decided_until(outcome.samples, end, outcome.over_at, slo.threshold_seconds))
    samples = outcome.samples.between(start, end)
    steady = None if aborted else steadiness(outcome.samples, start, end)
    errors = client_errors(outcome.failures)
    judged = judge(samples, slo, outcome.health, steadiness=steady, client_errors=errors)
    span = max(end - start, 1e-9)
    totals = samples.total_seconds
    p50, p95, point = quantiles(totals, (0.5, 0.95, slo.objective)) if len(samples) else (math.nan,) * 3
    interval = judged.interval or Interval(0.0, math.inf, 0.0)
    return Measured(
        ask=ask,
        verdict=judged.verdict,
        reasons=tuple(judged.reasons),
        offered=len(samples),
        achieved_rate=len(samples) / span,
        good_rate=judged.good / span,
        p50=p50,
        p95=p95,
        p99=point,
        p99_interval=(interval.low, interval.high),
        backlog_grows=steady is not None and steady.grows,
        seconds=seconds,
        limit="generator" if judged.generator_at_fault else None,
        stages=found,
        aborted=aborted,
    )
