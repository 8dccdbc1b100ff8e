import pytest

from service.batching.arrivals import NEEDED, ArrivalEstimator
from service.batching.policy import Expectation

PATIENCE = 0.002


def seen(estimator: ArrivalEstimator, requests: int, gap: float, times: int) -> None:
    at = 100.0
    for _ in range(times):
        estimator.arrived(at)
        estimator.weigh(requests, PATIENCE)
        at += gap
        estimator.arrived(at)
        at += 10.0


def test_says_nothing_before_it_has_seen_a_few() -> None:
    estimator = ArrivalEstimator()
    seen(estimator, 1, 0.0005, NEEDED - 1)
    assert estimator.expect(1) == ()
    seen(estimator, 1, 0.0005, 1)
    assert estimator.expect(1) != ()


def test_close_followers() -> None:
    estimator = ArrivalEstimator()
    seen(estimator, 1, 0.0005, 10)
    (expectation,) = estimator.expect(1)
    assert expectation.probability == pytest.approx(1.0)
    assert expectation.seconds == pytest.approx(0.0005)


def test_a_long_gap_counts_as_the_whole_patience_and_no_more() -> None:
    estimator = ArrivalEstimator()
    seen(estimator, 1, 3600.0, 10)
    (expectation,) = estimator.expect(1)
    assert expectation.probability == 0.0
    assert expectation.seconds == pytest.approx(PATIENCE)


def test_a_flock_is_followed_up_to_its_size_and_not_beyond() -> None:
    estimator = ArrivalEstimator()
    seen(estimator, 31, 0.0001, 10)
    seen(estimator, 32, 0.5, 10)
    (below,), (whole,) = estimator.expect(31), estimator.expect(32)
    assert below.probability == pytest.approx(1.0)
    assert whole.probability == 0.0


def test_changes_its_mind_within_a_dozen_moments() -> None:
    estimator = ArrivalEstimator()
    seen(estimator, 1, 0.0005, 50)
    seen(estimator, 1, 1.0, 12)
    (expectation,) = estimator.expect(1)
    assert expectation.probability < 0.25


def test_an_arrival_while_no_hold_was_weighed_teaches_nothing() -> None:
    estimator = ArrivalEstimator()
    for at in range(100):
        estimator.arrived(float(at))
    assert estimator.expect(1) == ()


def test_those_who_come_back_after_a_worker_became_free_are_counted_from_then() -> None:
    estimator = ArrivalEstimator()
    for start in (0.0, 10.0, 20.0, 30.0):
        estimator.arrived(start)
        estimator.worker_became_free(start + 5.0, horizon_seconds=0.002)
        for k in range(4):
            estimator.arrived(start + 5.001 + k * 0.0001)
    estimator.arrived(40.0)
    estimator.worker_became_free(45.0, horizon_seconds=0.002)
    first, second, fourth, eighth, *_ = estimator.expect(1)
    assert [e.requests for e in (first, second, fourth, eighth)] == [1, 2, 4, 8]
    assert [e.seconds for e in (first, second, fourth)] == pytest.approx([0.001, 0.0011, 0.0013])
    assert [e.probability for e in (first, second, fourth, eighth)] == [1, 1, 1, 0]
    estimator.arrived(45.0005)
    assert estimator.expect(1) == ()  # of arrivals while a worker is free nothing was seen


def test_a_count_that_ends_before_its_horizon_says_nothing_of_those_who_had_not_come() -> None:
    estimator = ArrivalEstimator()
    for start in range(10):
        estimator.worker_became_free(float(start), horizon_seconds=5.0)
        estimator.arrived(start + 0.1)
    assert [e.requests for e in _at_worker_free(estimator)] == [1]


def _at_worker_free(estimator: ArrivalEstimator) -> tuple[Expectation, ...]:
    estimator.worker_became_free(100.0, horizon_seconds=5.0)
    return estimator.expect(1)
