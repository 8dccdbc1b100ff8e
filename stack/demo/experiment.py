"""The experiment's judge: observations in, actions and a verdict out. No clock, no network.

One load is started and never touched again. Under it p99 must break its SLO, the alert must fire and reach the inbox,
the tuned batch is set, and *under the same load* p99 must recover and the alert resolve. Anything that does not happen
in its time ends the experiment with one sentence that says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from stack.demo.unchanged import Counts, UnchangedLoad
from stack.demo.words import quantile_name, rate_text, rows_name, seconds_text

AlertState = Literal["inactive", "pending", "firing"]


class Phase(Enum):
    """What the experiment is waiting for; the value is how a person is told."""

    LOADING = "the load to arrive"
    BREACHING = "p99 to break its SLO"
    FIRING = "the alert to fire"
    DELIVERING = "the alert to arrive in the inbox"
    DWELLING = "a moment under the firing alert"
    CURING = "the service to take the tuned batch"
    RECOVERING = "p99 to come back inside its SLO"
    RESOLVING = "the alert to resolve"
    CLEARING = "'resolved' to arrive in the inbox"
    STAYING = "proof that the load runs on and p99 stays"
    STOPPED = "the alert to clear, now that the load has stopped"
    OVER = "nothing more"


# How long each phase takes when all is well, in order: for the time left on the terminal.
TYPICAL_SECONDS: Final[Mapping[Phase, float]] = {
    Phase.LOADING: 2,
    Phase.BREACHING: 12,
    Phase.FIRING: 20,
    Phase.DELIVERING: 4,
    Phase.DWELLING: 5,
    Phase.CURING: 1,
    Phase.RECOVERING: 25,
    Phase.RESOLVING: 40,
    Phase.CLEARING: 5,
    Phase.STAYING: 5,
}


class Action(Enum):
    """What the driver is to do next."""

    WAIT = "look again"
    CURE = "set the tuned batch, and leave the load alone"
    FINISH = "read the verdict"


@dataclass(frozen=True, slots=True)
class Limits:
    """Longest that each step may take, in seconds since the step before it."""

    load_seconds: float = 20.0
    breach_seconds: float = 45.0
    fire_seconds: float = 75.0
    deliver_seconds: float = 45.0
    dwell_seconds: float = 5.0  # the alert is looked at for so long before the cure
    cure_seconds: float = 15.0
    recover_seconds: float = 100.0
    resolve_seconds: float = 120.0
    clear_seconds: float = 45.0
    stay_seconds: float = 5.0  # watched after 'resolved'; four times this until p99 must be inside again


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run."""

    rate: float  # arrivals per second
    quantile: float  # that has to be inside the threshold: the objective
    threshold_seconds: float
    alert: str
    slow_rows: int
    tuned_rows: int
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Observation:
    """What is to be seen at one instant; instants are seconds since the load was started."""

    counts: Counts
    client_quantile: float | None  # over the last few seconds, lost arrivals as inf; None without traffic
    server_quantile: float | None  # the service's own, from Prometheus
    alert: AlertState
    arrived_at: float | None  # of 'firing' in the inbox
    cleared_at: float | None  # of 'resolved' in the inbox
    max_batch_rows: int

    @property
    def at(self) -> float:
        return self.counts.at


@dataclass(slots=True)
class Times:
    """When each thing happened, in seconds since the load was started; None: it did not."""

    breach: float | None = None  # in the clients' own histogram
    breach_in_prometheus: float | None = None
    fired: float | None = None
    arrived: float | None = None
    cured: float | None = None
    recovered: float | None = None  # in the clients' own histogram
    recovered_in_prometheus: float | None = None
    resolved: float | None = None
    cleared: float | None = None
    stopped: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    passed: bool
    sentence: str


class Experiment:
    """Feed it observations in order and do what it answers; after FINISH, `verdict` is set."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.phase = Phase.LOADING
        self.since = 0.0  # when the phase began
        self.times = Times()
        self.verdict: Verdict | None = None
        self._load = UnchangedLoad(plan.rate)
        self._at_cure: Counts | None = None

    def observe(self, now: Observation) -> Action:
        """Judges one observation; several steps may be taken on the same one."""
        self._watch_load(now)
        while self.verdict is None:
            before = self.phase
            self._advance(now)
            if self.phase is Phase.CURING and before is not Phase.CURING:
                return Action.CURE
            if self.phase is before:
                return Action.WAIT
        return Action.FINISH

    def seconds_left(self, at: float) -> float:
        """Expected time to the end, if the rest goes as it usually does."""
        order = list(TYPICAL_SECONDS)
        if self.phase not in order:
            return 0.0
        rest = order[order.index(self.phase) + 1 :]
        return max(TYPICAL_SECONDS[self.phase] - (at - self.since), 1.0) + sum(TYPICAL_SECONDS[phase] for phase in rest)

    def _watch_load(self, now: Observation) -> None:
        if self.verdict is not None or (self.phase is Phase.LOADING and now.counts.offered <= 0):
            return
        self._load.see(now.counts)
        if self.phase is Phase.STOPPED:
            return
        if self._load.stopped:
            self.times.stopped = now.at
            self._enter(Phase.STOPPED, now)
        elif fault := self._load.fault():
            self._end(now, False, fault)

    def _advance(self, now: Observation) -> None:
        plan, limits, times = self.plan, self.plan.limits, self.times
        alert, slo = f"the alert {plan.alert}", f"its SLO of {seconds_text(plan.threshold_seconds)}"
        p99, clients = quantile_name(plan.quantile), seconds_text(now.client_quantile)
        prometheus = seconds_text(now.server_quantile)
        match self.phase:
            case Phase.LOADING:
                self._step(
                    now,
                    happened=now.counts.offered > 0,
                    then=Phase.BREACHING,
                    within=limits.load_seconds,
                    otherwise="no request was offered within {limit} of starting the load",
                )
            case Phase.BREACHING:
                if times.breach is None and self._broken(now.client_quantile):
                    times.breach = now.at
                if times.breach_in_prometheus is None and self._broken(now.server_quantile):
                    times.breach_in_prometheus = now.at
                self._step(
                    now,
                    happened=times.breach is not None and times.breach_in_prometheus is not None,
                    then=Phase.FIRING,
                    within=limits.breach_seconds,
                    otherwise=f"the {p99} did not break {slo} within {{limit}} at {rate_text(plan.rate)}/s with a "
                    f"batch of {plan.slow_rows} (clients: {clients}, Prometheus: {prometheus})",
                )
            case Phase.FIRING:
                fired = now.alert == "firing" or now.arrived_at is not None
                if fired:  # what has arrived had fired before it was seen to
                    times.fired = now.at if now.arrived_at is None else min(now.at, now.arrived_at)
                self._step(
                    now,
                    happened=fired,
                    then=Phase.DELIVERING,
                    within=limits.fire_seconds,
                    otherwise=f"{alert} did not fire within {{limit}} of the breach (it is {now.alert})",
                )
            case Phase.DELIVERING:
                times.arrived = now.arrived_at
                self._step(
                    now,
                    happened=now.arrived_at is not None,
                    then=Phase.DWELLING,
                    within=limits.deliver_seconds,
                    otherwise=f"{alert} fired in Prometheus but did not arrive in the inbox within {{limit}}",
                )
            case Phase.DWELLING:
                if now.at - self.since >= limits.dwell_seconds:
                    self._enter(Phase.CURING, now)
            case Phase.CURING:
                taken = now.max_batch_rows == plan.tuned_rows
                if taken:
                    times.cured, self._at_cure = now.at, now.counts
                self._step(
                    now,
                    happened=taken,
                    then=Phase.RECOVERING,
                    within=limits.cure_seconds,
                    otherwise=f"the service did not take a batch of {plan.tuned_rows} within {{limit}} "
                    f"(it has {now.max_batch_rows})",
                )
            case Phase.RECOVERING:
                if times.recovered is None and self._inside(now.client_quantile):
                    times.recovered = now.at
                both = self._inside(now.client_quantile) and self._inside(now.server_quantile)
                if both:
                    times.recovered_in_prometheus = now.at
                self._step(
                    now,
                    happened=both,
                    then=Phase.RESOLVING,
                    within=limits.recover_seconds,
                    otherwise=f"the {p99} did not come back inside {slo} within {{limit}} of the cure "
                    f"(clients: {clients}, Prometheus: {prometheus})",
                )
            case Phase.RESOLVING:
                resolved = now.alert != "firing"
                if resolved:
                    times.resolved = now.at if now.cleared_at is None else min(now.at, now.cleared_at)
                self._step(
                    now,
                    happened=resolved,
                    then=Phase.CLEARING,
                    within=limits.resolve_seconds,
                    otherwise=f"{alert} did not resolve within {{limit}} of the recovery",
                )
            case Phase.CLEARING:
                times.cleared = now.cleared_at
                self._step(
                    now,
                    happened=now.cleared_at is not None,
                    then=Phase.STAYING,
                    within=limits.clear_seconds,
                    otherwise=f"{alert} resolved in Prometheus but that did not arrive in the inbox within {{limit}}",
                )
            case Phase.STAYING:
                stayed = now.at - self.since >= limits.stay_seconds and self._inside(now.client_quantile)
                if stayed:
                    self._conclude(now)
                else:
                    self._step(
                        now,
                        happened=False,
                        then=Phase.OVER,
                        within=4 * limits.stay_seconds,
                        otherwise=f"{alert} resolved, but the {p99} did not stay inside {slo}: "
                        f"{clients} {{limit}} later",
                    )
            case Phase.STOPPED:
                self._after_stop(now)

    def _step(self, now: Observation, *, happened: bool, then: Phase, within: float, otherwise: str) -> None:
        """On to the next phase, or to the end when this one has lasted too long; `{limit}` becomes how long."""
        if happened:
            self._enter(then, now)
        elif now.at - self.since > within:
            self._end(now, False, otherwise.format(limit=f"{within:.0f} s"))

    def _after_stop(self, now: Observation) -> None:
        """The load is gone, so this has failed; it waits only to tell whether the alert clears for that reason."""
        alert, times = f"the alert {self.plan.alert}", self.times
        stopped = f"the traffic stopped at {times.stopped:.0f} s (it was {rate_text(self.plan.rate)}/s)"
        if times.fired is None:
            self._end(now, False, f"{stopped}, before {alert} fired")
        elif times.resolved is not None:
            self._end(now, False, f"{stopped}, before the experiment had ended")
        elif now.alert != "firing":
            self._end(now, False, f"{alert} cleared at {now.at:.0f} s because {stopped}, not because latency recovered")
        else:
            self._step(
                now,
                happened=False,
                then=Phase.OVER,
                within=self.plan.limits.resolve_seconds,
                otherwise=f"{stopped} and {alert} still fired {{limit}} later",
            )

    def _conclude(self, now: Observation) -> None:
        assert self._at_cure is not None, "the cure comes before the end"
        if fault := self._load.fault_since(self._at_cure, now.counts):
            self._end(now, False, f"the load did not stay the same after the cure at {self._at_cure.at:.0f} s: {fault}")
            return
        plan, p99 = self.plan, quantile_name(self.plan.quantile)
        self._end(
            now,
            True,
            f"under one unchanged load of {rate_text(plan.rate)} requests/s {p99} broke its SLO of "
            f"{seconds_text(plan.threshold_seconds)} with a batch of {rows_name(plan.slow_rows)}, and the alert "
            f"reached the inbox; with up to {rows_name(plan.tuned_rows)} {p99} is {seconds_text(now.client_quantile)} "
            "and the alert has resolved",
        )

    def _broken(self, seconds: float | None) -> bool:
        return seconds is not None and seconds > self.plan.threshold_seconds

    def _inside(self, seconds: float | None) -> bool:
        return seconds is not None and seconds <= self.plan.threshold_seconds

    def _enter(self, phase: Phase, now: Observation) -> None:
        self.phase, self.since = phase, now.at

    def _end(self, now: Observation, passed: bool, sentence: str) -> None:
        self.verdict = Verdict(passed, sentence[0].upper() + sentence[1:] + ".")
        self.times.ended = now.at
        self._enter(Phase.OVER, now)
