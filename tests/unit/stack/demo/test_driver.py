"""The whole demo against a made-up stack on a fake clock: minutes pass in milliseconds."""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

import pytest

from loadtest.analysis.histogram import Histogram
from slo.buckets import duration_edges
from slo.config import Profile, Service
from stack.demo.driver import Driver, failed, round_rate
from stack.demo.experiment import AlertState
from stack.demo.instruments import DemoError, Mail
from stack.demo.measure import Reading
from stack.demo.record import Record
from stack.demo.settings import DemoSettings

EDGES = duration_edges(0.05)
UNIX = 1_700_000_000.0
FIXED, PER_ROW, QUEUE_SECONDS = 0.005, 0.0001, 1.0


class FakeStack:
    """A fluid model of the stack: what is offered beyond the capacity of a batch size is lost after a second.

    It is the instruments and the clock at once. The alert fires after 20 s of breach and resolves after 60 s without.
    """

    def __init__(self) -> None:
        self.time = 0.0
        self.rows = 128
        self.rate = 0.0
        self.users = 0
        self.backlog = 0.0
        self.answered = [0.0] * (len(EDGES) + 1)
        self.sum = self.lost = self.offered = self.reached = self.batches = self.batch_rows = 0.0
        self.bad_since: float | None = None
        self.good_since: float | None = 0.0
        self.alert: AlertState = "inactive"
        self.mails: list[Mail] = []
        self.calls: list[str] = []
        self.fires = True
        self.fixed = FIXED
        self.busy_until = 0.0
        self.dies_at = math.inf

    # clock

    def now(self) -> float:
        return self.time

    def unix(self) -> float:
        return UNIX + self.time

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        end = self.time + seconds
        while self.time < end - 1e-9:
            step = min(0.25, end - self.time)
            self._go(step)
            self.time += step

    def _go(self, seconds: float) -> None:
        fixed = self.fixed * (3 if self.time < self.busy_until else 1)
        capacity = self.rows / (fixed + PER_ROW * self.rows)
        rate = self.rate or (capacity if self.users else 0.0)
        arrived = rate * seconds
        done = min(self.backlog + arrived, capacity * seconds)
        lost = max(self.backlog + arrived - done - capacity * QUEUE_SECONDS, 0.0)
        self.backlog += arrived - done - lost
        latency = 0.008 + self.backlog / capacity
        if done:
            self.answered[next((i for i, edge in enumerate(EDGES) if latency <= edge), len(EDGES))] += done
        self.sum += done * latency
        self.lost += lost
        self.offered += arrived
        self.reached += done + lost
        self.batches += done / min(self.rows, 4)
        self.batch_rows += done
        self._judge(latency > 0.05 or lost > 0, rate > 0)

    def _judge(self, bad: bool, traffic: bool) -> None:
        if bad and traffic:
            self.bad_since, self.good_since = self.bad_since if self.bad_since is not None else self.time, None
        else:
            self.good_since, self.bad_since = self.good_since if self.good_since is not None else self.time, None
        if self.fires and self.bad_since is not None and self.time - self.bad_since >= 20 and self.alert != "firing":
            self.alert = "firing"
            self.mails.insert(0, Mail("LatencySLOBreach", "firing", self.unix() + 1))
        if self.alert == "firing" and self.good_since is not None and self.time - self.good_since >= 60:
            self.alert = "inactive"
            self.mails.insert(0, Mail("LatencySLOBreach", "resolved", self.unix() + 2))

    # instruments

    def open_load(self, rate: float, cap: int, seed: int) -> None:
        self.calls.append(f"open {rate:g}")
        self.rate, self.users = rate, 0

    def closed_load(self, users: int) -> None:
        self.calls.append(f"closed {users}")
        self.users = users

    def stop_load(self) -> None:
        self.calls.append("stop")
        self.rate, self.users = 0.0, 0

    def load_state(self) -> str:
        return "running" if self.rate or self.users else "stopped"

    def batching(self) -> dict[str, Any]:
        return {"policy": "adaptive", "max_batch_rows": self.rows, "max_wait_seconds": 0.005}

    def set_batching(self, knobs: Mapping[str, Any]) -> None:
        self.calls.append(f"rows {knobs['max_batch_rows']}")
        self.rows = knobs["max_batch_rows"]

    def reading(self) -> Reading:
        if self.time >= self.dies_at:
            raise DemoError("GET http://127.0.0.1:1/metrics failed: refused")
        return Reading(
            at=self.time,
            latency=Histogram(EDGES, tuple(self.answered), self.sum, self.lost),
            lateness=Histogram(EDGES, (self.offered, *[0.0] * len(EDGES))),
            offered=self.offered,
            dropped=0.0,
            in_flight=self.backlog,
            target_rate=self.rate,
            reached=self.reached,
            batches=self.batches,
            batch_rows=self.batch_rows,
            model_seconds=self.batches * self.fixed,
            max_batch_rows=self.rows,
            cost_fixed_seconds=FIXED,
            cost_per_row_seconds=PER_ROW,
        )

    def server_quantile(self) -> float | None:
        if self.good_since is not None:
            return 0.9 if self.time - self.good_since < 25 and self.mails else 0.01
        return 0.9 if self.time - (self.bad_since or 0) > 5 else 0.01

    def alert_state(self, alert: str) -> AlertState:
        return self.alert

    def inbox(self) -> list[Mail]:
        return [mail for mail in self.mails if mail.received_at <= self.unix()]


def drive(stack: FakeStack, **options: Any) -> tuple[Driver, Record, list[str]]:
    settings = DemoSettings(**options)
    slo = Service("inference", 0.99, 0.05, 30, Profile("local", (), 100, 15, 30))
    record = Record(
        slo, "LatencySLOBreach", settings.seed, "2026-01-01T00:00:00+00:00", slow_rows=settings.batch_sizes[0]
    )
    lines: list[str] = []
    return Driver(stack, stack, settings, record, lines.append, lambda: None, settings.limit_seconds), record, lines


def test_all_of_it_in_the_time_promised() -> None:
    stack = FakeStack()
    driver, record, lines = drive(stack)
    driver.run()
    assert record.verdict is not None
    assert record.verdict.passed, record.verdict.sentence
    assert stack.time < 330, "the stack takes some 15 s more, and six minutes are promised"
    assert record.capacity_rps == pytest.approx(196, abs=1)
    assert record.load_rps == 490
    # The load is started once, and nothing touches it until the experiment is over; only the batch is changed.
    first = stack.calls.index("open 490")
    assert stack.calls[:first] == ["rows 1", "closed 2", "stop"]
    assert stack.calls[first + 1] == "rows 128"
    times = record.times
    assert None not in (times.breach, times.fired, times.arrived, times.cured, times.recovered, times.resolved)
    assert times.cleared is not None
    assert times.arrived is not None
    assert times.arrived < (times.cured or 0) < times.cleared
    assert record.before is not None
    assert record.before.max_batch_rows == 1
    assert record.before.p99 == math.inf
    assert record.after is not None
    assert (record.after.max_batch_rows, record.after.slo_met) == (128, True)
    assert record.after.offered_rps == pytest.approx(record.before.offered_rps)
    assert record.batch_sizes() == [1, 8, 128]
    best = [record.largest_met(size) for size in record.batch_sizes()]
    assert [point.figures.served_rps for point in best if point] == pytest.approx([196, 1_379, 7_191], rel=0.2)
    assert all(any(not point.figures.slo_met for point in record.points(size)) for size in (1, 8, 128))
    assert record.cost_fixed_seconds == FIXED
    assert any("waiting for the alert to fire" in line and "left" in line for line in lines)


def test_a_load_that_is_given_is_not_measured() -> None:
    stack = FakeStack()
    driver, record, _ = drive(stack, load_rps=500.0)
    driver.run()
    assert record.verdict is not None
    assert record.verdict.passed
    assert (record.capacity_rps, record.load_rps) == (None, 500.0)
    assert "closed 2" not in stack.calls


@pytest.mark.parametrize(
    ("sabotage", "sentence"),
    [("stop-load", r"cleared at \d+ s because the traffic stopped"), ("halve-load", "was changed from 490/s to 240/s")],
)
def test_sabotage_fails_and_no_ramp_is_drawn(sabotage: str, sentence: str) -> None:
    stack = FakeStack()
    driver, record, _ = drive(stack, sabotage=sabotage)
    driver.run()
    assert record.verdict is not None
    assert not record.verdict.passed
    assert re.search(sentence, record.verdict.sentence)
    assert record.ramp == []
    assert record.series


def test_an_alert_that_never_fires_fails() -> None:
    stack = FakeStack()
    stack.fires = False
    driver, record, _ = drive(stack)
    driver.run()
    assert record.verdict is not None
    assert "did not fire within 75 s" in record.verdict.sentence
    assert stack.time < 120


def test_a_stack_that_is_not_quiet_or_has_no_cure_is_refused_before_any_load() -> None:
    noisy = FakeStack()
    noisy.alert = "firing"
    driver, _, _ = drive(noisy)
    with pytest.raises(DemoError, match="is firing before any load was started"):
        driver.run()
    small = FakeStack()
    small.rows = 1
    driver, _, _ = drive(small)
    with pytest.raises(DemoError, match="SERVICE_MAX_BATCH_ROWS is 1; expected more than 1"):
        driver.run()
    assert noisy.calls == small.calls == []


def test_what_was_measured_is_kept_when_a_part_dies() -> None:
    stack = FakeStack()
    stack.dies_at = 30.0
    driver, record, _ = drive(stack)
    with pytest.raises(DemoError, match="refused"):
        driver.run()
    assert len(record.series) > 15
    assert record.times.breach is not None
    assert record.verdict is None
    driver.restore()
    assert stack.calls[-2:] == ["rows 128", "stop"]


def test_the_whole_has_a_limit() -> None:
    driver, record, _ = drive(FakeStack(), limit_seconds=40.0)
    with pytest.raises(DemoError, match=r"did not finish within its 0\.666667 min"):
        driver.run()
    assert record.state == "partial"


def test_an_old_mail_is_no_news() -> None:
    stack = FakeStack()
    stack.mails = [Mail("LatencySLOBreach", "resolved", UNIX - 50), Mail("LatencySLOBreach", "firing", UNIX - 100)]
    driver, record, _ = drive(stack)
    driver.run()
    assert record.times.arrived is not None
    assert record.times.arrived > 15


def test_rates_are_rounded_to_two_digits_and_failures_are_sentences() -> None:
    assert [round_rate(rate) for rate in (13.4, 394.0, 7_449.0)] == [13.0, 390.0, 7_400.0]
    assert failed(DemoError("it broke")).sentence == "It broke."
    assert dataclasses.asdict(failed(DemoError("It broke.")))["sentence"] == "It broke."


def test_a_backlog_is_let_go_before_the_next_step() -> None:
    levels: list[tuple[float, float]] = []

    class Watched(FakeStack):
        def open_load(self, rate: float, cap: int, seed: int) -> None:
            if self.rows == 1:
                levels.append((rate, self.backlog))
            super().open_load(rate, cap, seed)

    driver, record, _ = drive(Watched(), batch_sizes=(1, 8))
    driver.run()
    rates = [point.rate for point in record.points(1)]
    at_start = [backlog for rate, backlog in levels if rate in rates]
    assert not record.points(1)[-2].figures.slo_met, "a step came after an overloaded one"
    assert len(at_start) >= len(rates) >= 4
    assert max(at_start) <= 10


def test_a_machine_on_which_batching_cannot_save_the_slo_is_told_so() -> None:
    slow, quick = FakeStack(), FakeStack()
    slow.fixed = 0.02
    for stack, told in ((slow, True), (quick, False)):
        driver, _, lines = drive(stack)
        driver.run()
        assert any("the model takes 20 ms for one row here" in line for line in lines) is told


def test_a_capacity_that_still_changes_is_measured_again() -> None:
    stack = FakeStack()
    stack.busy_until = 3.0
    driver, record, _ = drive(stack)
    driver.run()
    assert record.capacity_rps == pytest.approx(196, rel=0.05)


def test_a_slow_experiment_leaves_less_for_the_ramp_rather_than_none() -> None:
    stack = FakeStack()
    driver, record, _ = drive(stack, limit_seconds=210.0)
    driver.run()
    assert record.verdict is not None
    assert record.verdict.passed, record.verdict.sentence
    assert 180 < stack.time < 210
    assert all(len(record.points(size)) >= 3 for size in (1, 8, 128))
