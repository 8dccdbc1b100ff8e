"""Lines and tables for the terminal, from the same record as the report."""

import dataclasses
from pathlib import Path

from stack.demo.experiment import Phase, Times, Verdict
from stack.demo.record import Record
from stack.demo.telling import HEADINGS, ending, events, findings, news, state_line, table


def test_events_are_told_in_the_order_in_which_they_happened(record: Record) -> None:
    told = [(event.at, event.kind, event.text) for event in events(record)]
    assert told[0] == (2.0, "bad", "p99 breaks its SLO of 50 ms for the clients")
    assert told[4] == (34.0, "act", "the batch is set to 128 rows at run time; the load is left alone")
    assert told[-1] == (104.2, "good", "'resolved' arrives in the inbox")
    assert [at for at, _, _ in told] == sorted(at for at, _, _ in told)
    assert len(told) == 9


def test_news_is_what_was_not_known_before(record: Record) -> None:
    before = dataclasses.replace(record, times=Times(breach=2.0))
    after = dataclasses.replace(record, times=Times(breach=2.0, fired=26.0, arrived=28.4))
    assert news(before, after) == [
        "   26.0 s  the alert LatencySLOBreach fires in Prometheus",
        "   28.4 s  the alert arrives in the inbox",
    ]
    assert news(after, after) == []


def test_the_state_has_figures_what_is_awaited_and_the_time_left(record: Record) -> None:
    line = state_line(20.0, record.series[17], Phase.FIRING, 247)
    assert "p99 ∞ (42% lost)" in line
    assert "400/s offered, 232/s served" in line
    assert line.endswith("waiting for the alert to fire; about 4:07 left")


def test_the_table_is_aligned_under_the_promised_headings(record: Record) -> None:
    lines = table([point.figures for point in record.ramp]).splitlines()
    assert len(lines) == 1 + len(record.ramp)
    assert [heading for heading in HEADINGS if heading not in lines[0]] == []
    assert lines[1].split() == ["1", "100", "100", "6.6", "ms", "6.3", "ms", "11", "ms", "14", "ms", "1.0", "yes"]
    assert lines[0].endswith("SLO met")
    assert {len(line) for line in lines} == {len(lines[0])}


def test_findings_name_the_largest_rate_of_each_batch_size(record: Record) -> None:
    found = findings(record)
    assert found[0].startswith("With batches of one row up to 190 requests/s stay inside the SLO of 50 ms (p99 46 ms")
    assert found[2].startswith("With batches of up to 128 rows up to 3,440 requests/s")
    assert found[3] == "That is 18.1 times as much for 128 as for 1, on the same CPUs."
    assert found[4].startswith(
        "Why: one run of the model costs about 5.0 ms whatever the batch, and 0.06 ms more for each"
    )


def test_findings_are_honest_about_curves_without_a_knee_or_without_a_good_point(record: Record) -> None:
    endless = dataclasses.replace(record, ramp=[p for p in record.ramp if p.figures.slo_met])
    assert "at least 190 requests/s" in findings(endless)[0]
    hopeless = dataclasses.replace(record, ramp=[p for p in record.ramp if not p.figures.slo_met])
    assert findings(hopeless)[0] == "With batches of one row no rate that was tried stayed inside the SLO."
    assert len(findings(hopeless)) == 4


def test_the_end_has_both_tables_the_verdict_and_the_report(record: Record) -> None:
    text = ending(record, Path("out/demo/report.html"))
    assert text.count("max batch") == 2
    assert "PASS: Under one unchanged load" in text
    assert text.endswith("Report: out/demo/report.html (after 4:50 min)")
    partial = dataclasses.replace(record, verdict=None, ramp=[], after=None)
    assert "PARTIAL: The demo was interrupted" in ending(partial, Path("r"))
    failed = dataclasses.replace(
        record, verdict=Verdict(False, "The alert did not fire."), before=None, after=None, ramp=[]
    )
    assert ending(failed, Path("r")).strip().startswith("FAIL: The alert did not fire.")
