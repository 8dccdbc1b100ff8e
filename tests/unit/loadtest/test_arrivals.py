"""Schedules: pure, seeded, and continuous when they are edited."""

import math
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from loadtest.arrivals import (
    Piece,
    Plan,
    RateCurve,
    Schedule,
    Share,
    Trace,
    constant,
    evenly,
    poisson,
    ramp,
    replayed,
    spike,
    steps,
)


def instants(plan: Plan, count: int, start: float = 0.0) -> list[float]:
    schedule = Schedule(plan, start)
    return [schedule.take() for _ in range(count)]


def until(plan: Plan, end: float, start: float = 0.0) -> list[float]:
    schedule = Schedule(plan, start)
    taken: list[float] = []
    while schedule.next <= end:
        taken.append(schedule.take())
    return taken


# name, curve, [(seconds, rate, expected arrivals by then)]
CURVES = [
    ("constant", constant(10), [(0, 10, 0), (1, 10, 10), (60, 10, 600)]),
    ("ramp up", ramp(0, 100, 10), [(0, 0, 0), (5, 50, 125), (10, 100, 500), (20, 100, 1500)]),
    ("ramp down to nothing", ramp(100, 0, 10), [(0, 100, 0), (5, 50, 375), (10, 0, 500), (99, 0, 500)]),
    ("flat ramp", ramp(50, 50, 10), [(4, 50, 200), (12, 50, 600)]),
    # At a boundary the next stage's rate counts.
    ("steps", steps([(10, 2), (0, 3), (40, 1)]), [(1, 10, 10), (2, 0, 20), (4, 0, 20), (5, 40, 20), (9, 40, 180)]),
    ("spike", spike(10, 200, 5, 2), [(4, 10, 40), (5, 200, 50), (6, 200, 250), (7, 10, 450), (8, 10, 460)]),
    ("spike at once", spike(10, 0, 0, 2), [(0, 0, 0), (1, 0, 0), (3, 10, 10)]),
    ("before it begins", constant(10), [(-1, 10, 0)]),
]


@pytest.mark.parametrize(("curve", "points"), [case[1:] for case in CURVES[:-1]], ids=[case[0] for case in CURVES[:-1]])
def test_rate_and_expected_arrivals(curve: RateCurve, points: list[tuple[float, float, float]]) -> None:
    for seconds, rate, expected in points:
        assert curve.rate(seconds) == pytest.approx(rate)
        assert curve.expected(seconds) == pytest.approx(expected)


def test_nothing_is_expected_before_the_start() -> None:
    assert (constant(10).rate(-1), constant(10).expected(-1)) == (0, 0)


@pytest.mark.parametrize(
    ("curve", "count", "seconds"),
    [
        (constant(4), 1, 0.25),
        (constant(4), 10, 2.5),
        (ramp(0, 100, 10), 125, 5),
        (ramp(100, 0, 10), 375, 5),
        (ramp(100, 0, 10), 500, 10),
        (ramp(100, 0, 10), 500.001, math.inf),  # the rate is zero for ever: there is no such arrival
        (steps([(10, 2), (0, 3), (40, 1)]), 20, 2),  # reached before the pause, not after it
        (steps([(10, 2), (0, 3), (40, 1)]), 24, 5.1),
        (steps([(0, 3), (10, 1)]), 5, 3.5),
        (constant(10), 0, 0),
        (constant(10), -1e-12, 0),  # rounding, when an edit comes right before an arrival
    ],
)
def test_instant_of_the_kth_arrival(curve: RateCurve, count: float, seconds: float) -> None:
    assert curve.instant(count) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("curve", "peak"),
    [(constant(7), 7), (ramp(5, 90, 3), 90), (ramp(90, 5, 3), 90), (steps([(1, 1), (9, 1), (2, 1)]), 9)],
)
def test_peak_of_a_curve(curve: RateCurve, peak: float) -> None:
    assert curve.peak == peak


rates = st.floats(0, 1000) | st.just(0.0)
pieces = st.builds(Piece, seconds=st.floats(0.01, 100), start_rate=rates, end_rate=rates)
curves = st.builds(RateCurve, st.lists(pieces, max_size=4), st.floats(0.1, 1000))


@settings(deadline=None)
@given(curves, st.floats(0.001, 1e6))
def test_instant_is_the_inverse_of_expected(curve: RateCurve, count: float) -> None:
    at = curve.instant(count)
    assert curve.expected(at) == pytest.approx(count, rel=1e-6, abs=1e-6)


@settings(deadline=None)
@given(curves, st.floats(0.001, 1e4), st.floats(0, 1e3))
def test_instants_never_go_back(curve: RateCurve, count: float, more: float) -> None:
    assert curve.instant(count + more) >= curve.instant(count) - 1e-9


def test_constant_arrivals_are_evenly_spaced() -> None:
    assert instants(Plan(constant(4), even=True), 4, start=100.0) == [100.25, 100.5, 100.75, 101.0]


def test_the_same_seed_gives_the_same_arrivals_and_another_seed_others() -> None:
    one, same, other = (instants(Plan(constant(100), seed=seed), 200) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert np.corrcoef(np.diff(one), np.diff(other))[0, 1] < 0.3  # neighbouring seeds are unrelated


def test_what_is_asked_and_when_changes_no_instant() -> None:
    plan = Plan(ramp(10, 200, 5), seed=3)
    curious = Schedule(plan, 0.0)
    taken = []
    for _ in range(300):
        curious.rate(taken[-1] if taken else 0.0)
        assert curious.next == curious.next
        taken.append(curious.take())
    assert taken == instants(plan, 300)


@pytest.mark.parametrize("workers", [1, 4])
def test_gaps_of_poisson_arrivals_are_exponential(workers: int) -> None:
    """Also for the sum of four workers that know nothing of each other."""
    rate = 1000.0
    merged = sorted(
        at for index in range(workers) for at in until(Plan(constant(rate), seed=5, share=Share(index, workers)), 20.0)
    )
    gaps = np.diff(merged)
    assert stats.kstest(gaps, "expon", args=(0, 1 / rate)).pvalue > 0.01
    assert stats.kstest(np.diff(np.linspace(0, 20, 20_000)), "expon", args=(0, 1 / rate)).pvalue < 1e-6  # it can fail
    assert len(merged) == pytest.approx(20 * rate, abs=4 * math.sqrt(20 * rate))


def test_poisson_counts_in_a_ramp_follow_its_rate() -> None:
    arrivals = np.array(until(Plan(ramp(0, 1000, 20), seed=2), 20.0))
    halves = [np.sum(arrivals < 10), np.sum(arrivals >= 10)]
    assert halves == pytest.approx([2500, 7500], abs=4 * math.sqrt(7500))
    # Under the curve's own clock a Poisson process of any rate is one of rate 1.
    clock = np.array([ramp(0, 1000, 20).expected(at) for at in arrivals])
    assert stats.kstest(np.diff(clock), "expon").pvalue > 0.01


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_workers_share_even_arrivals_without_gap_or_double(workers: int) -> None:
    mine = [until(Plan(constant(50), even=True, share=Share(index, workers)), 4.0) for index in range(workers)]
    assert sorted(at for part in mine for at in part) == pytest.approx([k / 50 for k in range(1, 201)])


def test_points_of_the_processes() -> None:
    assert list(islice(evenly(Share(1, 3)), 3)) == [2, 5, 8]
    points = list(islice(poisson(1, Share(0, 2)), 2000))
    assert all(later > earlier for earlier, later in pairwise(points))
    assert points[-1] / 2000 == pytest.approx(2, rel=0.1)  # half of the whole load's points


@pytest.mark.parametrize(("index", "workers"), [(-1, 2), (2, 2), (0, 0)])
def test_a_share_outside_the_workers_is_refused(index: int, workers: int) -> None:
    with pytest.raises(ValueError, match=f"worker {index} of {workers}"):
        Share(index, workers)


# --- edits ---


def test_an_edit_in_mid_gap_spends_the_rest_of_the_gap_at_the_new_rate() -> None:
    schedule = Schedule(Plan(constant(1), even=True), 0.0)
    assert schedule.take() == 1
    schedule.edit(Plan(constant(10), even=True), 1.4)  # 0.4 of a gap is over; 0.6 of the new gap is 0.06 s
    assert [schedule.take() for _ in range(3)] == pytest.approx([1.46, 1.56, 1.66])
    assert schedule.rate(1.5) == 10


def test_an_edit_after_a_pause_for_ever_wakes_the_schedule() -> None:
    schedule = Schedule(Plan(ramp(100, 0, 1), even=True), 0.0)
    for _ in range(50):
        schedule.take()
    assert schedule.next == math.inf
    schedule.edit(Plan(constant(10), even=True), 60.0)
    assert schedule.next == pytest.approx(60.1)


def test_an_edit_with_arrivals_due_is_refused() -> None:
    schedule = Schedule(Plan(constant(1), even=True), 0.0)
    with pytest.raises(ValueError, match="not taken yet"):
        schedule.edit(Plan(constant(2), even=True), 1.0)


@given(
    st.lists(st.tuples(st.floats(0.5, 300), st.floats(0.05, 5)), min_size=1, max_size=6),
    st.booleans(),
    st.integers(0, 5),
)
@settings(max_examples=60, deadline=None)
def test_edits_lose_and_add_no_arrival(stages: list[tuple[float, float]], even: bool, seed: int) -> None:
    """Edits at any moments give, to rounding, what one schedule with the same steps gives."""
    (first, seconds), *rest = stages
    schedule = Schedule(Plan(constant(first), seed, even), 0.0)
    taken: list[float] = []
    now = seconds
    for rate, lasts in rest:
        while schedule.next <= now:
            taken.append(schedule.take())
        schedule.edit(Plan(constant(rate), seed, even), now)
        now += lasts
    while schedule.next <= now:
        taken.append(schedule.take())
    whole = Schedule(Plan(steps(stages), seed, even), 0.0)
    assert taken == pytest.approx([whole.take() for _ in taken], abs=1e-6)
    assert whole.next > now - 1e-6  # and not one less


@pytest.mark.parametrize(
    "other",
    [Plan(constant(100), seed=2), Plan(constant(100), even=True), Plan(constant(100), share=Share(0, 2))],
    ids=["seed", "process", "share"],
)
def test_another_process_begins_afresh_at_the_edit(other: Plan) -> None:
    schedule = Schedule(Plan(constant(100)), 0.0)
    while schedule.next <= 3.0:
        schedule.take()
    schedule.edit(other, 3.0)
    assert [schedule.take() for _ in range(20)] == pytest.approx(instants(other, 20, start=3.0))


# --- traces ---

RECORDED = Trace([0.0, 0.0, 0.5, 0.51, 3.0, 3.0, 3.0, 9.0])


@pytest.mark.parametrize("speed", [1.0, 4.0, 0.5])
def test_a_trace_is_replayed_gap_by_gap_in_scaled_time(speed: float) -> None:
    plan = Plan(constant(speed), trace=RECORDED)
    assert until(plan, 100.0) == pytest.approx([at / speed for at in RECORDED.instants])
    assert until(plan, 100.0, start=50.0) == pytest.approx([50 + at / speed for at in RECORDED.instants])


def test_after_its_last_arrival_a_trace_is_over() -> None:
    schedule = Schedule(Plan(constant(2), trace=RECORDED, share=Share(1, 2)), 0.0)
    assert schedule.rate(1.0) == pytest.approx(2 * (8 / 9) / 2)  # its mean, at this speed, for half of the load
    assert [schedule.take() for _ in range(4)] == [0, 0.255, 1.5, 4.5]
    assert (schedule.next, schedule.rate(5.0)) == (math.inf, 0)
    schedule.take()
    assert schedule.next == math.inf  # and stays so


@pytest.mark.parametrize("workers", [1, 2, 3, 9])
def test_workers_share_a_trace_without_gap_or_double(workers: int) -> None:
    parts = [until(Plan(constant(1), trace=RECORDED, share=Share(index, workers)), 10) for index in range(workers)]
    assert sorted(at for part in parts for at in part) == list(RECORDED.instants)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_points_of_a_trace() -> None:
    assert list(islice(replayed(RECORDED, Share(1, 3)), 4)) == [0, 3, 9, math.inf]
    assert list(islice(replayed(RECORDED, Share(1, 3), after=0.0), 3)) == [3, 9, math.inf]
    assert list(islice(replayed(RECORDED, Share(0, 1), after=9.0), 2)) == [math.inf, math.inf]


@pytest.mark.parametrize("instants", [[], [-0.1, 1], [2, 1], [math.nan], [0, math.nan, 1]])
def test_what_is_no_trace_is_refused(instants: list[float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Trace(instants)


def test_traces_are_equal_by_their_instants() -> None:
    assert Trace([0, 1]) == Trace((0.0, 1.0))
    assert Trace([0, 1]) != Trace([0, 2])
    assert hash(Trace([0, 1])) == hash(Trace([0, 1]))


@pytest.mark.parametrize(("seconds", "most"), [(0, 3), (0.1, 3), (2.5, 5), (3, 7), (100, 8)])
def test_the_fullest_stretch_of_a_trace(seconds: float, most: int) -> None:
    assert RECORDED.most_within(seconds) == most


# --- plans that take over in mid-course ---


def test_a_plan_that_has_begun_goes_on_where_the_curve_is() -> None:
    late = until(Plan(ramp(0, 100, 10), even=True, begun=5.0), 1005.0, start=1000.0)
    whole = until(Plan(ramp(0, 100, 10), even=True), 10.0)
    assert late == pytest.approx([995 + at for at in whole if at > 5])


@pytest.mark.parametrize("even", [True, False])
def test_an_edit_sets_where_the_curve_is_and_keeps_the_gap(even: bool) -> None:
    """A ramp told again in mid-course goes on, where `begun` says so, and begins anew where it does not."""
    plan = Plan(ramp(10, 100, 10), even=even)
    schedule = Schedule(plan, 0.0)
    while schedule.next <= 4:
        schedule.take()
    before = schedule.next
    schedule.edit(Plan(ramp(10, 100, 10), even=even, begun=4.0), 4.0)
    assert schedule.next == pytest.approx(before)
    assert schedule.rate(4.0) == pytest.approx(46)
    schedule.edit(plan, 4.0)
    assert schedule.rate(4.0) == 10
    assert schedule.next > before


def test_a_late_poisson_worker_repeats_nothing_and_keeps_the_rate() -> None:
    """Its gaps are new ones: those of the beginning have been used."""
    whole = np.diff(until(Plan(constant(1000)), 20.0))
    late = np.diff(until(Plan(constant(1000), begun=20.0), 20.0))
    assert stats.kstest(late, "expon", args=(0, 1 / 1000)).pvalue > 0.01
    assert len(late) == pytest.approx(20_000, abs=4 * math.sqrt(20_000))
    assert abs(np.corrcoef(whole[:19_000], late[:19_000])[0, 1]) < 0.03


even_or_trace = st.none() | st.lists(st.floats(0, 3), min_size=1, max_size=40).map(np.cumsum).map(Trace)
epochs = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([0.5, 1.0, 3.0, 7.0]), st.booleans(), st.floats(0.1, 20)),
    min_size=1,
    max_size=6,
)


@given(epochs, even_or_trace)
@settings(max_examples=150, deadline=None)
def test_workers_that_come_and_go_make_up_the_whole_load(
    told: list[tuple[int, float, bool, float]], trace: Trace | None
) -> None:
    """Shares dealt anew, rates edited, curves that go on or begin again: all workers together do what one would do."""

    def curve(rate: float) -> RateCurve:
        return constant(rate) if trace else ramp(rate, 2 * rate, 10)

    team: list[Schedule] = []
    one: Schedule | None = None
    together: list[float] = []
    alone: list[float] = []
    now, begun = 0.0, 0.0
    for workers, rate, goes_on, lasts in told:
        begun = begun if goes_on else 0.0
        plans = [Plan(curve(rate), 1, True, Share(index, workers), trace, begun) for index in range(workers)]
        whole = Plan(curve(rate), 1, True, Share(), trace, begun)
        if len(team) == workers and one is not None:
            for schedule, plan in zip(team, plans, strict=True):
                schedule.edit(plan, now)
            one.edit(whole, now)
        else:
            team = [Schedule(plan, now) for plan in plans]  # those who were there already do the same: see below
            one = Schedule(whole, now)
        now += lasts
        begun += lasts
        for schedule, taken in [*((each, together) for each in team), (one, alone)]:
            while schedule.next <= now:
                taken.append(schedule.take())
    assert sorted(together) == pytest.approx(alone, abs=1e-6)


@given(st.lists(st.tuples(st.integers(1, 4), st.floats(0.1, 20)), min_size=1, max_size=6), even_or_trace)
@settings(max_examples=150, deadline=None)
def test_shares_dealt_anew_change_nothing_for_the_whole(told: list[tuple[int, float]], trace: Trace | None) -> None:
    """As long as the curve goes on, the load is the one that a single worker makes, arrival for arrival."""
    curve = constant(1.7) if trace else ramp(3, 9, 25)
    team: list[Schedule] = []
    together: list[float] = []
    now = 0.0
    for workers, lasts in told:
        plans = [Plan(curve, 1, True, Share(index, workers), trace, begun=now) for index in range(workers)]
        for schedule, plan in zip(team, plans, strict=False):
            schedule.edit(plan, now)
        team = team[:workers] + [Schedule(plan, now) for plan in plans[len(team) :]]
        now += lasts
        for schedule in team:
            while schedule.next <= now:
                together.append(schedule.take())
    assert sorted(together) == pytest.approx(until(Plan(curve, 1, True, trace=trace), now), abs=1e-6)


@pytest.mark.parametrize("other", [Plan(constant(2), share=Share(1, 3), begun=7.3), Plan(constant(1), even=True)])
def test_another_process_after_an_edit_is_what_a_newcomer_does(other: Plan) -> None:
    schedule = Schedule(Plan(constant(5)), 0.0)
    while schedule.next <= 7.3:
        schedule.take()
    schedule.edit(other, 7.3)
    assert [schedule.take() for _ in range(20)] == instants(other, 20, start=7.3)
