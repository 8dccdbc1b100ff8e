"""Where the time of a trial went, from two looks at the service's counts."""

from dataclasses import replace

import pytest

from loadtest.analysis.tuner import limit
from loadtest.tune.admin import Reading
from loadtest.tune.stages import stages
from slo import names


def reading(
    requests: int, request: float, batches: int, model: float, rows: int, fixed: float = float("nan")
) -> Reading:
    counts = {names.REQUEST_DURATION: requests, names.QUEUE_WAIT: requests}
    return Reading(
        sums={
            names.REQUEST_DURATION: request,
            names.QUEUE_WAIT: request / 4,
            names.MODEL_DURATION: model,
            names.BATCH_ROWS: float(rows),
        },
        counts={**counts, names.MODEL_DURATION: batches, names.BATCH_ROWS: batches},
        gauges={names.COST_FIXED_SECONDS: fixed, names.COST_PER_ROW_SECONDS: 0.001},
    )


def test_only_what_happened_between_the_two_counts() -> None:
    before = replace(reading(1_000, 100.0, 500, 50.0, 1_000), cpu_seconds=10.0)
    after = replace(reading(1_200, 108.0, 550, 51.0, 1_400, fixed=0.004), cpu_seconds=11.0)
    found = stages(before, after, seconds=2.0, generator_cpu_share=0.3)
    assert found == pytest.approx(
        {
            limit.QUEUE: 2 / 200,
            limit.MODEL: 1 / 50,
            limit.REST: 0.04 - 0.01 - 0.02,
            limit.BATCH_ROWS: 8,
            limit.ROWS_PER_REQUEST: 2,
            limit.FIXED: 0.004,
            limit.PER_ROW: 0.001,
            limit.GENERATOR_CPU: 0.3,
            limit.SERVICE_CPU: 0.5,
        }
    )


def test_what_was_not_observed_is_not_there() -> None:
    same = reading(10, 1.0, 5, 0.5, 10)
    assert set(stages(same, same, seconds=2.0, generator_cpu_share=0.0)) == {limit.GENERATOR_CPU, limit.PER_ROW}
