"""Drives the ramp: for each batch size, step by step up to the knee and beyond, with the backlog gone in between."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from stack.demo.experiment import Verdict
from stack.demo.measure import Reading, between
from stack.demo.ramp import measure_seconds, next_rate
from stack.demo.record import Figures, RampPoint, Record
from stack.demo.settings import MOST_IN_FLIGHT, DemoSettings
from stack.demo.words import clock_text, rate_text, rows_name, rows_text, seconds_text

SETTLE_SECONDS: Final = 1.5  # at a new rate before it is measured
CALM_SECONDS: Final = 5.0  # longest wait for the backlog of an overloaded step
CALM_IN_FLIGHT: Final = 10
OVERHEAD_SECONDS: Final = 1.0  # of a step: requests to Locust and the service, the backlog
ENOUGH_STEPS: Final = 3  # fewer draw no curve
FIRST_OVER_CAPACITY: Final = 0.5
NEXT_OVER_MOST: Final = 0.8  # a larger batch begins a little below the most that the smaller one served
POLL_SECONDS: Final = 0.25


class Instruments(Protocol):
    """What the ramp needs of a running stack."""

    def open_load(self, rate: float, cap: int, seed: int) -> None: ...
    def set_batching(self, knobs: Mapping[str, Any]) -> None: ...
    def reading(self) -> Reading: ...


class Clock(Protocol):
    def now(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


class Climb:
    """One ramp; its points go into the record as they are measured."""

    def __init__(
        self,
        instruments: Instruments,
        clock: Clock,
        settings: DemoSettings,
        record: Record,
        say: Callable[[str], None],
        still_going: Callable[[], None],
    ) -> None:
        self._instruments = instruments
        self._clock = clock
        self._settings = settings
        self._record = record
        self._say = say
        self._still_going = still_going
        self._ends = 0.0

    def run(self, capacity_rps: float, latest: float) -> None:
        """All batch sizes, each with its share of the time; `capacity_rps` is that of the smallest.

        An experiment that took long leaves less for the ramp: it ends by `latest`, on the clock.
        """
        settings = self._settings
        self._ends = min(self._clock.now() + settings.ramp_seconds, latest)
        first = FIRST_OVER_CAPACITY * capacity_rps
        for index, size in enumerate(settings.batch_sizes):
            share = (self._ends - self._clock.now()) / (len(settings.batch_sizes) - index)
            self._one_size(size, first, self._clock.now() + share)
            most = max((point.figures.served_rps for point in self._record.points(size)), default=0.0)
            first = max(first, NEXT_OVER_MOST * most)

    def fault(self) -> Verdict | None:
        """A failed verdict if a batch size has no curve to show."""
        for size in self._settings.batch_sizes:
            steps = len(self._record.points(size))
            if steps < ENOUGH_STEPS:
                return Verdict(
                    False,
                    f"The experiment passed, but the ramp measured only {steps} rates with a batch of "
                    f"{rows_name(size)}, too few for a curve.",
                )
        return None

    def _one_size(self, size: int, first_rate: float, ends: float) -> None:
        self._say(f"Ramp with a batch of {rows_name(size)}; about {clock_text(self._ends - self._clock.now())} left")
        self._calm(first_rate)
        self._instruments.set_batching({**self._record.tuned, "max_batch_rows": size})
        while True:
            steps = [point.step for point in self._record.points(size)]
            likely = max((step.rate for step in steps), default=first_rate)
            step_seconds = SETTLE_SECONDS + OVERHEAD_SECONDS + measure_seconds(likely)
            left = math.floor((ends - self._clock.now()) / step_seconds)
            # A curve needs its first steps even where the time is short.
            rate = next_rate(steps, first_rate, max(left, ENOUGH_STEPS - len(steps)))
            if rate is None:
                return
            self._record.ramp.append(self._measure(round(rate)))

    def _measure(self, rate: float) -> RampPoint:
        self._instruments.open_load(rate, MOST_IN_FLIGHT, self._settings.seed)
        self._wait(SETTLE_SECONDS)
        start = self._instruments.reading()
        self._wait(measure_seconds(rate))
        figures = Figures.of(between(start, self._instruments.reading()), self._record.slo)
        self._say(
            f"  {rate_text(figures.offered_rps):>6}/s offered, {rate_text(figures.served_rps):>6}/s served: p99 "
            f"{figures.p99_text}, mean {seconds_text(figures.mean)}, batches of {rows_text(figures.mean_batch_rows)}"
            f"{'' if figures.slo_met else '  (SLO broken)'}"
        )
        if not figures.slo_met:
            self._calm(rate)
        return RampPoint(rate, figures)

    def _calm(self, rate: float) -> None:
        """A trickle of load until the backlog is gone, so that the next step starts level."""
        self._instruments.open_load(max(round(rate / 10), 1), MOST_IN_FLIGHT, self._settings.seed)
        began = self._clock.now()
        while self._clock.now() - began < CALM_SECONDS:
            self._wait(POLL_SECONDS)
            if self._instruments.reading().in_flight <= CALM_IN_FLIGHT:
                return

    def _wait(self, seconds: float) -> None:
        """Sleeps in short pieces, so that trouble shows at once."""
        ends = self._clock.now() + seconds
        while (left := ends - self._clock.now()) > 0:
            self._still_going()
            self._clock.sleep(min(left, 1.0))
