"""Verdicts: the service's fault and the generator's fault are told apart, and said in figures."""

import math

import numpy as np
import pytest

from loadtest.analysis.samples import SAMPLE, End, Samples
from loadtest.analysis.steady import Steadiness
from loadtest.analysis.verdict import (
    EXIT_CODES,
    GeneratorHealth,
    Judgement,
    Objective,
    allowed_bad,
    judge,
    lateness_limit_seconds,
)

SLO = Objective(threshold_seconds=0.05, objective=0.99)
PUNCTUAL = GeneratorHealth(cpu_share=0.4, workers_lost=0)
LATE = 0.02  # seconds; above the limit of 5 ms


def run(count: int = 10_000, rate: float = 1_000.0, seconds: float = 0.01, late: float = 0.0001) -> Samples:
    """A run in which every arrival is answered `seconds` after it was sent, for tests to spoil."""
    rows = np.zeros(count, dtype=SAMPLE)
    rows["scheduled"] = np.arange(count) / rate
    rows["sent"] = rows["scheduled"] + late
    rows["done"] = rows["sent"] + seconds * (1 + 0.1 * np.random.default_rng(1).random(count))
    return Samples(rows)


def spoiled(count: int, end: End, run: Samples, late: float = 0.0001) -> Samples:
    """The run with `count` arrivals, spread over it, that ended otherwise."""
    rows = run.rows.copy()
    which = np.linspace(0, len(rows) - 1, count).astype(int)
    rows["end"][which] = end
    if end in (End.DROPPED, End.GAP):
        rows["sent"][which] = math.nan
        rows["done"][which] = rows["scheduled"][which] + late if end is End.DROPPED else math.nan
    if end is End.IN_FLIGHT:
        rows["done"][which] = math.nan
    return Samples(rows)


def slowed(count: int, run: Samples, seconds: float = 0.2) -> Samples:
    rows = run.rows.copy()
    rows["done"][np.linspace(0, len(rows) - 1, count).astype(int)] += seconds
    return Samples(rows)


def judged(measured: Samples, health: GeneratorHealth = PUNCTUAL, slo: Objective = SLO) -> Judgement:
    return judge(measured, slo, health)


def test_all_good_is_a_pass_that_says_the_figures() -> None:
    judgement = judged(run())
    assert (judgement.verdict, judgement.exit_code, judgement.good, judgement.bad) == ("PASS", 0, 10_000, 0)
    assert judgement.reasons[0].startswith("p99 held: 10,000 of 10,000 arrivals (100%)")
    assert "50 ms" in judgement.reasons[0]
    assert not judgement.notes


@pytest.mark.parametrize("end", [End.SHED, End.FAILED, End.TIMED_OUT, End.CONNECTION, End.DROPPED, End.IN_FLIGHT])
def test_every_way_of_not_answering_counts_against_the_budget(end: End) -> None:
    assert judged(spoiled(100, end, run())).verdict == "PASS"  # exactly the allowed 1%
    judgement = judged(spoiled(101, end, run()))
    assert (judgement.verdict, judgement.exit_code, judgement.bad) == ("FAIL", 1, 101)
    assert judgement.reasons[0].startswith("p99 did not hold: 101 of 10,000 arrivals (1.01%)")
    assert "101" in judgement.reasons[1]


def test_slow_answers_count_against_the_budget() -> None:
    assert judged(slowed(100, run())).verdict == "PASS"
    judgement = judged(slowed(101, run()))
    assert judgement.verdict == "FAIL"
    assert "p99 is 21" in judgement.reasons[0]
    assert "101 answered too late" in judgement.reasons[1]


def test_an_answer_at_the_threshold_is_good() -> None:
    rows = run(seconds=0.01, late=0.0).rows.copy()
    rows["scheduled"] = np.arange(len(rows))  # so that scheduled + threshold is exact
    rows["sent"] = rows["scheduled"]
    rows["done"] = rows["scheduled"] + 0.25
    assert judged(Samples(rows), slo=Objective(0.25, 0.99)).verdict == "PASS"


def test_a_pass_is_the_same_as_the_percentile_within_the_threshold() -> None:
    for count in (1_000, 1_001, 1_099, 1_100, 12_345):
        allowed = allowed_bad(SLO, count)
        assert judged(slowed(allowed, run(count))).verdict == "PASS"
        assert judged(slowed(allowed + 1, run(count))).verdict == "FAIL"


def test_users_all_waiting_while_the_scheduler_is_punctual_is_the_services_failure() -> None:
    judgement = judged(spoiled(3_000, End.DROPPED, run(), late=0.0005))
    assert judgement.verdict == "FAIL"
    assert any("every user was waiting for the service" in reason for reason in judgement.reasons)


def test_late_dispatch_is_the_generators_fault() -> None:
    judgement = judged(run(late=LATE), GeneratorHealth(cpu_share=0.99))
    assert (judgement.verdict, judgement.exit_code) == ("INVALID", 2)
    assert judgement.reasons[0].startswith("Whether p99 held is not known: the generator was late")
    assert "99% of a core" in judgement.reasons[0]
    assert judged(run(late=0.004)).verdict == "PASS"


def test_the_limit_of_lateness_follows_the_threshold_but_not_below_what_a_scheduler_can_do() -> None:
    assert lateness_limit_seconds(SLO) == pytest.approx(0.005)
    assert lateness_limit_seconds(Objective(0.004, 0.99)) == 0.002


def test_a_late_service_does_not_hide_behind_a_late_generator_for_a_few_requests() -> None:
    rows = slowed(500, run()).rows.copy()
    rows["sent"][:50] += LATE  # 0.5% of the requests left late
    assert judged(Samples(rows)).verdict == "FAIL"


def test_drops_in_a_stall_of_the_generator_do_not_make_a_failure() -> None:
    lately = spoiled(90, End.DROPPED, run(), late=LATE)  # too few to make the p99 of lateness late
    assert judged(lately).verdict == "PASS"
    both = slowed(50, lately)
    judgement = judged(both)
    assert judgement.verdict == "INVALID"
    assert "90 arrivals were dropped more than 5 ms after their instant" in judgement.reasons[0]
    assert judged(slowed(500, lately)).verdict == "FAIL"  # the service alone broke it


def test_a_busy_but_punctual_generator_is_a_note() -> None:
    judgement = judged(run(), GeneratorHealth(cpu_share=0.97))
    assert judgement.verdict == "PASS"
    assert any("97% of a core" in note for note in judgement.notes)


def test_a_lost_worker_makes_the_run_invalid() -> None:
    judgement = judged(spoiled(2_500, End.GAP, run()), GeneratorHealth(workers_lost=1))
    assert judgement.verdict == "INVALID"
    assert "2,500 of 10,000 arrivals" in judgement.reasons[0]


def test_requests_refused_as_wrong_say_what_the_service_answered() -> None:
    wrong = spoiled(200, End.CLIENT_ERROR, run())
    judgement = judge(wrong, SLO, PUNCTUAL, client_errors={"HTTP 404": 200})
    assert judgement.verdict == "INVALID"
    assert "HTTP 404: 200" in judgement.reasons[0]
    assert judged(spoiled(100, End.CLIENT_ERROR, run())).verdict == "PASS"


def test_too_few_samples_say_how_many_are_needed_and_how_long_they_take() -> None:
    judgement = judged(run(300, rate=10))
    assert judgement.verdict == "INVALID"
    assert "1,000 samples are needed for p99; at 10/s that is 100 s" in judgement.reasons[0]


def test_few_samples_of_which_too_many_are_bad_already_fail() -> None:
    assert judged(slowed(10, run(300))).verdict == "INVALID"  # the other 700 could still be good
    assert judged(slowed(11, run(300))).verdict == "FAIL"


def test_nothing_measured_is_invalid() -> None:
    assert judged(run(0)).verdict == "INVALID"


def test_a_growing_backlog_fails_a_run_whose_percentile_held() -> None:
    growing = Steadiness(True, 3, 503, "the backlog grew by 500 requests", False)
    judgement = judge(run(), SLO, PUNCTUAL, steadiness=growing)
    assert judgement.verdict == "FAIL"
    assert judgement.reasons == ["p99 would not have held for long: the backlog grew by 500 requests."]


def test_a_growing_backlog_is_one_more_reason_of_a_run_whose_percentile_did_not_hold() -> None:
    growing = Steadiness(True, 3, 503, "the backlog grew by 500 requests", False)
    judgement = judge(slowed(500, run()), SLO, PUNCTUAL, steadiness=growing)
    assert judgement.reasons[0].startswith("p99 did not hold")
    assert judgement.reasons[-1] == "The backlog grew by 500 requests."


def test_an_interval_around_the_threshold_is_noted() -> None:
    assert any(note.startswith("Close: ") for note in judged(slowed(95, run())).notes)
    assert any(note.startswith("Close: ") for note in judged(slowed(105, run())).notes)
    assert not judged(slowed(1_000, run())).notes


def test_every_verdict_has_its_own_exit_code() -> None:
    assert EXIT_CODES == {"PASS": 0, "FAIL": 1, "INVALID": 2}
