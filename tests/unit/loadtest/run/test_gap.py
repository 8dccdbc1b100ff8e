"""What a lost worker would have sent is known to the arrival: schedules are pure."""

import numpy as np
import pytest

from loadtest.analysis.samples import SAMPLE, End, Samples
from loadtest.arrivals import Plan, Schedule, Share, constant
from loadtest.run.gap import decided_until, gap, since, unmade


def instants(plan: Plan, until: float) -> list[float]:
    schedule = Schedule(plan, plan.begun)
    found = []
    while schedule.next < until:
        found.append(schedule.take())
    return found


@pytest.mark.parametrize("begun", [0.0, 7.5])
@pytest.mark.parametrize("even", [False, True])
def test_the_arrivals_after_the_last_one_made_and_no_other(begun: float, even: bool) -> None:
    plan = Plan(constant(100), seed=3, even=even, share=Share(1, 3), begun=begun)
    whole = instants(plan, begun + 10)
    made = [each for each in whole if each < begun + 4]
    # As read back from a file: the clock had counted for long, and its digits are not all there.
    last = (made[-1] + 3e7) - 3e7
    rows = gap(plan, last, begun + 10)
    assert list(rows["scheduled"]) == whole[len(made) :]
    assert set(rows["end"]) == {End.GAP}
    assert set(rows["worker"]) == {1}


def test_nothing_is_missing_of_a_worker_that_was_lost_after_its_last_arrival() -> None:
    plan = Plan(constant(10), even=True)
    assert len(gap(plan, last=0.9, until=1.0)) == 0
    assert len(gap(plan, last=-np.inf, until=1.05)) == 10


def test_rows_count_from_the_beginning_and_the_file_is_left_alone() -> None:
    rows = np.array([(105.0, 105.5, np.nan, End.IN_FLIGHT, 2)], dtype=SAMPLE)
    moved = since(100.0, rows)
    assert (moved["scheduled"][0], moved["sent"][0], moved["end"][0], moved["worker"][0]) == (5, 5.5, End.IN_FLIGHT, 2)
    assert np.isnan(moved["done"][0])
    assert rows["scheduled"][0] == 105


@pytest.mark.parametrize(("rate", "even"), [(100, False), (100, True), (50_000, False)])
def test_of_a_worker_that_hung_before_the_end_all_that_it_should_have_made(rate: float, even: bool) -> None:
    plan = Plan(constant(rate), even=even, share=Share(0, 2))
    whole = instants(plan, 10)
    assert len(unmade(plan, whole[-1], 10)) == 0
    assert list(unmade(plan, whole[-201], 10)["scheduled"]) == whole[-200:]


def test_an_arrival_due_at_the_very_end_is_nobodys_fault() -> None:
    assert len(unmade(Plan(constant(10), even=True), 0.9, 1 + 1e-9)) == 0


def test_a_long_run_is_not_drawn_again_for_nothing() -> None:
    assert len(unmade(Plan(constant(1e5)), last=604_800 - 1e-4, until=604_800)) == 0  # it would take a day


def test_requests_given_up_while_they_could_still_be_good_are_not_measured() -> None:
    nan = float("nan")
    samples = Samples.of(
        [
            (1.0, 1.0, 1.1, End.OK, 0),
            (2.0, nan, nan, End.IN_FLIGHT, 0),
            (7.5, nan, nan, End.IN_FLIGHT, 0),
            (7.6, 7.6, 7.7, End.OK, 0),
            (8.0, nan, nan, End.IN_FLIGHT, 0),
        ]
    )
    assert decided_until(samples, 10.0, given_up_at=9.0, threshold_seconds=2.0) == 7.5  # the one of 2.0 is bad
    assert decided_until(samples, 7.0, given_up_at=9.0, threshold_seconds=2.0) == 7.0
    assert decided_until(samples, 10.0, given_up_at=12.0, threshold_seconds=2.0) == 10.0
