"""A result in the terminal: what has no answer is endless, and what there is none of is no time at all."""

import math
from typing import Any

from loadtest.analysis.result import About, build
from loadtest.analysis.samples import End, Samples
from loadtest.analysis.verdict import GeneratorHealth, Objective
from loadtest.run.telling import told


def figures(samples: Samples) -> dict[str, list[str]]:
    """The cells of the table's rows by their names."""
    about: dict[str, Any] = {"settings": {}, "versions": {}, "host": {}, "seed": 1, "started_at": ""}
    result = build(
        samples,
        About(target="http://127.0.0.1:1", arrivals="poisson", planned_rate=10, **about),
        Objective(0.05, 0.99),
        GeneratorHealth(),
        duration_seconds=10,
    )
    rows = [line for line in told(result).splitlines() if line.startswith(("latency", "service time"))]
    return {line[:24].strip(): line[24:].split() for line in rows}


def test_without_a_reply_there_are_no_service_times_and_no_successes() -> None:
    shown = figures(Samples.of((k / 10, k / 10, k / 10 + 0.01, int(End.CONNECTION), 0) for k in range(100)))
    assert shown["latency, all arrivals"] == ["∞"] * 6
    assert shown["latency, successes only"] == shown["service time"] == ["–"] * 6


def test_without_an_arrival_there_is_no_latency() -> None:
    assert figures(Samples.of([(20.0, math.nan, 20.0, int(End.DROPPED), 0)]))["latency, all arrivals"] == ["–"] * 6
