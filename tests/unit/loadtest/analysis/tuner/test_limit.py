"""What limits, and whether batching helps, in words."""

from collections.abc import Callable

import pytest

from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.limit import batching_told, limit, model_busy_share
from loadtest.analysis.tuner.trial import Measured

Make = Callable[..., Measured]


@pytest.mark.parametrize(
    ("knobs", "stages", "what"),
    [
        # 1,000/s in batches of 20 rows are 50 batches a second; of 19 ms each they take 95% of a worker's time
        (Knobs(32, 0.0, workers=1), {"queue_seconds": 0.03, "model_seconds": 0.019, "batch_rows": 20.0}, "model"),
        (Knobs(32, 0.0), {"queue_seconds": 0.03, "model_seconds": 0.019, "batch_rows": 20.0}, "queue"),
        (Knobs(32, 0.0, workers=2), {"queue_seconds": 0.03, "model_seconds": 0.019, "batch_rows": 20.0}, "queue"),
        (Knobs(32, 0.005, "fixed"), {"queue_seconds": 0.004, "model_seconds": 0.001, "rest_seconds": 0.001}, "wait"),
        (Knobs(32, 0.005), {"queue_seconds": 0.004, "model_seconds": 0.001, "rest_seconds": 0.001}, "queue"),
        (Knobs(32, 0.0), {"queue_seconds": 0.001, "model_seconds": 0.001, "rest_seconds": 0.009}, "HTTP"),
        (Knobs(32, 0.0), {"queue_seconds": 0.002, "rest_seconds": 0.001, "service_cpu_share": 0.97}, "HTTP"),
        (Knobs(32, 0.0), {"queue_seconds": 0.001, "model_seconds": 0.02, "rest_seconds": 0.001}, "model"),
        (Knobs(32, 0.0), {}, "unknown"),
    ],
)
def test_what_limits(measured: Make, knobs: Knobs, stages: dict[str, float], what: str) -> None:
    found = limit(measured(1_000, 0.04, knobs=knobs, stages=stages))
    assert found.what == what
    assert what == "unknown" or what in found.told


def test_the_generators_limit_comes_before_all_else(measured: Make) -> None:
    found = limit(measured(1_000, 0.04, stages={"queue_seconds": 1.0}), 1_200)
    assert (found.what, "1,200/s" in found.told) == ("generator", True)


def test_a_models_share_of_the_time_counts_rows_not_requests(measured: Make) -> None:
    stages = {"model_seconds": 0.01, "batch_rows": 40.0, "rows_per_request": 4.0}
    assert model_busy_share(measured(500, 0.04, stages={**stages, "model_workers": 1.0})) == pytest.approx(0.5)
    assert model_busy_share(measured(500, 0.04, stages={**stages, "model_workers": 2.0})) == pytest.approx(0.25)
    assert model_busy_share(measured(500, 0.04, stages=stages)) is None  # who knows how many share the work
    assert model_busy_share(measured(500, 0.04)) is None


def test_whether_batching_helps(measured: Make) -> None:
    single = Knobs(1, 0.0)
    costly = {"cost_fixed_seconds": 0.004, "cost_per_row_seconds": 0.0001}
    free = {"cost_fixed_seconds": 0.00001, "cost_per_row_seconds": 0.002}
    chosen = measured(1_000, 0.04, stages=costly)
    assert "5 times" in batching_told(chosen, measured(200, 0.04, knobs=single))
    assert "failed at 300/s already" in batching_told(chosen, measured(300, 0.2, knobs=single))
    assert "how much less it carries was not measured" in batching_told(chosen, measured(980, 0.2, knobs=single))
    assert "not measured" in batching_told(chosen, None)
    assert "does not help" in batching_told(measured(450, 0.04, stages=free), None)
    assert "does not help" in batching_told(measured(450, 0.04, knobs=single), None)
