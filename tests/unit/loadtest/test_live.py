"""The verdict as it stands, by tables of figures; and that it agrees with the one on the finished run."""

import math
from typing import Any

import numpy as np
import pytest

from loadtest.account import COUNTS
from loadtest.analysis.samples import SAMPLE, End, Samples
from loadtest.analysis.verdict import GeneratorHealth, Objective, judge
from loadtest.live import NOTHING, TOO_EARLY, as_json, standing
from loadtest.recorder import Recorder
from loadtest.worker_report import Report

SLO = Objective(0.05, 0.99)


def report(
    good: int = 0,
    slow: int = 0,
    dropped: int = 0,
    shed: int = 0,
    refused: int = 0,
    late: int = 0,
    ages: tuple[float, ...] = (),
    late_seconds: float = 0.1,
) -> Report:
    """Good ones take 20 ms, slow ones 80; `late` of the good were sent `late_seconds` after their instant."""
    made = Report(Recorder(()))
    run = made.run
    for _ in range(good):
        run.total.observe(0.02)
    for _ in range(slow):
        run.total.observe(0.08)
    for number in range(good + slow):
        run.lateness.observe(late_seconds if number < late else 0.0001)
    run.total.lost = dropped + shed + refused
    run.outcomes.update(ok=good + slow, shed=shed, client_error=refused)
    counts = {"offered": run.total.total + len(ages), "dropped": dropped, "completed": good + slow}
    run.counts = {**dict.fromkeys(COUNTS, 0), **counts, "failed": shed + refused}
    for age in ages:
        made.ages.observe(age)
    made.in_flight = len(ages)
    made.rate = 100.0
    return made


@pytest.mark.parametrize(
    ("figures", "verdict", "first"),
    [
        ({}, NOTHING, "No arrival"),
        ({"good": 1000}, "PASS", "p99 holds so far: 1,000 of 1,000 arrivals (100%) were answered within 50 ms"),
        ({"good": 990, "slow": 10}, "PASS", "p99 holds so far: 990 of 1,000 arrivals (99%)"),
        ({"good": 989, "slow": 11}, "FAIL", "p99 does not hold so far: 989 of 1,000"),
        ({"good": 989, "dropped": 11}, "FAIL", "p99 does not hold so far: 989 of 1,000"),
        ({"good": 989, "ages": (0.06,) * 11}, "FAIL", "p99 does not hold so far: 989 of 1,000"),
        ({"good": 1000, "ages": (0.04,) * 500}, "PASS", "p99 holds"),  # in flight, and not yet too late
        ({"good": 100}, TOO_EARLY, "100 arrivals so far; 1,000 samples are needed for p99; at 100/s that is 10 s."),
        ({"good": 100, "dropped": 9}, TOO_EARLY, "109 arrivals so far"),
        ({"good": 100, "dropped": 11}, "FAIL", "p99 does not hold"),  # more than 1,000 could forgive
        ({"good": 1000, "late": 11}, "INVALID", "The generator is late: 1% of the requests left 100 ms or more after"),
        ({"good": 1000, "late": 11, "late_seconds": 0.0049}, "PASS", "p99 holds"),
        ({"good": 1000, "late": 9}, "PASS", "p99 holds"),
        ({"good": 100, "late": 10}, TOO_EARLY, "100 arrivals so far"),  # a hiccup at the start accuses nobody
        ({"good": 100, "late": 11}, "INVALID", "The generator is late"),
        ({"good": 900, "refused": 100}, "INVALID", "The service refuses 10% of the requests as the client's mistake"),
    ],
)
def test_how_a_run_stands(figures: dict[str, Any], verdict: str, first: str) -> None:
    stands = standing(report(**figures), SLO)
    assert (stands.verdict, stands.reasons[0][: len(first)]) == (verdict, first)
    assert stands.punctual is (verdict != "INVALID")


@pytest.mark.parametrize(
    ("good", "bad", "said"), [(850, 150, "(85%)"), (9994, 6, "(99.94%)"), (2, 9998, "(0.02%)"), (1400, 211, "(87%)")]
)
def test_shares_have_the_digits_that_matter(good: int, bad: int, said: str) -> None:
    assert said in " ".join(standing(report(good=good, dropped=bad), SLO).reasons)


def test_what_is_wrong_with_the_bad_ones_most_frequent_first() -> None:
    stands = standing(report(good=900, slow=5, dropped=30, shed=20, ages=(3.0,) * 60), SLO)
    assert stands.reasons[1] == (
        "Of the 115 bad ones: 60 waiting for longer than the threshold right now, 30 dropped because every user was "
        "waiting, 20 turned away (429 or 503), 5 answered too late."
    )
    assert stands.overdue == 60
    assert stands.p == math.inf


def test_while_the_server_is_frozen_the_percentile_grows_with_the_oldest_request() -> None:
    """Long before the first of them has an outcome."""
    for age in (0.5, 1.5, 6.0):
        stands = standing(report(good=900, ages=(age,) * 100), SLO)
        assert stands.verdict == "FAIL"
        assert stands.p == pytest.approx(age, rel=0.001)
        assert "p99 over all arrivals is at least" in stands.reasons[0]


def test_a_lost_worker_and_a_full_core() -> None:
    made = report(good=1000, late=20)
    made.workers_lost, made.cpu_share = 1, 0.98
    stands = standing(made, SLO)
    assert stands.verdict == "INVALID"
    assert stands.reasons[0] == "The generator lost part of its load: a worker was lost."
    assert "its busiest process uses 98% of a core" in stands.reasons[1]
    assert stands.reasons[2].startswith("p99 holds so far")  # the figures are told all the same
    made.workers_lost = 2
    assert "2 workers were lost" in standing(made, SLO).reasons[0]


@pytest.mark.parametrize(("slow", "lost"), [(0, 0), (10, 0), (11, 0), (5, 5), (5, 6), (0, 300)])
def test_it_agrees_with_the_verdict_on_the_finished_run(slow: int, lost: int) -> None:
    rows = np.zeros(1000, dtype=SAMPLE)
    rows["scheduled"] = rows["sent"] = np.arange(1000) / 100
    rows["done"] = rows["scheduled"] + 0.02
    rows["done"][:slow] = rows["scheduled"][:slow] + 0.08
    rows["end"][slow : slow + lost] = End.SHED
    final = judge(Samples(rows), SLO, GeneratorHealth())
    stands = standing(report(good=1000 - slow - lost, slow=slow, shed=lost), SLO)
    assert (stands.verdict, stands.good, stands.bad) == (final.verdict, final.good, final.bad)


def test_as_json() -> None:
    said = as_json(report(good=1000, dropped=20, ages=(0.01,)), SLO)
    assert said["verdict"] == "FAIL"
    assert said["in_flight"] == 1
    assert said["target_rate"] == 100
    assert said["run"]["dropped"] == 20
    assert said["latency_seconds"]["p99"] is None  # +∞: JSON has no word for it
    assert said["latency_seconds"]["p50"] == pytest.approx(0.02, rel=0.001)
    assert said["success_latency_seconds"]["max"] == 0.02
    assert said["success_latency_seconds"]["mean"] == pytest.approx(0.02)
    assert said["slo"] == {
        "threshold_seconds": 0.05,
        "objective": 0.99,
        "good": 1000,
        "bad": 20,
        "allowed_bad": 10,
        "ratio": 1000 / 1020,
        "percentile": "p99",
        "percentile_seconds": None,
    }
    assert said["dispatch_lateness_seconds"]["max"] == 0.0001
    assert said["lateness_limit_seconds"] == pytest.approx(0.005)
    assert said["generator"] == {"cpu_share": 0.0, "starved": False, "workers_lost": 0}


def test_before_the_first_arrival_there_is_nothing_to_say() -> None:
    said = as_json(report(), SLO)
    assert set(said["latency_seconds"].values()) == {None}
    assert (said["verdict"], said["slo"]["ratio"], said["slo"]["allowed_bad"]) == (NOTHING, None, 0)
