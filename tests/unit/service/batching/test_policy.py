import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.batching.cost import CostModel
from service.batching.policy import (
    Expectation,
    Knobs,
    Waiting,
    decide,
    expected_answer_at,
    latest_answer_after,
    must_go_at,
    patience_seconds,
)

FIXED = Knobs("fixed", max_batch_rows=8, max_wait_seconds=0.005)
ADAPTIVE = Knobs("adaptive", max_batch_rows=16, max_wait_seconds=0.005)
COST = CostModel(fixed_seconds=0.004, per_row_seconds=0.0001)
ONE = Waiting(rows=1, requests=1, oldest_at=10.0, nearest_deadline=11.0, news_at=10.0)
SOON = Expectation(probability=1.0, seconds=0.0001)
TEN = replace(ONE, rows=10, requests=10)
FLOCK = Expectation(probability=1.0, seconds=0.0005, requests=10)
NEVER = Expectation(probability=0.0, seconds=0.0019)


@pytest.mark.parametrize(
    ("waiting", "now", "expected"),
    [
        # one request: held for max_wait counted from its enqueue, not from when a worker looked
        (ONE, 10.0, 10.005),
        (ONE, 10.004, 10.005),
        (ONE, 10.005, "wait"),
        # an old backlog goes at once
        (replace(ONE, rows=5, requests=5), 12.0, "wait"),
        # full counts rows, not requests
        (replace(ONE, rows=7, requests=7), 10.0, 10.005),
        (replace(ONE, rows=8, requests=1), 10.0, "full"),
        (replace(ONE, rows=9, requests=2), 10.0, "full"),
        # two model times (0.0041 s each) are left before the nearest deadline
        (replace(ONE, nearest_deadline=10.01), 10.0, 10.0018),
        (replace(ONE, nearest_deadline=10.01), 10.0018001, "deadline"),
        # draining waits for nothing, however young
        (replace(ONE, draining=True), 10.0, "drain"),
        (replace(ONE, draining=True, rows=8), 10.0, "drain"),
    ],
)
def test_fixed_goes_by_size_wait_deadline_and_drain(waiting: Waiting, now: float, expected: float | str) -> None:
    decision = decide(waiting, now, FIXED, COST)
    assert decision == (pytest.approx(expected, abs=1e-9) if isinstance(expected, float) else expected)


def test_fixed_without_a_known_cost_goes_at_the_deadline_itself() -> None:
    knobs = replace(FIXED, max_wait_seconds=5.0)
    assert decide(ONE, 10.0, knobs, None) == 11.0


PATIENCE_1 = (0.004 - 0.0001) / 2


@pytest.mark.parametrize(
    ("waiting", "now", "expected", "why"),
    [
        (ONE, 10.0, "idle", "nothing is known of arrivals"),
        (replace(ONE, expected=(NEVER,)), 10.0, "idle", "nobody tends to come in time"),
        (replace(ONE, expected=(SOON,)), 10.0, 10.0 + PATIENCE_1, "the next one is close"),
        (replace(ONE, expected=(SOON,)), 10.0019, 10.0 + PATIENCE_1, "still within patience"),
        (replace(ONE, expected=(SOON,)), 10.002, "idle", "it did not come; waiting longer no longer pays"),
        (replace(ONE, expected=(SOON,), idle_seconds=0.004), 10.0, "idle", "a lone request on an idle service"),
        (replace(ONE, expected=(SOON,), idle_seconds=9.0), 10.0, "idle", "a lone request after a long idle"),
        (replace(ONE, expected=(SOON,), other_worker_free=True), 10.0, "idle", "the next one has its own worker"),
        # the chance must outweigh the wait: 0.5 · 3.9 ms gained against 2 · 1 ms waited
        (replace(ONE, expected=(Expectation(0.5, 0.001),)), 10.0, "idle", "gain 1.95 ms, cost 2 ms"),
        (replace(ONE, expected=(Expectation(0.5, 0.0009),)), 10.0, 10.0 + PATIENCE_1, "gain 1.95 ms, cost 1.8 ms"),
        # too far for one, near enough for a flock: 1 · 3 ms against 11 · 0.3 ms, 10 · 3 ms against 20 · 0.5 ms
        (replace(TEN, expected=(Expectation(1.0, 0.0003),)), 10.0, "idle", "one more is not worth it"),
        (replace(TEN, expected=(FLOCK,)), 10.0, 10.0015, "ten more are"),
        # never beyond max_wait of the oldest, nor a deadline
        (replace(ONE, oldest_at=9.9955, expected=(SOON,)), 10.0, 10.0005, "max_wait comes first"),
        (replace(ONE, oldest_at=9.995, expected=(SOON,)), 10.0, "wait", "max_wait is over"),
        (replace(ONE, nearest_deadline=10.0092, expected=(SOON,)), 10.0, 10.001, "the deadline comes first"),
        (replace(ONE, rows=16, expected=(SOON,)), 10.0, "full", "full"),
    ],
)
def test_adaptive_holds_only_while_it_pays(waiting: Waiting, now: float, expected: float | str, why: str) -> None:
    decision = decide(waiting, now, ADAPTIVE, COST)
    assert decision == (pytest.approx(expected, abs=1e-9) if isinstance(expected, float) else expected), why


def test_adaptive_without_a_learned_cost_never_holds() -> None:
    assert decide(replace(ONE, expected=(SOON,)), 10.0, ADAPTIVE, None) == "idle"


def test_a_model_without_fixed_cost_is_never_held() -> None:
    assert decide(replace(ONE, expected=(SOON,)), 10.0, ADAPTIVE, CostModel(0.0, 0.001)) == "idle"


def test_patience_shrinks_with_every_request_that_waits_and_ends_where_rows_eat_up_the_gain() -> None:
    values = [patience_seconds(k, k, COST) for k in range(1, 60)]
    assert values == sorted(values, reverse=True)
    assert patience_seconds(1, 1, COST) == pytest.approx(PATIENCE_1)
    assert patience_seconds(40, 40, COST) == 0.0
    # what a fruitless hold costs all who wait together is at most one fixed cost
    assert all(k * patience_seconds(k, k, COST) <= COST.fixed_seconds for k in range(1, 60))


def test_must_go_at_takes_the_model_time_of_one_batch_however_much_waits() -> None:
    much = replace(ONE, rows=1000, nearest_deadline=10.004)
    assert must_go_at(much, FIXED, COST) == pytest.approx(10.004 - 2 * COST.seconds(8))


@pytest.mark.parametrize(
    ("rows_ahead", "rows", "workers", "free_at", "expected"),
    [
        (0, 1, 1, 0.0, COST.seconds(1)),  # nothing ahead: just the model
        (0, 1, 1, 0.5, 0.5 + COST.seconds(1)),  # the worker is busy until then
        (7, 1, 1, 0.0, COST.seconds(8)),  # shares the batch with those ahead
        (8, 1, 1, 0.0, 2 * COST.seconds(8)),  # one full batch first, and its own fills up meanwhile
        (80, 1, 1, 0.0, 11 * COST.seconds(8)),
        (80, 1, 2, 0.0, 6 * COST.seconds(8)),  # two workers halve the queue
        (0, 24, 1, 0.0, 2 * COST.seconds(8) + COST.seconds(8)),  # split over three batches
    ],
)
def test_expected_answer(rows_ahead: int, rows: int, workers: int, free_at: float, expected: float) -> None:
    assert expected_answer_at(0.0, free_at, rows_ahead, rows, workers, FIXED, COST) == pytest.approx(expected)


@given(st.integers(0, 2000), st.integers(1, 100), st.integers(1, 4), st.floats(0, 1), st.integers(1, 64))
def test_the_quick_look_never_promises_more_than_the_close_one(
    ahead: int, rows: int, workers: int, into_batch: float, batch: int
) -> None:
    knobs = Knobs("fixed", batch, 0.01)
    free_at = into_batch * COST.seconds(batch)
    expected = expected_answer_at(0.0, free_at, ahead, rows, workers, knobs, COST)
    assert expected <= latest_answer_after(ahead, rows, knobs, COST) + 1e-12


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (("eager", 8, 0.005), "policy is 'eager'; expected adaptive or fixed"),
        (("fixed", 0, 0.005), "max_batch_rows is 0; expected a whole number of at least 1"),
        (("fixed", True, 0.005), "max_batch_rows is True"),
        (("fixed", 1.5, 0.005), "max_batch_rows is 1.5"),
        (("fixed", 8, -1), "max_wait_seconds is -1; expected a number from 0 to 60"),
        (("fixed", 8, math.nan), "max_wait_seconds is nan"),
        (("fixed", 8, math.inf), "max_wait_seconds is inf"),
        (("fixed", 8, "5ms"), "max_wait_seconds is '5ms'"),
    ],
)
def test_knobs_refuse_nonsense_with_one_sentence(values: tuple, says: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        Knobs(*values)
