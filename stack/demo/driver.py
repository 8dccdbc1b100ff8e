"""Runs the demo on a running stack: what the slow batch can serve, the experiment under that load, the ramp.

Thin on purpose: what to do next and what it means is decided in `experiment` and `ramp`.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from stack.demo.climb import Climb
from stack.demo.experiment import Action, AlertState, Experiment, Observation, Plan, Verdict
from stack.demo.instruments import DemoError, Mail
from stack.demo.measure import Reading, Window, between
from stack.demo.record import Figures, Record, series, stretch
from stack.demo.settings import MOST_IN_FLIGHT, DemoSettings
from stack.demo.telling import news, state_line
from stack.demo.unchanged import Counts
from stack.demo.words import rate_text, rows_name, seconds_text

LOOK_SECONDS: Final = 1.0
SAY_SECONDS: Final = 5.0
RECENT_SECONDS: Final = 5.0  # the clients' p99 is of so many last seconds
CALIBRATION_SECONDS: Final = 2.0
CALIBRATION_WINDOWS: Final = 8
CALIBRATION_AGREEMENT: Final = 0.08
STOP_SECONDS: Final = 10.0
END_SECONDS: Final = 20.0  # for the last step of the ramp to overrun
ROOM: Final = 0.25  # of the SLO for one run of the model: above, two in a row leave too little for everything else


class Instruments(Protocol):
    """What the demo needs of a running stack; see `stack.demo.instruments`."""

    def open_load(self, rate: float, cap: int, seed: int) -> None: ...
    def closed_load(self, users: int) -> None: ...
    def stop_load(self) -> None: ...
    def load_state(self) -> str: ...
    def batching(self) -> dict[str, Any]: ...
    def set_batching(self, knobs: Mapping[str, Any]) -> None: ...
    def reading(self) -> Reading: ...
    def server_quantile(self) -> float | None: ...
    def alert_state(self, alert: str) -> AlertState: ...
    def inbox(self) -> Sequence[Mail]: ...


class Clock(Protocol):
    """Time as the demo needs it."""

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def unix(self) -> float:
        """The same instant as unix seconds."""
        ...

    def sleep(self, seconds: float) -> None: ...


class Driver:
    """One run. `record` is filled as it goes, so that it holds what there is whatever ends the run."""

    def __init__(
        self,
        instruments: Instruments,
        clock: Clock,
        settings: DemoSettings,
        record: Record,
        say: Callable[[str], None],
        check: Callable[[], None],
        deadline: float,
    ) -> None:
        """`check` raises when a part of the stack has died; `deadline` is on the clock."""
        self._instruments = instruments
        self._clock = clock
        self._settings = settings
        self._record = record
        self._say = say
        self._check_parts = check
        self._deadline = deadline
        self._readings: list[Reading] = []  # of the experiment; instants since the load was started

    def run(self) -> None:
        """Everything, in order; the verdict is in the record. DemoError or StackError when it cannot go on."""
        record, settings = self._record, self._settings
        self._prepare()
        rate = settings.load_rps or self._calibrate()
        try:
            self._experiment(rate)
        finally:
            self._summarize()
        if record.verdict is None or not record.verdict.passed:
            return
        passed, record.verdict = record.verdict, None
        climb = Climb(self._instruments, self._clock, settings, record, self._say, self._still_going)
        climb.run(record.capacity_rps or rate / settings.load_over_capacity, self._deadline - END_SECONDS)
        self._learn_cost()
        record.verdict = climb.fault() or passed

    def restore(self) -> None:
        """Puts the knobs back and stops the load: what a person would want to find after an interrupt."""
        if self._record.tuned:
            self._instruments.set_batching(self._record.tuned)
        self._instruments.stop_load()

    # --- before ----------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        record = self._record
        state = self._instruments.alert_state(record.alert)
        if state != "inactive":
            raise DemoError(f"the alert {record.alert} is {state} before any load was started; expected a quiet stack")
        tuned = self._instruments.batching()
        if tuned["max_batch_rows"] <= record.slow_rows:
            raise DemoError(
                f"SERVICE_MAX_BATCH_ROWS is {tuned['max_batch_rows']}; expected more than {record.slow_rows}, "
                "since going back to it is the cure"
            )
        record.tuned = tuned
        self._instruments.set_batching({"max_batch_rows": record.slow_rows})
        self._say(f"The batch is set to {rows_name(record.slow_rows)}, from {rows_name(tuned['max_batch_rows'])}.")

    def _calibrate(self) -> float:
        """The load to offer: more than is served with the slow batch, as a round number."""
        over, slow = self._settings.load_over_capacity, self._record.slow_rows
        self._say(f"Measuring what the service can do with {rows_name(slow)} at a time ...")
        self._instruments.closed_load(2 * slow)  # one batch is served while the next one waits
        window = self._steady_window()
        served, model_seconds = window.served_rps, window.mean_model_seconds or 0.0
        self._stop_load()
        if served < 1:
            raise DemoError("the service answered next to nothing while its capacity was measured; see its log")
        self._record.capacity_rps = served
        rate = round_rate(served * over)
        self._say(f"  {rate_text(served)} requests/s; the load will be {over:g} times that, {rate_text(rate)}/s.")
        threshold = self._record.slo.threshold_seconds
        if model_seconds > ROOM * threshold:
            self._say(
                f"  Note: the model takes {seconds_text(model_seconds)} for {rows_name(slow)} here. A request that "
                f"waits for one batch and rides in the next has little of {seconds_text(threshold)} left; if the cure "
                "fails, free the CPUs or serve a smaller model (SERVICE_MODEL='digits?trees=100')."
            )
        return rate

    def _steady_window(self) -> Window:
        """The last of two windows that served alike, so that what else went on for a moment does not count."""
        served = 0.0
        for _ in range(CALIBRATION_WINDOWS):
            start = self._instruments.reading()
            self._clock.sleep(CALIBRATION_SECONDS)
            window = between(start, self._instruments.reading())
            if abs(window.served_rps - served) <= CALIBRATION_AGREEMENT * window.served_rps:
                break
            served = window.served_rps
        return window

    def _stop_load(self) -> None:
        self._instruments.stop_load()
        began = self._clock.now()
        while self._instruments.load_state() not in ("stopped", "ready"):
            if self._clock.now() - began > STOP_SECONDS:
                raise DemoError(f"Locust did not stop its load within {STOP_SECONDS:.0f} s")
            self._clock.sleep(0.2)

    # --- the experiment --------------------------------------------------------------------------------------------

    def _experiment(self, rate: float) -> None:
        record, seed = self._record, self._settings.seed
        plan = Plan(
            rate=rate,
            quantile=record.slo.objective,
            threshold_seconds=record.slo.threshold_seconds,
            alert=record.alert,
            slow_rows=record.slow_rows,
            tuned_rows=int(record.tuned["max_batch_rows"]),
        )
        judge = Experiment(plan)
        record.load_rps, record.times = rate, judge.times
        base = self._instruments.reading()
        origin = base.at
        unix_origin = self._clock.unix() - (self._clock.now() - origin)
        self._readings = [dataclasses.replace(base, at=0.0)]
        self._say(f"Offering {rate_text(rate)} requests/s (Poisson, one row each, seed {seed}); this stays as it is.")
        self._instruments.open_load(rate, MOST_IN_FLIGHT, seed)
        said, action = 0.0, Action.WAIT
        while action is not Action.FINISH:
            self._until_next_look(origin)
            now = self._observe(base, unix_origin)
            before = dataclasses.replace(record, times=dataclasses.replace(judge.times))
            action = judge.observe(now)
            for line in news(before, record):
                self._say(line)
            if now.at - said >= SAY_SECONDS:
                said = now.at
                recent = Figures.of(between(self._recent(), self._readings[-1]), record.slo)
                left = judge.seconds_left(now.at) + self._settings.ramp_seconds
                self._say(state_line(now.at, recent, judge.phase, left))
            if action is Action.CURE:
                self._cure(rate)
        record.verdict = judge.verdict

    def _until_next_look(self, origin: float) -> None:
        self._still_going()
        self._clock.sleep(LOOK_SECONDS - (self._clock.now() - origin) % LOOK_SECONDS)

    def _still_going(self) -> None:
        """Raises when a part of the stack has died or the time is up."""
        self._check_parts()
        if self._clock.now() > self._deadline:
            raise DemoError(f"the demo did not finish within its {self._settings.limit_seconds / 60:g} min")

    def _observe(self, base: Reading, unix_origin: float) -> Observation:
        reading = self._instruments.reading()
        reading = dataclasses.replace(reading, at=reading.at - base.at)
        self._readings.append(reading)
        mails = [mail for mail in self._instruments.inbox() if mail.alert == self._record.alert]
        arrived = _first(mails, "firing", unix_origin)
        cleared = None if arrived is None else _first(mails, "resolved", arrived)
        return Observation(
            counts=Counts(
                at=reading.at,
                offered=reading.offered - base.offered,
                reached=reading.reached - base.reached,
                target_rate=reading.target_rate,
            ),
            client_quantile=between(self._recent(), reading).quantile(self._record.slo.objective),
            server_quantile=self._instruments.server_quantile(),
            alert=self._instruments.alert_state(self._record.alert),
            arrived_at=None if arrived is None else arrived - unix_origin,
            cleared_at=None if cleared is None else cleared - unix_origin,
            max_batch_rows=reading.max_batch_rows,
        )

    def _recent(self) -> Reading:
        """The reading from which the last few seconds count."""
        now = self._readings[-1]
        return next((r for r in reversed(self._readings) if now.at - r.at >= RECENT_SECONDS), self._readings[0])

    def _cure(self, rate: float) -> None:
        match self._settings.sabotage:
            case None:
                self._instruments.set_batching(self._record.tuned)
            case "stop-load":
                self._say("  SABOTAGE: the load is stopped instead of the tuned batch being set")
                self._instruments.stop_load()
            case "halve-load":
                self._say("  SABOTAGE: the load is halved while the tuned batch is set")
                self._instruments.open_load(round_rate(rate / 2), MOST_IN_FLIGHT, self._settings.seed)
                self._instruments.set_batching(self._record.tuned)

    # --- after -----------------------------------------------------------------------------------------------------

    def _summarize(self) -> None:
        record, times = self._record, self._record.times
        record.series = series(self._readings, record.slo)
        record.before = stretch(self._readings, times.breach, times.cured or times.ended, record.slo)
        record.after = stretch(self._readings, times.recovered, times.ended, record.slo)

    def _learn_cost(self) -> None:
        """What the service has learned about the cost of its model, for the report."""
        reading = self._instruments.reading()
        self._record.cost_fixed_seconds = reading.cost_fixed_seconds
        self._record.cost_per_row_seconds = reading.cost_per_row_seconds


def round_rate(rate: float) -> float:
    """Two digits are enough for a load, and easier to talk about."""
    digits = 1 - math.floor(math.log10(rate))
    return float(round(rate, digits))


def _first(mails: Sequence[Mail], status: str, since: float) -> float | None:
    return min(
        (mail.received_at for mail in mails if mail.status == status and mail.received_at >= since), default=None
    )


def failed(error: Exception) -> Verdict:
    """The verdict when the demo could not go on."""
    text = str(error)
    return Verdict(False, text[0].upper() + text[1:] + ("" if text.endswith(".") else "."))
