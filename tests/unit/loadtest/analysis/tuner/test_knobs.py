"""The settings to choose from."""

from typing import Any

import pytest

from loadtest.analysis.tuner.knobs import Knobs, Space
from loadtest.analysis.verdict import Objective


def test_the_usual_space_doubles_up_to_what_the_service_accepts() -> None:
    slo = Objective(0.05, 0.99)
    assert Space.usual(slo).batch_rows == (1, 2, 4, 8, 16, 32, 64, 128)
    assert Space.usual(slo, largest_batch_rows=100).batch_rows == (1, 2, 4, 8, 16, 32, 64, 100)
    assert Space.usual(slo, largest_batch_rows=1).batch_rows == (1,)


@pytest.mark.parametrize(
    ("threshold", "waits"),
    [(0.05, (0.0, 0.001, 0.002, 0.005)), (0.004, (0.0, 0.001, 0.002)), (0.001, (0.0,))],
)
def test_a_wait_has_to_fit_into_the_objective(threshold: float, waits: tuple[float, ...]) -> None:
    assert Space.usual(Objective(threshold, 0.99)).waits_seconds == waits


def test_a_wait_that_does_not_fit_is_kept_where_there_is_no_other() -> None:
    assert Space.usual(Objective(0.001, 0.99), waits_seconds=(0.005, 0.01)).waits_seconds == (0.005,)


def test_all_settings_smaller_ones_first() -> None:
    space = Space((4, 1), (0.002, 0.0), policies=("adaptive", "fixed"), workers=(1, 2))
    listed = list(space)
    assert len(listed) == len(space) == 16
    assert listed[:4] == [Knobs(b, w, "adaptive", 1) for b in (1, 4) for w in (0.0, 0.002)]
    assert len({knobs.family for knobs in listed}) == 4
    assert space.sizes() == [knobs for knobs in listed if knobs.max_wait_seconds == 0.0]
    assert space.longer_waits(Knobs(4, 0.0, "fixed", 2)) == [Knobs(4, 0.002, "fixed", 2)]
    assert space.longer_waits(Knobs(4, 0.002)) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"max_batch_rows": 0}, "max_batch_rows is 0"),
        ({"max_wait_seconds": -1.0}, "max_wait_seconds is -1.0"),
        ({"policy": "greedy"}, "expected adaptive or fixed"),
        ({"workers": 0}, "workers is 0"),
    ],
)
def test_knobs_that_no_service_has(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Knobs(**({"max_batch_rows": 1, "max_wait_seconds": 0.0} | values))


@pytest.mark.parametrize(
    ("values", "said"),
    [({"batch_rows": ()}, "no batch_rows"), ({"batch_rows": (1, 1)}, "each value once"), ({"policies": ("x",)}, "'x'")],
)
def test_spaces_that_say_nothing(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Space(**({"batch_rows": (1,)} | values))


def test_knobs_in_words() -> None:
    assert Knobs(32, 0.002).told() == "batch 32, wait 2 ms, adaptive"
    assert Knobs(1, 0.0, "fixed", 2, "onnx").told() == "batch 1, wait 0 s, fixed, 2 workers, onnx"
