"""The batcher in the test's own thread: every call of run_once is one turn of a worker's loop."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from service.batching.errors import (
    DeadlinePassed,
    Draining,
    ModelDown,
    ModelFailed,
    QueueFull,
    Unlikely,
    WrongResultLength,
)
from service.batching.policy import Knobs
from service.batching.records import Ticket

MakeBench = Callable[..., Any]


# --- forming a batch -------------------------------------------------------------------------------------------------


def test_fixed_holds_a_lone_request_for_max_wait_from_its_enqueue(bench: Any) -> None:
    ticket = bench.submit()
    assert not bench.run()
    bench.clock.advance(0.0049)
    assert not bench.run()
    bench.clock.advance(0.0002)
    assert bench.run()
    bench.assert_answered(ticket)
    assert [record.trigger for record in bench.records] == ["wait"]
    bench.assert_at_rest()


def test_a_full_batch_goes_at_once_and_takes_the_oldest(bench: Any) -> None:
    tickets = [bench.submit() for _ in range(10)]
    assert bench.run()
    assert bench.runner.batches == [[ticket.rows[0] for ticket in tickets[:8]]]
    assert bench.records[0].trigger == "full"
    assert bench.batcher.depth_rows == 2
    bench.assert_answered(*tickets[:8])


def test_late_binding_a_batch_takes_all_that_came_while_the_worker_was_busy(make_bench: MakeBench) -> None:
    bench = make_bench("adaptive", max_batch_rows=128)
    later: list[Ticket] = []
    bench.runner.during = lambda rows: later.extend(bench.submit() for _ in range(20)) if len(rows) == 1 else None
    bench.submit()
    bench.run()
    bench.run()
    assert len(bench.runner.batches[1]) == 20
    bench.assert_answered(*later)


def test_groups_never_mix_and_the_oldest_goes_first(bench: Any) -> None:
    first, second, third = bench.submit(group="a"), bench.submit(group="b"), bench.submit(group="a")
    bench.clock.advance(0.01)
    bench.run_all()
    assert bench.runner.groups == ["a", "b"]
    assert bench.runner.batches == [[*first.rows, *third.rows], [*second.rows]]
    bench.assert_answered(first, second, third)


def test_the_oldest_request_decides_which_group_goes_not_the_group_that_came_first(bench: Any) -> None:
    for _ in range(8):
        bench.submit(group="a")
    bench.clock.advance(0.001)
    bench.submit(group="b")
    bench.clock.advance(0.001)
    bench.submit(group="a")
    bench.clock.advance(0.01)
    bench.run_all()
    assert bench.runner.groups == ["a", "b", "a"]


def test_a_full_group_does_not_wait_for_an_older_one_that_is_held(bench: Any) -> None:
    held = bench.submit(group="a")
    bench.clock.advance(0.001)
    for _ in range(8):
        bench.submit(group="b")
    assert bench.run()
    assert bench.runner.groups == ["b"]
    assert held.result is None


def test_a_request_that_fits_is_never_split(bench: Any) -> None:
    for rows in (5, 5, 5):
        bench.submit(rows)
    bench.clock.advance(0.01)
    bench.run_all()
    assert [len(batch) for batch in bench.runner.batches] == [5, 5, 5]


def test_requests_of_1_7_20_rows_mixed_keep_the_row_limit_and_their_order(bench: Any) -> None:
    tickets = [bench.submit(rows) for rows in (1, 7, 20, 1, 7)]
    bench.clock.advance(0.01)
    bench.run_all()
    assert max(len(batch) for batch in bench.runner.batches) <= 8
    assert [row for batch in bench.runner.batches for row in batch] == [row for t in tickets for row in t.rows]
    bench.assert_answered(*tickets)
    assert tickets[2].batch_rows == 8
    assert tickets[2].model_seconds == pytest.approx(sum(r.model_seconds for r in bench.records[1:4]))
    bench.assert_at_rest()


def test_a_split_request_is_put_together_in_order_whichever_part_comes_back_first(make_bench: MakeBench) -> None:
    bench = make_bench(workers=2, max_batch_rows=4)
    ticket = bench.submit(8)
    bench.runner.during = lambda rows: bench.batcher.run_once(bench.runners[1])  # the second part overtakes the first
    bench.run()
    assert bench.runners[1].batches == [list(ticket.rows[4:])]
    bench.assert_answered(ticket)


def test_two_workers_serve_one_queue(make_bench: MakeBench) -> None:
    bench = make_bench(workers=2)
    tickets = [bench.submit() for _ in range(16)]
    bench.runner.during = lambda rows: bench.batcher.run_once(bench.runners[1])
    bench.run()
    bench.assert_answered(*tickets)
    bench.assert_at_rest()


def test_queue_time_counts_from_enqueue_and_model_time_apart(bench: Any) -> None:
    ticket = bench.submit()
    bench.clock.advance(0.3)
    bench.run()
    assert ticket.queue_seconds == pytest.approx(0.3)
    assert ticket.model_seconds == pytest.approx(0.0051)
    assert bench.records[0].queue_waits == pytest.approx((0.3,))


# --- knobs -----------------------------------------------------------------------------------------------------------


def test_knobs_change_while_requests_wait(bench: Any) -> None:
    bench.submit()
    bench.submit()
    assert not bench.run()
    bench.batcher.knobs = Knobs("fixed", 1, 0.005)
    assert bench.run()
    assert bench.run()
    assert [len(batch) for batch in bench.runner.batches] == [1, 1]


def test_a_smaller_limit_splits_what_was_accepted_under_a_larger_one(bench: Any) -> None:
    ticket = bench.submit(6)
    bench.batcher.knobs = Knobs("fixed", 4, 0.005)
    bench.run()
    bench.clock.advance(0.01)
    bench.run_all()
    assert [len(batch) for batch in bench.runner.batches] == [4, 2]
    bench.assert_answered(ticket)


# --- admission -------------------------------------------------------------------------------------------------------


def test_a_full_queue_says_so_at_once(bench: Any) -> None:
    for _ in range(8):
        bench.submit(8)
    with pytest.raises(QueueFull, match="64 of 64 rows; no room for 1 more") as refusal:
        bench.submit()
    assert refusal.value.retry_after_seconds == 1.0  # nothing measured yet
    assert bench.batcher.depth_rows == 64
    bench.run()
    bench.submit(8)
    with pytest.raises(QueueFull) as refusal:
        bench.submit(16)
    assert refusal.value.retry_after_seconds == pytest.approx(16 / (8 / 0.0058))


def test_rows_count_against_the_capacity_not_requests(bench: Any) -> None:
    bench.submit(60)
    with pytest.raises(QueueFull):
        bench.submit(5)
    bench.submit(4)


def test_a_request_that_cannot_make_its_deadline_is_refused(bench: Any) -> None:
    bench.teach()
    for _ in range(5):
        bench.submit(8)
    with pytest.raises(Unlikely, match=r"an answer would take about 0\.035 s; the deadline leaves 0\.030 s"):
        bench.submit(timeout=0.030)
    bench.submit(timeout=0.040)


def test_a_busy_worker_counts_for_what_it_still_has_to_do(bench: Any) -> None:
    bench.teach()
    refused: list[str] = []

    def during(rows: list[Any]) -> None:
        try:
            bench.submit(timeout=0.004)
        except Unlikely:
            refused.append("unlikely")
        bench.submit(timeout=0.006)

    bench.runner.during = during
    bench.submit(8)
    bench.run()
    assert refused == ["unlikely"]


def test_an_idle_service_serves_whatever_the_estimate_says(bench: Any) -> None:
    bench.teach(fixed=5.0)
    ticket = bench.submit(timeout=0.5)
    bench.run()
    bench.assert_answered(ticket)


def test_a_passed_deadline_is_refused(bench: Any) -> None:
    with pytest.raises(Unlikely, match="passed already"):
        bench.submit(timeout=0.0)


def test_no_rows_and_no_second_submission(bench: Any) -> None:
    with pytest.raises(ValueError, match="no rows"):
        bench.submit(0)
    ticket = bench.submit()
    with pytest.raises(ValueError, match="submitted already"):
        bench.batcher.submit(ticket)


# --- deadlines and gone clients --------------------------------------------------------------------------------------


def test_a_deadline_fires_while_the_worker_is_busy_and_its_rows_never_reach_the_model(bench: Any) -> None:
    waiting: list[Ticket] = []

    def during(rows: list[Any]) -> None:
        if not waiting:
            waiting.append(bench.submit(timeout=0.1))
            bench.clock.advance(0.2)
            bench.batcher.expire()
            assert isinstance(waiting[0].error, DeadlinePassed)

    bench.runner.during = during
    first = bench.submit(8)
    bench.run()
    bench.run_all()
    assert bench.delivered == [waiting[0], first]
    assert bench.runner.batches == [list(first.rows)]
    bench.assert_at_rest()


def test_a_deadline_that_passes_inside_the_model_is_answered_on_time_and_once(bench: Any) -> None:
    ticket = bench.submit(8, timeout=0.1)

    def during(rows: list[Any]) -> None:
        bench.clock.advance(0.2)
        bench.batcher.expire()

    bench.runner.during = during
    bench.run()
    assert bench.delivered == [ticket]
    assert isinstance(ticket.error, DeadlinePassed)
    assert ticket.result is None
    bench.assert_at_rest()


def test_expire_says_when_to_look_again(bench: Any) -> None:
    assert bench.batcher.expire() == math.inf
    bench.submit(timeout=3.0)
    bench.submit(timeout=1.0)
    start = bench.clock.now
    assert bench.batcher.expire() == start + 1.0
    bench.clock.advance(1.0)
    assert bench.batcher.expire() == start + 3.0
    assert bench.batcher.depth_rows == 1
    bench.clock.advance(2.0)
    assert bench.batcher.expire() == math.inf
    bench.assert_at_rest()


def test_whoever_cannot_be_answered_in_time_does_not_cost_model_time(bench: Any) -> None:
    bench.teach()
    hopeless = [bench.submit(timeout=0.052), bench.submit(timeout=0.052)]
    fine = bench.submit()
    bench.clock.advance(0.050)
    bench.run()
    assert bench.runner.batches == [list(fine.rows)]
    assert all(isinstance(ticket.error, Unlikely) for ticket in hopeless)
    assert sorted(map(len, bench.deliveries)) == [1, 2]
    bench.assert_at_rest()


def test_the_last_one_is_served_while_there_is_hope_so_that_the_estimate_can_heal(bench: Any) -> None:
    bench.teach(fixed=5.0)
    ticket = bench.submit(timeout=0.5)
    bench.clock.advance(0.1)
    bench.run()
    bench.assert_answered(ticket)


def test_a_cancelled_request_is_dropped_before_the_model_and_never_delivered(bench: Any) -> None:
    gone, stays = bench.submit(3), bench.submit(2)
    assert bench.batcher.cancel(gone)
    assert bench.batcher.depth_rows == 2
    assert not bench.batcher.cancel(gone)
    bench.clock.advance(0.01)
    bench.run_all()
    assert bench.delivered == [stays]
    assert bench.runner.batches == [list(stays.rows)]
    assert not bench.batcher.cancel(stays)
    bench.assert_at_rest()


def test_a_client_that_leaves_while_its_batch_runs_is_not_delivered(bench: Any) -> None:
    gone, stays = bench.submit(4), bench.submit(4)
    bench.runner.during = lambda rows: bench.batcher.cancel(gone)
    bench.run()
    assert bench.delivered == [stays]
    bench.assert_answered(stays)
    bench.assert_at_rest()


def test_cancelling_a_split_request_drops_the_rows_that_still_wait(bench: Any) -> None:
    big = bench.submit(20)
    bench.run()
    assert bench.batcher.depth_rows == 12
    assert bench.batcher.cancel(big)
    bench.assert_at_rest()
    bench.run_all()
    assert len(bench.runner.batches) == 1


def test_a_storm_of_abandoned_requests_leaves_nothing_behind(bench: Any) -> None:
    for _ in range(200):
        for ticket in [bench.submit() for _ in range(64)]:
            bench.batcher.cancel(ticket)
    bench.assert_at_rest()
    keeper = bench.submit()
    for _ in range(2000):
        bench.batcher.cancel(bench.submit())
    assert len(next(iter(bench.batcher._queue._groups.values())).entries) < 100
    bench.clock.advance(0.01)
    bench.run()
    assert bench.runner.batches == [list(keeper.rows)]


# --- failures --------------------------------------------------------------------------------------------------------


def failing_on(poison: set[int], error: Exception) -> Callable[[list[Any]], Sequence[Any]]:
    def answer(rows: list[Any]) -> Sequence[Any]:
        if poison & set(rows):
            raise error
        return [2 * row for row in rows]

    return answer


@pytest.mark.parametrize("culprits", [(0,), (7,), (3, 4), (0, 5, 6)])
@pytest.mark.parametrize("error", [ModelFailed("bad row"), ValueError("bad row")])
def test_only_the_culprits_fail(bench: Any, culprits: tuple[int, ...], error: Exception) -> None:
    tickets = [bench.submit() for _ in range(8)]
    bench.runner.answer = failing_on({tickets[i].rows[0] for i in culprits}, error)
    bench.run()
    assert sorted(map(id, bench.delivered)) == sorted(map(id, tickets))
    bad = [tickets[i] for i in culprits]
    assert all(isinstance(ticket.error, ModelFailed) and "bad row" in str(ticket.error) for ticket in bad)
    bench.assert_answered(*(ticket for ticket in tickets if ticket not in bad))
    assert sum(len(record.queue_waits) for record in bench.records) == 8  # each wait is told once
    assert bench.records[0].error is not None
    bench.assert_at_rest()


def test_one_bad_row_of_64_callers_costs_a_handful_of_runs(make_bench: MakeBench) -> None:
    bench = make_bench(max_batch_rows=64)
    tickets = [bench.submit() for _ in range(64)]
    bench.runner.answer = failing_on({tickets[20].rows[0]}, ValueError("bad row"))
    bench.run()
    assert [ticket for ticket in tickets if ticket.error] == [tickets[20]]
    assert len(bench.runner.batches) == 1 + 2 * 6


def test_requests_whose_deadline_passes_during_bisection_drop_out(bench: Any) -> None:
    tickets = [bench.submit(timeout=0.1 if i < 4 else 9.0) for i in range(8)]

    def during(rows: list[Any]) -> None:
        if len(rows) == 8:
            bench.clock.advance(0.2)
            bench.batcher.expire()

    bench.runner.during = during
    bench.runner.answer = failing_on({tickets[0].rows[0]}, ValueError("bad row"))
    bench.run()
    assert [len(batch) for batch in bench.runner.batches] == [8, 4]
    assert len(bench.delivered) == 8
    bench.assert_answered(*tickets[4:])


def test_a_dead_worker_fails_its_batch_and_is_not_tried_again(bench: Any) -> None:
    tickets = [bench.submit() for _ in range(9)]
    bench.runner.answer = failing_on(set(tickets[0].rows), ModelDown("died"))
    bench.run()
    assert len(bench.runner.batches) == 1
    assert all(isinstance(ticket.error, ModelDown) for ticket in tickets[:8])
    bench.clock.advance(0.01)
    bench.run()
    bench.assert_answered(tickets[8])
    bench.assert_at_rest()


@pytest.mark.parametrize("miscount", [-1, +1])
def test_a_result_of_the_wrong_length_fails_loudly_and_shifts_nothing(bench: Any, miscount: int) -> None:
    tickets = [bench.submit() for _ in range(8)]
    bench.runner.answer = lambda rows: [0] * (len(rows) + miscount)
    bench.run()
    assert all(isinstance(ticket.error, WrongResultLength) and ticket.result is None for ticket in tickets)
    assert len(bench.runner.batches) == 1
    bench.assert_at_rest()


def test_a_split_request_that_fails_in_one_part_fails_as_a_whole_and_once(bench: Any) -> None:
    big, after = bench.submit(20), bench.submit(3)
    bench.runner.answer = failing_on({big.rows[10]}, ValueError("bad row"))
    bench.clock.advance(0.01)
    bench.run_all()
    assert bench.delivered == [big, after]
    assert isinstance(big.error, ModelFailed)
    assert big.result is None
    bench.assert_answered(after)
    assert big.rows[19] not in [row for batch in bench.runner.batches for row in batch]
    bench.assert_at_rest()


class Unsliceable(list):  # type: ignore[type-arg]
    def __getitem__(self, index: Any) -> Any:
        raise RuntimeError("cannot be sliced")


def test_an_exception_while_results_are_cut_up_fails_those_requests_and_the_loop_lives(bench: Any) -> None:
    tickets = [bench.submit(4), bench.submit(4)]
    bench.runner.answer = lambda rows: Unsliceable(rows)
    assert bench.run()
    assert all(isinstance(ticket.error, ModelFailed) and "cannot be sliced" in str(ticket.error) for ticket in tickets)
    bench.runner.answer = lambda rows: [2 * row for row in rows]
    good = bench.submit(8)
    assert bench.run()
    bench.assert_answered(good)


def test_an_exception_while_a_batch_is_put_together_fails_only_its_culprit(bench: Any) -> None:
    class Rows(list):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            raise RuntimeError("cannot be read")

    good = [bench.submit() for _ in range(4)]
    bad = Ticket(Rows([1]), "g", bench.clock.now + 1)
    bench.batcher.submit(bad)
    bench.clock.advance(0.01)
    bench.run()
    assert isinstance(bad.error, ModelFailed)
    bench.assert_answered(*good)


def test_parts_that_cannot_be_joined_fail_their_request(bench: Any) -> None:
    def join(results: Any) -> Any:
        raise RuntimeError("cannot be joined")

    bench.runner.join = join
    big, small = bench.submit(12), bench.submit(4)
    bench.clock.advance(0.01)
    bench.run_all()
    assert isinstance(big.error, ModelFailed)
    bench.assert_answered(small)
    bench.assert_at_rest()


@pytest.mark.parametrize("port", ["_deliver", "_on_batch"])
def test_a_port_that_raises_does_not_end_the_loop(bench: Any, port: str) -> None:
    def fails(_: Any) -> None:
        raise RuntimeError("port")

    working = getattr(bench.batcher, port)
    setattr(bench.batcher, port, fails)
    bench.submit(8)
    assert bench.run()
    setattr(bench.batcher, port, working)
    good = bench.submit(8)
    assert bench.run()
    bench.assert_answered(good)
    bench.assert_at_rest()


def test_a_fault_of_the_batcher_itself_answers_its_requests(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(bench.batcher, "_run", broken)
    ticket = bench.submit(8)
    assert bench.run()
    assert bench.delivered == [ticket]
    assert "the batcher failed: RuntimeError: bug" in str(ticket.error)
    bench.assert_at_rest()


# --- delivery, draining, closing -------------------------------------------------------------------------------------


def test_results_are_handed_over_once_per_batch(bench: Any) -> None:
    for _ in range(16):
        bench.submit()
    bench.run_all()
    assert [len(delivery) for delivery in bench.deliveries] == [8, 8]


def test_draining_flushes_without_waiting_and_accepts_nothing(bench: Any) -> None:
    tickets = [bench.submit(), bench.submit(group="other")]
    assert not bench.batcher.drain(timeout_seconds=0)
    with pytest.raises(Draining):
        bench.submit()
    bench.run_all()
    assert bench.batcher.drain(timeout_seconds=0)
    bench.assert_answered(*tickets)
    assert [record.trigger for record in bench.records] == ["drain", "drain"]


def test_close_answers_whoever_is_left_and_ends_the_runners(bench: Any) -> None:
    tickets = [bench.submit(), bench.submit(20)]
    bench.batcher.close()
    assert all(isinstance(ticket.error, Draining) for ticket in tickets)
    assert len(bench.delivered) == 2
    assert bench.runner.closed
    bench.assert_at_rest()
    bench.batcher.close()
    assert len(bench.delivered) == 2


def test_cost_is_learned_from_model_time_only(bench: Any) -> None:
    for _ in range(20):
        for rows in (1, 8):
            bench.submit(rows)
            bench.clock.advance(0.9)  # a long queue must not make the model look slow
            bench.run_all()
    cost = bench.batcher.cost
    assert cost is not None
    assert cost.fixed_seconds == pytest.approx(0.005)
    assert cost.per_row_seconds == pytest.approx(0.0001)


def test_not_started_is_not_healthy(bench: Any) -> None:
    assert not bench.batcher.healthy


@pytest.mark.parametrize(
    ("runners", "capacity", "says"), [(0, 64, "at least one runner"), (1, 0, "queue_capacity_rows is 0")]
)
def test_nonsense_is_refused(make_bench: MakeBench, runners: int, capacity: int, says: str) -> None:
    from service.batching.batcher import Batcher

    with pytest.raises(ValueError, match=says):
        Batcher(make_bench().runners[:runners], Knobs("fixed", 1, 0), capacity, lambda t: None, lambda r: None)
