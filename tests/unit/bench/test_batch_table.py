from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench import batch_table
from bench.batch_table import Line, busy_note, fit, fixed_share, one_round, table, verdict
from service.batching.cost import CostModel


def lines(fixed: float, per_row: float, rows: int = 4096) -> list[Line]:
    return [Line(batch, (rows / batch) * (fixed + per_row * batch), rows) for batch in batch_table.BATCH_SIZES]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def model(clock: Clock, fixed: float, per_row: float, calls: list[int]) -> Callable[[Any], None]:
    def run(rows: Any) -> None:
        calls.append(len(rows))
        clock.now += fixed + per_row * len(rows)

    return run


def test_a_round_takes_every_row_once() -> None:
    clock, calls = Clock(), []
    seconds = one_round(model(clock, 0.001, 0.0001, calls), np.zeros((100, 2)), 32, budget_seconds=9, clock=clock)
    assert calls == [32, 32, 32, 4]
    assert seconds == pytest.approx(4 * 0.001 + 100 * 0.0001)


def test_a_round_of_a_slow_model_is_scaled_up() -> None:
    clock, calls = Clock(), []
    seconds = one_round(model(clock, 1.0, 0.0, calls), np.zeros((100, 2)), 1, budget_seconds=5, clock=clock)
    assert len(calls) == 6
    assert seconds == pytest.approx(100.0)


@pytest.mark.parametrize(("fixed", "per_row"), [(0.0049, 0.000055), (0.0, 0.001), (0.004, 0.0)])
def test_the_fit_finds_the_line(fixed: float, per_row: float) -> None:
    cost = fit(lines(fixed, per_row))
    assert cost.fixed_seconds == pytest.approx(fixed, abs=1e-9)
    assert cost.per_row_seconds == pytest.approx(per_row, abs=1e-9)


def test_fixed_share() -> None:
    assert fixed_share(CostModel(0.003, 0.001)) == pytest.approx(0.75)
    assert fixed_share(CostModel(0.0, 0.0)) == 0.0


def test_the_table_as_a_whole() -> None:
    assert table(lines(0.005, 0.0001)[:3]) == (
        "batch | total ms | ms per row | relative throughput\n"
        "    1 | 20,889.6 |     5.1000 |               1.0 ×\n"
        "    8 |  2,969.6 |     0.7250 |               7.0 ×\n"
        "   32 |  1,049.6 |     0.2563 |              19.9 ×"
    )


@pytest.mark.parametrize(
    ("cost", "says"),
    [
        (CostModel(0.0001, 0.001), "Batching buys little here: the work is in the rows"),
        (CostModel(0.0, 0.0), "Batching buys little here"),
        (CostModel(0.005, 0.0), "batches of 512 give 512.0 × the rows per second of single calls, and still growing"),
        (
            CostModel(0.005, 0.0001),
            "give 46.5 × the rows per second of single calls, with 51 × as the limit for any batch",
        ),
        (CostModel(0.005, 0.0001), "beyond about 50 rows a batch takes longer mainly for its rows"),
    ],
)
def test_one_sentence_on_what_batching_buys(cost: CostModel, says: str) -> None:
    sentence = verdict(cost, 512)
    assert says in sentence
    assert "\n" not in sentence


def test_a_busy_machine_is_named() -> None:
    assert busy_note(1.9, 2) is None
    assert "9 processes already compete for 2 cores" in (busy_note(9.2, 2) or "")


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command sets for its own process is put back after the test."""
    for name in batch_table._ONE_THREAD:
        monkeypatch.setenv(name, "1")


@pytest.mark.usefixtures("one_thread")
def test_the_whole_command_on_a_quick_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SERVICE_MODEL", "synthetic?fixed_seconds=0&per_row_seconds=0&features=3")
    assert batch_table.main() == 0
    out, err = capsys.readouterr()
    assert "the runtime that serves (synthetic), 4,096 rows" in out
    assert out.count(" | ") == 3 * 6
    assert "one call of n rows takes about" in out
    assert "round 3 of 3, batches of 512" in err


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("SERVICE_MODEL", "nowhere.onnx", "error: there is no model file nowhere.onnx"),
        ("SERVICE_MODEL", "digits?trees=no", "error: the model 'digits?trees=no' has trees=no"),
        ("SERVICE_MAX_BATCH_ROWS", "many", "error: SERVICE_MAX_BATCH_ROWS is 'many'"),
    ],
)
def test_trouble_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str, value: str, says: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert batch_table.main() == 1
    err = capsys.readouterr().err
    assert err.startswith(says)
    assert err.count("\n") == 1
