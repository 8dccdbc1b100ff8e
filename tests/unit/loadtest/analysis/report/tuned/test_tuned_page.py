"""The page of a search: it says what was found, whole and safe to send."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from loadtest.analysis.report import answer, tuned
from loadtest.analysis.report.tuned import About
from loadtest.analysis.tuner.found import Found

FoundOf = Callable[[str], Found]
Read = Callable[[str], Any]
PLOTS = {
    "chosen": {"frontier", "near", "goodput", "price"},
    "no benefit": {"frontier", "near", "goodput", "price"},
    "generator limited": {"frontier", "near", "goodput", "price"},
    "partial": {"frontier", "price"},
    "cannot meet": {"frontier"},
    "too slow": set(),
    "nothing": set(),
}
BADGE = {
    "chosen": "CHOSEN",
    "no benefit": "CHOSEN",
    "generator limited": "LIMITED BY THE GENERATOR",
    "partial": "NOT FINISHED",
    "cannot meet": "CANNOT BE MET",
    "too slow": "NEEDS MORE TIME",
    "nothing": "NOT FINISHED",
}


@pytest.mark.parametrize("kind", PLOTS)
def test_the_answer_stands_first_with_the_plots_there_is_data_for_and_asks_nobody(
    found_of: FoundOf, about: About, read: Read, kind: str
) -> None:
    found = found_of(kind)
    source = tuned.html(found, about)
    page = read(source)
    text = page.text
    assert page.addresses == ["data:,"]
    assert set(re.findall(r'class="plot" id="([a-z]+)"', source)) == PLOTS[kind]
    assert BADGE[kind] in text
    order = [BADGE[kind], answer.sentence(found, about), answer.circumstances(found, about), "How this was measured"]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    for fact in ("bench-1", "Example CPU @ 2.60GHz", "locust 2.47.0", "seed 1", "budget 10 min", "rows per request 1"):
        assert fact in text


def test_a_chosen_setting_is_signed_with_its_bracket(found_of: FoundOf, about: About) -> None:
    found = found_of("chosen")
    assert found.rate is not None
    assert found.failed_rate is not None
    assert answer.sentence(found, about) == (
        "With batches of at most 64 rows, no wait and the adaptive policy, digits carries "
        f"{found.rate:,.0f} requests/s "
        f"with p99 within 50 ms: it held 3 of 3 times with fresh arrivals and failed at {found.failed_rate:,.0f}/s."
    )
    assert "no higher rate was seen to fail" in answer.sentence(replace(found, failed_rate=None), about)
    assert "it held once and" in answer.sentence(replace(found, confirmations=found.confirmations[:1]), about)


def test_what_is_the_matter_is_said_with_its_figure(found_of: FoundOf, about: About) -> None:
    cannot = found_of("cannot meet")
    floor = cannot.floor
    assert floor is not None
    said = answer.sentence(cannot, about)
    assert said.startswith("digits cannot keep p99 within 1 ms at any rate: even at ")
    assert f"p99 was {floor.p99 * 1000:.1f} ms (95% interval " in said
    assert answer.advice(cannot) == "Ask for 20 ms or more, or serve a faster model."

    slow = found_of("too slow")
    assert "needs 1,000 samples a trial" in answer.sentence(slow, about)
    assert "needs about 190 minutes; it was given 10 minutes." in answer.sentence(slow, about)
    assert "--budget 190m" in answer.advice(slow)

    limited = found_of("generator limited")
    assert answer.sentence(limited, about).endswith(
        "the generator could not send more than 890/s, so nothing is claimed beyond that."
    )
    unconfirmed = replace(limited, knobs=None, rate=None, confirmations=())
    assert answer.sentence(unconfirmed, about).startswith("The generator gave out before digits did")

    partial = found_of("partial")
    assert answer.sentence(partial, about).startswith("Not confirmed: the most that digits carried")
    assert "Nothing is known yet" in answer.sentence(found_of("nothing"), about)


def test_why_it_ended_early_is_said(found_of: FoundOf, about: About, read: Read) -> None:
    assert "The budget ended first." in read(tuned.html(found_of("partial"), about)).text
    assert "It was interrupted." in read(tuned.html(found_of("nothing"), about)).text
    assert "ended first" not in read(tuned.html(found_of("chosen"), about)).text


def test_nothing_is_claimed_of_what_was_not_confirmed(found_of: FoundOf, about: About, read: Read) -> None:
    for kind in ("partial", "nothing", "cannot meet", "too slow"):
        text = read(tuned.html(found_of(kind), about, 20_000)).text
        for claim in ("confirmed throughput", "replicas", "The ring is the answer"):
            assert claim not in text, (kind, claim)


def test_batching_is_judged_and_its_cost_told(found_of: FoundOf, about: About, read: Read) -> None:
    helped, not_helped = (read(tuned.html(found_of(kind), about)).text for kind in ("chosen", "no benefit"))
    assert "Batching helps this model" in helped
    assert "95% of a call with one row: in a batch of 32 a row costs 650 µs instead of 8.40 ms" in helped
    assert "against single rows" in helped
    assert "Batching does not help this model" in not_helped
    assert "against single rows" not in not_helped


def test_replicas_are_counted_with_headroom(found_of: FoundOf, about: About, read: Read) -> None:
    found = replace(found_of("chosen"), rate=1000.0)
    (row,) = answer.replica_rows(found, 20_000)
    assert row.name == "20,000"
    assert row.cells == ["20", "25", "34", "21"]
    assert [row.name for row in answer.replica_rows(found, None)] == ["2,000", "5,000", "10,000", "20,000"]
    text = read(tuned.html(found, about, 20_000)).text
    assert "need 25 replicas of 1,000/s each with 20% headroom" in text
    assert "need 25 replicas" not in read(tuned.html(found, about)).text


def test_every_trial_is_in_the_table(found_of: FoundOf, about: About, read: Read) -> None:
    found = found_of("generator limited")
    rows = answer.trial_rows(found)
    assert len(rows) == len(found.trials)
    assert [verdict for _, verdict in rows].count("INVALID") == sum(t.verdict == "INVALID" for t in found.trials) > 0
    lost = next(row for row, _ in answer.trial_rows(found_of("chosen")) if "∞" in row.cells)
    assert lost.cells[2:6] == ["∞"] * 4
    text = read(tuned.html(found, about)).text
    assert f"All {len(found.trials)} trials" in text
    assert "The one trial" in read(tuned.html(found_of("too slow"), about)).text


def test_the_percentile_is_that_of_the_objective(found_of: FoundOf, about: About, read: Read) -> None:
    found = found_of("partial")
    text = read(tuned.html(replace(found, slo=replace(found.slo, objective=0.999)), about)).text
    assert "p99.9 against throughput" in text
    assert "p99 " not in text


def test_what_others_wrote_is_text_and_never_markup(found_of: FoundOf, about: About, read: Read) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    said = replace(about, model=evil, target=evil, host={"name": evil, evil: evil}, versions={evil: evil})
    source = tuned.html(replace(found_of("chosen"), why=evil), said)
    assert "<script>alert" not in source
    assert "<img" not in source
    assert evil in read(source).text
