"""Submitted with `wake=False`: counted at once, but not to be taken before `wake`; answered once, come what may."""

from collections.abc import Callable
from typing import Any

import pytest

from service.batching.errors import DeadlinePassed, Draining, QueueFull
from service.batching.records import Ticket


@pytest.fixture
def stage(bench: Any) -> Callable[..., Ticket]:
    def one(rows: int = 1, group: Any = "g", timeout: float = 1.0) -> Ticket:
        ticket: Ticket = bench.ticket(rows, group, timeout)
        bench.batcher.submit(ticket, wake=False)
        return ticket

    return one


def test_not_taken_before_the_wake_and_together_after_it(bench: Any, stage: Any) -> None:
    tickets = [stage(2) for _ in range(4)]  # a full batch
    bench.clock.advance(0.5)
    assert not bench.run()
    assert bench.batcher.depth_rows == 8
    bench.batcher.wake()
    assert bench.batcher.depth_rows == 8
    assert bench.run()
    assert bench.runner.batches == [[row for ticket in tickets for row in ticket.rows]]
    bench.assert_answered(*tickets)
    assert [ticket.queue_seconds for ticket in tickets] == [pytest.approx(0.5)] * 4  # counted from the submit
    bench.assert_at_rest()


def test_others_are_not_kept_waiting(bench: Any, stage: Any) -> None:
    staged = stage()
    other = bench.submit()
    bench.clock.advance(0.01)
    assert bench.run()
    bench.assert_answered(other)
    assert bench.batcher.depth_rows == 1
    bench.batcher.wake()
    bench.clock.advance(0.01)
    assert bench.run()
    bench.assert_answered(staged)
    bench.assert_at_rest()


def test_several_groups_in_one_breath(bench: Any, stage: Any) -> None:
    tickets = [stage(1, group) for group in ("a", "b", "a")]
    bench.batcher.wake()
    bench.clock.advance(0.01)
    bench.run_all()
    assert bench.runner.groups == ["a", "b"]
    bench.assert_answered(*tickets)
    bench.assert_at_rest()


def test_a_wake_with_nothing_staged_does_nothing(bench: Any) -> None:
    bench.batcher.wake()
    ticket = bench.submit()
    bench.batcher.wake()
    bench.batcher.wake()
    assert bench.batcher.depth_rows == 1
    bench.clock.advance(0.01)
    bench.run_all()
    bench.assert_answered(ticket)
    bench.assert_at_rest()


def test_staged_rows_count_against_the_capacity(bench: Any, stage: Any) -> None:
    stage(40)
    with pytest.raises(QueueFull):
        stage(25)
    with pytest.raises(QueueFull):
        bench.submit(25)
    stage(24)
    assert bench.batcher.depth_rows == 64


def test_staged_twice_is_refused(bench: Any, stage: Any) -> None:
    ticket = stage()
    with pytest.raises(ValueError, match="submitted already"):
        bench.batcher.submit(ticket, wake=False)
    assert bench.batcher.depth_rows == 1


@pytest.mark.parametrize("wakes", [False, True])
def test_cancelled(bench: Any, stage: Any, wakes: bool) -> None:
    kept, cancelled = stage(2), stage(3)
    assert bench.batcher.cancel(cancelled)
    assert not bench.batcher.cancel(cancelled)
    assert bench.batcher.depth_rows == 2
    if not wakes:
        assert bench.batcher.cancel(kept)
        assert bench.batcher.depth_rows == 0
    bench.batcher.wake()
    bench.clock.advance(0.01)
    bench.run_all()
    assert bench.delivered == ([kept] if wakes else [])
    bench.assert_at_rest()


def test_expired(bench: Any, stage: Any) -> None:
    late, kept = stage(2, timeout=0.1), stage(3)
    bench.clock.advance(0.2)
    bench.batcher.expire()
    assert bench.delivered == [late]
    assert isinstance(late.error, DeadlinePassed)
    assert bench.batcher.depth_rows == 3
    bench.batcher.wake()
    assert bench.batcher.depth_rows == 3
    bench.run_all()
    bench.assert_answered(kept)
    assert len(bench.delivered) == 2
    bench.assert_at_rest()


def test_expired_after_the_wake(bench: Any, stage: Any) -> None:
    late = stage(2, timeout=0.1)
    bench.batcher.wake()
    bench.clock.advance(0.2)
    bench.batcher.expire()
    assert bench.delivered == [late]
    bench.assert_at_rest()


def test_a_drain_flushes_them(bench: Any, stage: Any) -> None:
    tickets = [stage(2), stage(3)]
    assert not bench.batcher.drain(timeout_seconds=0)
    with pytest.raises(Draining):
        stage()
    assert bench.run()
    assert bench.records[0].trigger == "drain"
    bench.assert_answered(*tickets)
    assert bench.batcher.drain(timeout_seconds=0)
    bench.batcher.wake()
    bench.assert_at_rest()


@pytest.mark.parametrize("released", [False, True])
def test_closing_answers_them_once(bench: Any, stage: Any, released: bool) -> None:
    tickets = [stage(2), bench.submit(), stage(3)]
    if released:
        bench.batcher.wake()
    bench.batcher.close()
    assert sorted(map(id, bench.delivered)) == sorted(map(id, tickets))
    assert all(isinstance(ticket.error, Draining) for ticket in tickets)
    assert bench.batcher.depth_rows == 0
    bench.batcher.wake()
    bench.batcher.close()
    assert len(bench.delivered) == 3
    bench.assert_at_rest()


def test_a_request_staged_alone_on_an_idle_service_goes_at_once(make_bench: Callable[..., Any]) -> None:
    bench = make_bench("adaptive")
    bench.teach()
    bench.clock.advance(1.0)
    ticket = bench.ticket()
    bench.batcher.submit(ticket, wake=False)
    bench.batcher.wake()
    assert bench.run()
    assert bench.records[0].trigger == "idle"
    bench.assert_answered(ticket)
    bench.assert_at_rest()


def test_a_wake_wakes_a_parked_thread_once(bench: Any, stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Staging wakes nobody; the release wakes one thread, if a batch is due."""
    notified: list[int] = []
    bench.batcher._free = 1
    monkeypatch.setattr(bench.batcher._work, "notify", lambda: notified.append(1))
    for _ in range(8):
        stage()
    assert notified == []
    bench.batcher.wake()
    assert notified == [1]
    bench.batcher._free = 0


def test_while_a_batch_is_in_the_model(bench: Any, stage: Any) -> None:
    """Released in the middle of one batch, they are in the next."""
    later: list[Ticket] = []

    def arrive(rows: list[Any]) -> None:
        if not later:
            later.extend(stage() for _ in range(8))
            bench.batcher.wake()

    bench.runner.during = arrive
    first = [bench.submit() for _ in range(8)]
    bench.run_all()
    assert [len(batch) for batch in bench.runner.batches] == [8, 8]
    bench.assert_answered(*first, *later)
    bench.assert_at_rest()
