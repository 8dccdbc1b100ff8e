"""The load generator's own figures: what counts as sent, as true, as flat."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench import hey
from bench.found import Found
from bench.loadgen import FAST_HTTP, LEAN, OURS, Closed, LoadGen, Memory, Sent, Truth, text
from bench.options import Options
from bench.throughput import Throughput
from bench.wrk import Request

SENT = Sent(
    rate=12_000,
    offered=60_000,
    dropped=0,
    arrived=60_000,
    in_time=59_990,
    lateness_p50_seconds=0.0002,
    lateness_p99_seconds=0.003,
    latency_p99_seconds=0.004,
    cpu_share=0.9,
)


@pytest.mark.parametrize(
    ("change", "whole"),
    [
        ({}, True),
        ({"dropped": 1}, False),
        ({"arrived": 59_999}, False),  # one that was sent, so it is said, and never came
        ({"arrived": 60_001}, False),
        ({"in_time": 59_900}, False),  # it fell behind, and sent the rest later
    ],
)
def test_a_rate_counts_only_if_every_arrival_was_sent(change: dict[str, int], whole: bool) -> None:
    assert replace(SENT, **change).whole is whole  # type: ignore[arg-type]


def test_the_ratio_is_that_of_the_best_rates() -> None:
    found = LoadGen()
    assert found.ratio is None
    found.closed = [Closed(FAST_HTTP, 10, 7_000), Closed(FAST_HTTP, 50, 8_000), Closed(LEAN, 32, 20_000)]
    assert found.ratio is None
    found.sent = [replace(SENT, rate=13_000, dropped=5)]
    assert found.ratio == 0
    found.sent += [SENT, replace(SENT, rate=10_000)]
    assert found.best == SENT
    assert found.ratio == 1.5


def test_errors_of_others_are_not_ours() -> None:
    found = LoadGen(truths=[Truth("0.05", OURS, 0.0505, 0.05, 7000), Truth("0.05", "hey", 0.06, 0.05, 7000)])
    assert found.error == pytest.approx(0.01)
    found.truths += [Truth("0.05", OURS, 0.2, 0.05, 7000), Truth("0.05", OURS, 0.051, 0.05, 7000)]
    assert found.error == pytest.approx(0.02)  # the median round
    found.truths += [Truth("0.1", OURS, 0.103, 0.1, 7000)]
    assert found.error == pytest.approx(0.03)  # of the delays that are told worst
    found.truths = [Truth("0.05", OURS, None, 0.05, 7000)]
    assert found.error == math.inf


def test_memory_grows_from_a_tenth_on() -> None:
    assert Memory(True, ((5, 40), (10, 100), (50, 130), (100, 120)), 1.0).growth_bytes == 30


def found() -> LoadGen:
    return LoadGen(
        closed=[Closed(FAST_HTTP, 50, 8_000), Closed(LEAN, 32, 20_000, 0.99)],
        sent=[SENT, replace(SENT, rate=14_000, dropped=3)],
        half=replace(SENT, rate=6_000, lateness_p99_seconds=0.0012),
        truths=[Truth("0.05", OURS, 0.0505, 0.05, 7000), Truth("0.05", "hey", None, 0.05, 6500)],
        memories=[Memory(False, ((1_000_000, 68_000_000), (5_000_000, 68_100_000), (10_000_000, 68_200_000)), 200.0)],
        missing=["cannot find hey"],
    )


def test_verdicts() -> None:
    verdicts = Found(Options(), Throughput([], ()), loadgen=found()).verdicts()[-4:]
    assert [(verdict.found, verdict.met) for verdict in verdicts] == [
        ("1.50 ×", "yes"),
        ("1.20 ms", "yes"),
        ("1.00%", "yes"),
        ("0.2 MB", "yes"),
    ]


@pytest.mark.parametrize(("others", "met"), [(0.04, "no"), (0.2, "undecided")])
def test_a_miss_on_a_busy_machine_decides_nothing(others: float, met: str) -> None:
    busy = found()
    busy.half = replace(SENT, lateness_p99_seconds=0.02, others_share=others)
    verdicts = Found(Options(), Throughput([], ()), loadgen=busy).verdicts()[-4:]
    assert [verdict.met for verdict in verdicts] == ["yes", met, "yes", "yes"]


def test_the_section_says_all_of_it() -> None:
    told = re.sub(r" +", " ", text(found()))
    for part in (
        "| closed loop, Locust's FastHttpUser | 50 users | 8,000 | 1.00 × |",
        "| open loop | every arrival sent | 12,000 | 1.50 × | 60,000 | 60,000 | 0.20 ms | 3.00 ms | 90% | 0% |",
        "3 dropped",
        "open loop, half of the target",
        "50.50 ms",
        "68.2 MB",
        "Missing as a witness: cannot find hey.",
    ):
        assert part in told, told
    assert text(LoadGen()) == ""


HEY = """
Summary:
  Total:\t5.0012 secs
  Slowest:\t0.0123 secs
  Requests/sec:\t15000.1234

Latency distribution:
  10% in 0.0005 secs
  99% in 0.0031 secs

Status code distribution:
  [200]\t75000 responses
  [503]\t12 responses
"""


def test_what_hey_says() -> None:
    assert hey.parse(HEY) == hey.HeyReading(15000.1234, 0.0031, 12)
    with pytest.raises(hey.HeyError, match="hey gave no report but said: dial tcp"):
        hey.parse("dial tcp: refused")


def test_how_hey_is_asked() -> None:
    command = hey.command(Path("hey"), Request("/predict", b"{}"), "http://127.0.0.1:1/predict", 16, 5)
    expected = "hey -z 5s -c 16 -cpus 1 -m POST -T application/json -d {} http://127.0.0.1:1/predict"
    assert command == expected.split(" ")
