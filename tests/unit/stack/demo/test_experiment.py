"""The judge against scripted worlds: one in which all goes well, and each way in which it can go wrong."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest

from stack.demo.experiment import Action, AlertState, Experiment, Observation, Phase, Plan
from stack.demo.unchanged import Counts

PLAN = Plan(rate=500.0, quantile=0.99, threshold_seconds=0.05, alert="LatencySLOBreach", slow_rows=1, tuned_rows=128)
FAST, SLOW = 0.012, math.inf


@dataclass
class World:
    """What there is to see at each second. Seconds before the cure count from the load, the others from the cure."""

    rate: Callable[[float, float | None], float] = lambda at, cured: 500.0
    target: Callable[[float, float | None], float] = lambda at, cured: 500.0
    reached: float = 1.0  # share of what is offered
    loads: float = 1.0
    breaks: float = 3.0
    breaks_in_prometheus: float = 11.0
    fires: float = 28.0
    arrives: float = 30.0
    takes: float = 0.0
    recovers: float = 5.0
    recovers_in_prometheus: float = 31.0
    resolves: float = 65.0
    clears: float = 68.0
    relapses: float = math.inf
    cured: float | None = None
    offered: float = 0.0
    served: float = 0.0
    sees: list[Observation] = field(default_factory=list)

    def look(self, at: float) -> Observation:
        if at >= self.loads:
            self.offered += self.rate(at, self.cured)
            self.served += self.rate(at, self.cured) * self.reached
        since = at - self.cured if self.cured is not None else -1.0
        flowing = self.rate(at, self.cured) > 0
        state: AlertState = "inactive"
        if at >= self.fires and not since >= self.resolves:
            state = "firing"
        elif at >= self.breaks_in_prometheus and since < 0:
            state = "pending"
        seen = Observation(
            counts=Counts(at, self.offered, self.served, self.target(at, self.cured)),
            client_quantile=(
                (SLOW if at >= self.breaks and not self.recovers <= since < self.relapses else FAST)
                if flowing
                else None
            ),
            server_quantile=(
                (SLOW if at >= self.breaks_in_prometheus and since < self.recovers_in_prometheus else FAST)
                if flowing
                else None
            ),
            alert=state,
            arrived_at=self.arrives if at >= self.arrives else None,
            cleared_at=(self.cured or 0) + self.clears if since >= self.clears else None,
            max_batch_rows=128 if since >= self.takes else 1,
        )
        self.sees.append(seen)
        return seen


def run(world: World) -> Experiment:
    experiment = Experiment(PLAN)
    for second in range(600):
        action = experiment.observe(world.look(float(second)))
        if action is Action.FINISH:
            return experiment
        if action is Action.CURE:
            assert world.cured is None, "the cure is asked for once"
            world.cured = float(second)
    raise AssertionError(f"never finished, still waiting for {experiment.phase.value}")


def test_when_all_goes_well_each_time_is_kept_and_it_passes() -> None:
    experiment = run(World())
    assert experiment.verdict is not None
    assert experiment.verdict.passed
    assert experiment.verdict.sentence == (
        "Under one unchanged load of 500 requests/s p99 broke its SLO of 50 ms with a batch of one row, and the alert "
        "reached the inbox; with up to 128 rows p99 is 12 ms and the alert has resolved."
    )
    times = experiment.times
    assert (times.breach, times.breach_in_prometheus, times.fired, times.arrived) == (3, 11, 28, 30)
    assert times.cured == 36  # the alert was looked at for five seconds, then one look until the service had taken it
    assert (times.recovered, times.recovered_in_prometheus) == (40, 66)
    assert (times.resolved, times.cleared, times.stopped) == (100, 103, None)
    assert times.ended == 108


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"loads": math.inf}, "No request was offered within 20 s of starting the load."),
        (
            {"breaks": math.inf, "breaks_in_prometheus": math.inf},
            "The p99 did not break its SLO of 50 ms within 45 s at 500/s with a batch of 1 "
            "(clients: 12 ms, Prometheus: 12 ms).",
        ),
        (
            {"breaks_in_prometheus": math.inf},
            "The p99 did not break its SLO of 50 ms within 45 s at 500/s with a batch of 1 "
            "(clients: ∞, Prometheus: 12 ms).",
        ),
        (
            {"fires": math.inf, "arrives": math.inf},
            "The alert LatencySLOBreach did not fire within 75 s of the breach (it is pending).",
        ),
        (
            {"arrives": math.inf},
            "The alert LatencySLOBreach fired in Prometheus but did not arrive in the inbox within 45 s.",
        ),
        ({"takes": math.inf}, "The service did not take a batch of 128 within 15 s (it has 1)."),
        (
            {"recovers": math.inf},
            "The p99 did not come back inside its SLO of 50 ms within 100 s of the cure "
            "(clients: ∞, Prometheus: 12 ms).",
        ),
        (
            {"recovers_in_prometheus": math.inf},
            "The p99 did not come back inside its SLO of 50 ms within 100 s of the cure "
            "(clients: 12 ms, Prometheus: ∞).",
        ),
        (
            {"resolves": math.inf},
            "The alert LatencySLOBreach did not resolve within 120 s of the recovery.",
        ),
        (
            {"clears": math.inf},
            "The alert LatencySLOBreach resolved in Prometheus but that did not arrive in the inbox within 45 s.",
        ),
        (
            {"relapses": 66.0},
            "The alert LatencySLOBreach resolved, but the p99 did not stay inside its SLO of 50 ms: ∞ 20 s later.",
        ),
        (
            {"rate": lambda at, cured: 500.0 if cured is None else 0.0},
            "The alert LatencySLOBreach cleared at 100 s because the traffic stopped at 39 s (it was 500/s), "
            "not because latency recovered.",
        ),
        (
            {"rate": lambda at, cured: 500.0 if cured is None else 0.0, "resolves": math.inf},
            "The traffic stopped at 39 s (it was 500/s) and the alert LatencySLOBreach still fired 120 s later.",
        ),
        (
            {"rate": lambda at, cured: 500.0 if at < 15 else 0.0, "fires": math.inf, "arrives": math.inf},
            "The traffic stopped at 18 s (it was 500/s), before the alert LatencySLOBreach fired.",
        ),
        (
            {"rate": lambda at, cured: 500.0 if cured is None or at < cured + 66 else 0.0},
            "The traffic stopped at 104 s (it was 500/s), before the experiment had ended.",
        ),
        (
            {"rate": lambda at, cured: 500.0 if cured is None else 350.0},
            "The offered load drifted to 455/s from 28 s to 38 s; 500/s were to be offered.",
        ),
        (
            {"target": lambda at, cured: 500.0 if cured is None else 400.0},
            "The load was changed from 500/s to 400/s at 36 s.",
        ),
        (
            {"rate": lambda at, cured: 500.0 if cured is None else 465.0},  # chance over 10 s, not over 70
            "The load did not stay the same after the cure at 36 s: 465/s were offered since then instead of 500/s.",
        ),
        (
            {"reached": 0.9},
            "The load did not stay the same after the cure at 36 s: the service counted only 450/s of the 500/s "
            "offered since then.",
        ),
    ],
)
def test_whatever_does_not_happen_fails_with_one_sentence(wrong: dict[str, Any], sentence: str) -> None:
    verdict = run(World(**wrong)).verdict
    assert verdict is not None
    assert verdict.sentence == sentence
    assert not verdict.passed


def test_an_alert_that_resolves_without_load_never_passes_whenever_the_load_stops() -> None:
    for stop in range(2, 100):
        world = World(rate=lambda at, cured, stop=stop: 500.0 if at < stop else 0.0)  # type: ignore[misc]
        verdict = run(world).verdict
        assert verdict is not None, stop
        assert not verdict.passed, stop
        assert "stopped" in verdict.sentence, (stop, verdict.sentence)


def test_an_alert_that_arrived_had_fired_before_it_was_seen_to() -> None:
    times = run(World(fires=30.0, arrives=29.6)).times
    assert (times.fired, times.arrived) == (29.6, 29.6)
    times = run(World(resolves=65.0, clears=64.5)).times
    assert times.resolved == times.cleared == 99.5


def test_time_left_falls_as_the_experiment_goes_on() -> None:
    experiment, world = Experiment(PLAN), World()
    left = []
    for second in range(120):
        if experiment.observe(world.look(float(second))) is Action.CURE:
            world.cured = float(second)
        left.append(experiment.seconds_left(float(second)))
    assert left[0] == pytest.approx(119)
    assert left[-1] == 0.0
    assert all(later < earlier + 30 for earlier, later in pairwise(left))  # what took long may be quicker next


def test_after_the_verdict_nothing_changes_it() -> None:
    world = World()
    experiment = run(world)
    before = experiment.verdict
    later = replace(world.sees[-1], counts=Counts(500.0, world.offered, world.served, 0.0), client_quantile=SLOW)
    assert experiment.observe(later) is Action.FINISH
    assert experiment.verdict is before
    assert experiment.phase is Phase.OVER
