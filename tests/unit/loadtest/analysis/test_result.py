"""The record of a run: the names that others rely on, and that nothing infinite or lost slips out of it."""

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from loadtest.analysis import result
from loadtest.analysis.result import About, Excluded, ResultError, build
from loadtest.analysis.samples import SAMPLE, End, Samples
from loadtest.analysis.verdict import GeneratorHealth, Objective

ABOUT = About(
    target="http://127.0.0.1:8000/predict",
    arrivals="poisson",
    planned_rate=200.0,
    seed=7,
    started_at="2026-01-02T03:04:05+00:00",
    settings={"rate": 200.0, "arrivals": "poisson"},
    versions={"numpy": "2"},
    host={"name": "here", "cpus": 2},
    processes=2,
    failures={"HTTP 500": 3, "timed out": 12},
)
CONTRACT = {
    "verdict", "reasons", "offered", "started", "completed", "failed", "dropped", "in_flight_at_end", "measured",
    "planned_rate", "achieved_rate", "latency_seconds", "latency_p99_ci95", "success_latency_seconds",
    "service_seconds", "dispatch_lateness_seconds", "slo", "seed", "arrivals", "host", "format", "notes", "target",
    "started_at", "ended", "duration_seconds", "warmup_seconds", "settings", "versions", "generator", "excluded",
    "steady", "failures", "latency_reasons", "batches",
}  # fmt: skip
PERCENTILES = {"p50", "p90", "p95", "p99", "p999", "max"}


def samples(count: int = 6_000, rate: float = 200.0) -> Samples:
    random = np.random.default_rng(1)
    rows = np.zeros(count, dtype=SAMPLE)
    rows["scheduled"] = np.arange(count) / rate
    rows["sent"] = rows["scheduled"] + 0.0002
    rows["done"] = rows["sent"] + random.exponential(0.005, count)
    return Samples(rows)


def with_ends(ends: dict[int, End]) -> Samples:
    rows = samples().rows.copy()
    for place, end in ends.items():
        rows["end"][place] = end
        if end in (End.DROPPED, End.IN_FLIGHT):
            rows["done" if end is End.IN_FLIGHT else "sent"][place] = math.nan
    return Samples(rows)


def built(measured: Samples, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"duration_seconds": 30.0, "warmup_seconds": 5.0} | more
    return build(measured, ABOUT, Objective(0.05, 0.99), GeneratorHealth(0.5, 0), **given)


def test_the_names_that_others_rely_on() -> None:
    record = built(samples())
    assert set(record) >= CONTRACT
    assert set(record["latency_seconds"]) == set(record["service_seconds"]) == PERCENTILES
    assert set(record["success_latency_seconds"]) == PERCENTILES | {"mean", "samples"}
    assert set(record["dispatch_lateness_seconds"]) == {"p50", "p99", "max"}
    assert set(record["slo"]) == {"threshold_seconds", "objective", "good", "bad", "ratio"}
    assert record["verdict"] == "PASS"


def test_the_whole_run_is_counted_and_the_measured_part_apart() -> None:
    record = built(samples())
    assert (record["offered"], record["measured"]["offered"]) == (6_000, 5_000)
    for counts in (record, record["measured"]):
        assert counts["offered"] == sum(counts[name] for name in ("completed", "failed", "dropped", "in_flight_at_end"))
    assert record["achieved_rate"] == pytest.approx(200)
    assert record["slo"]["good"] + record["slo"]["bad"] == 5_000


def test_what_was_left_out_is_said() -> None:
    cut = Excluded(30.0, 40.0, "the run was aborted")
    excluded = built(samples(8_000), excluded=[cut])["excluded"]
    assert excluded == [
        {"from_seconds": 0.0, "to_seconds": 5.0, "samples": 1_000, "why": "warm-up"},
        {"from_seconds": 30.0, "to_seconds": 40.0, "samples": 2_000, "why": "the run was aborted"},
    ]
    assert built(samples(), warmup_seconds=0.0)["excluded"] == []


def test_a_lost_arrival_makes_the_maximum_null_and_says_why() -> None:
    record = built(with_ends({2_000: End.DROPPED, 3_000: End.TIMED_OUT, 3_001: End.IN_FLIGHT}))
    assert record["latency_seconds"]["max"] is None
    assert record["latency_seconds"]["p99"] is not None
    assert record["success_latency_seconds"]["max"] is not None
    assert set(record["latency_reasons"]) == {"max"}
    assert "3 of 5,000 arrivals" in record["latency_reasons"]["max"]
    for part in ("1 dropped", "1 failed", "1 in flight"):
        assert part in record["latency_reasons"]["max"]


def test_it_is_json_without_infinities_and_reads_back_the_same() -> None:
    record = built(with_ends(dict.fromkeys(range(1_000, 2_000), End.TIMED_OUT)), series={"seconds": [1, 2]})
    text = result.dumps(record)
    assert "Infinity" not in text
    assert "NaN" not in text
    assert result.loads(text) == json.loads(text) == record
    assert record["latency_seconds"]["p99"] is None
    assert record["series"] == {"seconds": [1, 2]}


def test_nothing_measured_is_a_record_too() -> None:
    record = built(Samples(np.empty(0, dtype=SAMPLE)))
    assert record["verdict"] == "INVALID"
    assert record["latency_seconds"]["p50"] is None
    assert record["latency_reasons"]["p50"] == "no arrival was measured"
    assert result.loads(result.dumps(record)) == record


def test_batches_are_in_time_order_and_together_the_whole() -> None:
    record = built(samples())
    batches = record["batches"]
    assert batches[0]["from_seconds"] == 5.0
    assert batches[-1]["to_seconds"] == 30.0
    assert all(a["to_seconds"] == b["from_seconds"] for a, b in pairwise(batches))
    assert sum(batch["offered"] for batch in batches) == 5_000


def test_a_schedule_that_changes_its_rate_is_not_asked_to_be_steady() -> None:
    ramp = About(**{name: getattr(ABOUT, name) for name in ABOUT.__slots__} | {"arrivals": "ramp"})
    record = build(samples(), ramp, Objective(0.05, 0.99), GeneratorHealth(), duration_seconds=30.0)
    assert record["steady"] is None
    assert built(samples())["steady"] is not None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "it is not JSON"),
        ("[]", 'expected an object with a "verdict"'),
        ('{"verdict": "PASS", "format": 9}', "its format is 9"),
        ('{"verdict": "PASS", "format": 1}', "are missing"),
    ],
)
def test_a_file_that_is_no_result_is_refused_with_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ResultError, match=sentence):
        result.loads(text)


def test_throughput_is_what_was_answered_in_the_measured_time() -> None:
    """An overloaded service that answers half as fast as it is asked does not look as fast as it is asked."""
    rows = samples().rows.copy()  # 200/s for 30 s
    rows["done"] = 2 * rows["scheduled"] + 0.001  # 100/s
    made = built(Samples(rows))
    assert made["measured"]["completed"] == 5_000
    assert made["throughput"] == pytest.approx(100, rel=0.01)
    rows["done"][3_000:] = math.nan
    rows["end"][3_000:] = End.IN_FLIGHT
    assert built(Samples(rows))["throughput"] == pytest.approx(100, rel=0.01)
