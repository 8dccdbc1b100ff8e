"""What is kept of a run, and as which JSON."""

import dataclasses
import json
import math

from stack.demo.experiment import Verdict
from stack.demo.record import Figures, RampPoint, Record, series, stretch


def test_the_series_slides_over_the_readings_and_shows_breach_and_recovery(record: Record) -> None:
    ends = [figures.end for figures in record.series]
    assert ends == sorted(ends)
    assert ends[0] == 3.0
    assert ends[-1] == 110.0
    assert all(2.5 <= figures.end - figures.start <= 3.5 for figures in record.series)
    at_20, at_60 = (next(f for f in record.series if f.end == end) for end in (20.0, 60.0))
    assert (at_20.p99, at_20.slo_met, at_20.max_batch_rows) == (math.inf, False, 1)
    assert (at_60.slo_met, at_60.max_batch_rows) == (True, 128)


def test_before_and_after_lie_on_their_own_side_of_the_cure(record: Record) -> None:
    assert record.before is not None
    assert record.after is not None
    assert (record.before.start, record.before.end, record.before.max_batch_rows) == (2.0, 33.0, 1)
    assert (record.after.start, record.after.end, record.after.max_batch_rows) == (38.0, 108.0, 128)
    assert stretch([], None, 3.0, record.slo) is None
    assert stretch([], 1.0, 3.0, record.slo) is None
    assert series([], record.slo) == []


def test_the_largest_rate_inside_the_slo_is_found_whatever_the_order_of_the_steps(record: Record) -> None:
    assert [point.rate for point in record.points(1)] == [100.0, 160.0, 190.0, 256.0, 350.0]
    best = [record.largest_met(size) for size in record.batch_sizes()]
    assert [point.rate for point in best if point] == [190.0, 1_344.0, 3_440.0]
    assert record.largest_met(64) is None


def test_of_two_looks_at_one_rate_the_good_one_stands_for_it(record: Record) -> None:
    best = record.largest_met(1)
    assert best is not None
    missed = RampPoint(best.rate, dataclasses.replace(best.figures, slo_met=False))
    again = dataclasses.replace(record, ramp=[missed, *record.ramp, best])
    assert again.largest_met(1) is best


def test_json_has_null_for_what_is_no_number_and_says_why(record: Record) -> None:
    plain = json.loads(json.dumps(record.as_json(), allow_nan=False))
    assert (plain["verdict"], plain["sentence"]) == ("PASS", record.verdict.sentence if record.verdict else None)
    assert plain["before"]["p99"] is None
    assert plain["before"]["p99_text"] == "∞ (42% lost)"
    assert plain["after"]["p99"] > 0.01
    assert plain["times"]["fired"] == 26.0
    assert plain["slo"]["threshold_seconds"] == 0.05
    assert len(plain["ramp"]) == len(record.ramp)


def test_its_state_is_that_of_the_verdict_and_partial_without_one(record: Record) -> None:
    failed = dataclasses.replace(record, verdict=Verdict(False, "It did not."))
    partial = dataclasses.replace(record, verdict=None, interrupted=True)
    assert [each.state for each in (record, failed, partial)] == ["pass", "fail", "partial"]
    assert partial.as_json()["sentence"] is None


def test_figures_of_the_overloaded_say_how_much_was_lost(record: Record) -> None:
    worst: Figures = record.points(1)[-1].figures
    assert worst.p99_text.startswith("∞ (")
    assert worst.served_rps < worst.offered_rps
    assert record.points(1)[0].figures.lateness_p99 is not None
