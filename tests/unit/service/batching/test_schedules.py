"""Random schedules: whatever is staged, cancelled, late, poisoned or drained, nothing is lost or answered twice."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.batching.errors import BatcherError, ModelDown, ModelFailed
from service.batching.policy import Knobs
from service.batching.records import Ticket

POISON = 1 << 40
GROUPS = ("a", "b")

submits = st.tuples(
    st.just("submit"),
    st.integers(1, 30),  # rows
    st.sampled_from(GROUPS),
    st.sampled_from([0.004, 0.02, 10.0]),  # timeout
    st.sampled_from(["good", "good", "good", "poison"]),
    st.booleans(),  # False: staged, and released by a later wake
)
actions = st.one_of(
    submits,
    submits,
    submits,
    st.tuples(st.just("advance"), st.sampled_from([0.0001, 0.003, 0.03])),
    st.tuples(st.just("run"), st.integers(0, 1)),
    st.tuples(st.just("run"), st.integers(0, 1)),
    st.tuples(st.just("wake")),
    st.tuples(st.just("expire")),
    st.tuples(st.just("cancel"), st.integers(0, 200)),
    st.tuples(
        st.just("knobs"),
        st.sampled_from(["adaptive", "fixed"]),
        st.sampled_from([1, 8, 16]),
        st.sampled_from([0.0, 0.005]),
    ),
    st.tuples(st.just("model"), st.sampled_from(["works", "dies", "miscounts"])),
    st.tuples(st.just("drain")),
)


class Schedule:
    """Drives a batcher; while a batch is in the model, the next few actions happen in the middle of it."""

    def __init__(self, bench: Any, steps: list[tuple[Any, ...]]) -> None:
        self.bench = bench
        self.steps = iter(steps)
        self.accepted: list[Ticket] = []
        self.staged: set[int] = set()
        self.cancelled: set[int] = set()
        self.model = "works"
        self.busy: set[int] = set()
        self.broken: list[AssertionError] = []
        for number, runner in enumerate(bench.runners):
            runner.during = lambda rows, number=number: self.while_running(rows, number)
            runner.answer = self.answer

    def answer(self, rows: list[Any]) -> list[Any]:
        if self.model == "dies":
            raise ModelDown("died")
        if any(row >= POISON for row in rows):
            raise ModelFailed("poison")
        return [2 * row for row in rows[: -1 if self.model == "miscounts" else None]]

    def while_running(self, rows: list[Any], number: int) -> None:
        if not self.staged.isdisjoint(rows):
            self.broken.append(AssertionError("taken before its release"))
        for _ in range(2):
            step = next(self.steps, None)
            if step is not None:
                try:
                    self.do(step)
                except AssertionError as error:  # the batcher would take it for the model's
                    self.broken.append(error)

    def do(self, step: tuple[Any, ...]) -> None:
        kind, *values = step
        bench, batcher = self.bench, self.bench.batcher
        if kind == "submit":
            rows, group, timeout, quality, wake = values
            ticket = bench.ticket(rows, group, timeout)
            if quality == "poison":
                ticket.rows[rows // 2] += POISON
            depth = batcher.depth_rows
            try:
                batcher.submit(ticket, wake)
            except BatcherError:
                assert batcher.depth_rows == depth
            else:
                self.accepted.append(ticket)
                if not wake:
                    self.staged.update(ticket.rows)
                assert batcher.depth_rows == depth + rows <= batcher.capacity_rows
        elif kind == "advance":
            bench.clock.advance(values[0])
        elif kind == "run":
            number = values[0] % len(bench.runners)
            if number not in self.busy:
                self.busy.add(number)
                calls = len(bench.runners[number].batches)
                limit = batcher.knobs.max_batch_rows
                batcher.run_once(bench.runners[number])
                assert all(len(batch) <= limit for batch in bench.runners[number].batches[calls:])
                self.busy.discard(number)
        elif kind == "wake":
            depth = batcher.depth_rows
            batcher.wake()
            assert batcher.depth_rows == depth
            self.staged.clear()
        elif kind == "expire":
            batcher.expire()
        elif kind == "cancel" and self.accepted:
            ticket = self.accepted[values[0] % len(self.accepted)]
            before = ticket in bench.delivered
            if batcher.cancel(ticket):
                assert not before
                self.cancelled.add(id(ticket))
        elif kind == "knobs":
            batcher.knobs = Knobs(*values)
        elif kind == "model":
            self.model = values[0]
        elif kind == "drain":
            self.staged.clear()
            batcher.drain(timeout_seconds=0)

    def finish(self) -> None:
        for step in self.steps:
            self.do(step)
        self.model = "works"
        self.do(("wake",))
        for _ in range(10_000):
            if not self.bench.batcher.depth_rows:
                break
            self.do(("advance", 0.01))
            self.do(("run", 0))

    def check(self) -> None:
        bench = self.bench
        assert not self.broken
        bench.assert_at_rest()
        delivered = [id(ticket) for ticket in bench.delivered]
        assert len(delivered) == len(set(delivered)), "answered twice"
        kept = {id(ticket) for ticket in self.accepted} - self.cancelled
        assert set(delivered) == kept, "lost, or answered after its client had gone"
        for ticket in bench.delivered:
            assert (ticket.error is None) != (ticket.result is None)
            if ticket.result is not None:
                assert list(ticket.result) == [2 * row for row in ticket.rows]
            if any(row >= POISON for row in ticket.rows):
                assert ticket.error is not None


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(actions, max_size=80),
    st.sampled_from(["adaptive", "fixed"]),
    st.integers(1, 2),
    st.booleans(),
)
def test_nothing_is_lost_nothing_answered_twice(
    make_bench: Any, steps: list[tuple[Any, ...]], policy: str, workers: int, taught: bool
) -> None:
    bench = make_bench(policy, workers=workers)
    if taught:
        bench.teach()
    schedule = Schedule(bench, steps)
    schedule.finish()
    schedule.check()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(1, 30), st.sampled_from(GROUPS), st.sampled_from([0.0, 0.001, 0.02])), max_size=40)
)
def test_first_in_first_out_within_a_group(make_bench: Any, arrivals: list[tuple[int, str, float]]) -> None:
    bench = make_bench("adaptive", capacity=100_000)
    sent: dict[str, list[int]] = {group: [] for group in GROUPS}
    for rows, group, pause in arrivals:
        ticket = bench.submit(rows, group, timeout=1000.0)
        sent[group] += ticket.rows
        bench.clock.advance(pause)
        bench.run()
    bench.clock.advance(1.0)
    bench.run_all()
    for group in GROUPS:
        ran = [
            row
            for batch, key in zip(bench.runner.batches, bench.runner.groups, strict=True)
            if key == group
            for row in batch
        ]
        assert ran == sent[group]
    bench.assert_at_rest()
