"""frontier.json: whole, readable by others, and refused with one sentence when it is something else."""

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from loadtest.analysis.frontier_file import FORMAT, About, FrontierError, dumps, loads
from loadtest.analysis.tuner.found import Found

FoundOf = Callable[[str], Found]
KINDS = ("chosen", "no benefit", "cannot meet", "generator limited", "too slow", "nothing", "partial")


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_written_is_read_back_whole(found_of: FoundOf, about: About, kind: str) -> None:
    found = found_of(kind)
    assert loads(dumps(found, about)) == (found, about)


def test_it_says_what_was_found_in_plain_fields(found_of: FoundOf, about: About) -> None:
    found = found_of("chosen")
    told = json.loads(dumps(found, about))
    assert told["format"] == FORMAT
    assert told["kind"] == "chosen"
    assert told["slo"] == {"threshold_seconds": 0.05, "objective": 0.99}
    assert told["knobs"] == {
        "max_batch_rows": 64, "max_wait_seconds": 0.0, "policy": "adaptive", "workers": None, "runtime": None,
    }  # fmt: skip
    assert (told["rate"], told["failed_rate"]) == (found.rate, found.failed_rate)
    assert told["seconds"] == found.spent_seconds
    assert told["host"]["name"] == "bench-1"
    assert told["versions"] == {"locust": "2.47.0", "numpy": "2.3.1"}
    assert len(told["trials"]) == len(found.trials)
    for place in told["confirmations"]:
        assert told["trials"][place]["purpose"] == "confirm"
        assert told["trials"][place]["rate"] == found.rate
    assert len(told["confirmations"]) == 3
    settings = [each["knobs"] for each in told["frontiers"]]
    assert told["knobs"] in settings
    assert sorted(place for each in told["frontiers"] for place in each["trials"]) == list(range(len(found.trials)))
    chosen = told["frontiers"][settings.index(told["knobs"])]
    assert chosen["passed_rate"] >= told["rate"]
    assert chosen["capacity"]["rate"] == pytest.approx(told["rate"], rel=0.1)


def test_an_infinite_time_is_null_with_its_reason(found_of: FoundOf, about: About) -> None:
    found = found_of("chosen")
    text = dumps(found, about)
    assert "Infinity" not in text
    place = next(n for n, trial in enumerate(found.trials) if math.isinf(trial.p99))
    told = json.loads(text)["trials"]
    assert told[place]["p99"] is None
    assert told[place]["p99_ci95"] == [None, None]
    assert "got no good answer that p99 falls on one of them" in told[place]["latency_reasons"]["p99"]
    finite = next(n for n, trial in enumerate(found.trials) if math.isfinite(trial.p99))
    assert told[finite]["latency_reasons"] == {}


def test_a_trial_without_an_arrival_is_null_for_another_reason(found_of: FoundOf, about: About) -> None:
    found = found_of("partial")
    nothing = replace(found.trials[0], verdict="INVALID", offered=0, p50=math.nan, p95=math.nan, p99=math.nan)
    text = dumps(replace(found, trials=(nothing, *found.trials)), about)
    assert set(json.loads(text)["trials"][0]["latency_reasons"].values()) == {"no arrival was measured"}
    read = loads(text)[0].trials[0]
    assert math.isnan(read.p99)
    assert read.offered == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 7}, "its format is 7; this version reads format 1"),
        ({"kind": "splendid"}, "its kind is 'splendid'; expected chosen, cannot_meet"),
        ({"rate": ...}, "it is no whole frontier: rate is missing"),
        ({"rate": ..., "host": ...}, "it is no whole frontier: rate, host are missing"),
        ({"frontiers": ...}, 'it is no result of a search; expected an object with "frontiers"'),
        ({"confirmations": [999]}, "it is damaged (IndexError: tuple index out of range)"),
        ({"knobs": {"max_batch_rows": 0, "max_wait_seconds": 0}}, "it is damaged (ValueError: max_batch_rows is 0"),
        ({"trials": [{}], "confirmations": []}, "it is damaged (KeyError: "),
        ({"slo": 5}, "it is damaged (TypeError: "),
    ],
)
def test_what_is_no_frontier_is_refused_with_a_sentence(
    found_of: FoundOf, about: About, change: dict[str, object], said: str
) -> None:
    told = json.loads(dumps(found_of("chosen"), about)) | change
    text = json.dumps({name: value for name, value in told.items() if value is not ...})
    with pytest.raises(FrontierError) as refused:
        loads(text)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "[1, 2", "[]", "3", '{"verdict": "PASS"}'])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(FrontierError, match=r"^it is (not JSON|no result of a search)"):
        loads(text)
