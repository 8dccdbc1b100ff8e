"""The server with known delays: what it decides, and what it writes down."""

import math
from pathlib import Path
from typing import Any

import pytest

from bench.known_delays import Behaviour, Log, lognormal_quantile, parse_delay, read_log


def test_a_delay_is_fixed_or_in_turn() -> None:
    fixed, in_turn = parse_delay("0.005"), parse_delay("0.1, 0.2")
    assert [fixed(), fixed()] == [0.005, 0.005]
    assert [in_turn() for _ in range(5)] == [0.1, 0.2, 0.1, 0.2, 0.1]


def test_lognormal_delays_have_the_quantiles_that_theory_says() -> None:
    draw = parse_delay("lognormal:0.02:0.5", seed=3)
    drawn = sorted(draw() for _ in range(40_000))
    assert drawn[20_000] == pytest.approx(0.02, rel=0.02)
    assert drawn[39_600] == pytest.approx(lognormal_quantile(0.02, 0.5, 2.3263), rel=0.03)
    assert lognormal_quantile(0.02, 0.5, 2.3263) == pytest.approx(0.02 * math.exp(1.16315))
    again = parse_delay("lognormal:0.02:0.5", seed=3)
    assert sorted(again() for _ in range(40_000)) == drawn
    assert parse_delay("lognormal:0.02:0.5", seed=4)() not in drawn


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "0.1,", "lognormal", "lognormal:0:1", "lognormal:1:-1", "0.1:2", "nan"]
)
def test_what_is_no_delay_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no delay; expected seconds, or lognormal:MEDIAN:SIGMA"):
        parse_delay(text)


@pytest.mark.parametrize(
    ("how", "arrivals", "answers"),
    [
        ({}, (10.0, 10.01), (10.1, 10.11)),
        # Times count from the first arrival.
        ({"changes": [(2.0, parse_delay("0.5"))]}, (10.0, 11.99, 12.0, 30.0), (10.1, 12.09, 12.5, 30.5)),
        # In a stall from 12 to 13: one under way when it began, two that came in it, one that came after it.
        ({"stalls": [(2.0, 1.0)]}, (10.0, 11.85, 11.95, 12.5, 12.95, 13.0), (10.1, 11.95, 13.0, 13.0, 13.05, 13.1)),
        # One after the other: the second waits for the first, the fourth finds nobody.
        ({"serial": True}, (10.0, 10.05, 10.05, 11.0), (10.1, 10.2, 10.3, 11.1)),
    ],
    ids=["at once", "a change", "a stall", "serial"],
)
def test_when_it_answers(how: dict[str, Any], arrivals: tuple[float, ...], answers: tuple[float, ...]) -> None:
    behaviour = Behaviour(parse_delay("0.1"), **how)
    assert [behaviour.answer(at)[0] for at in arrivals] == pytest.approx(list(answers))


def test_it_can_be_told_otherwise_while_it_runs() -> None:
    behaviour = Behaviour(parse_delay("0.1"), changes=[(5.0, parse_delay("9"))])
    assert behaviour.answer(10.0)[0] == pytest.approx(10.1)
    behaviour.change(parse_delay("0.2"))
    behaviour.stall(11.0, 1.0)
    assert behaviour.answer(11.5)[0] == pytest.approx(12.0)
    assert behaviour.answer(16.0)[0] == pytest.approx(16.2)  # what was planned before it was told is off


def test_statuses_are_taken_in_turn() -> None:
    behaviour = Behaviour(parse_delay("0"), statuses=(200, 200, 503))
    assert [behaviour.answer(1.0)[1] for _ in range(6)] == [200, 200, 503, 200, 200, 503]


def test_the_log_goes_to_a_file_and_back(tmp_path: Path) -> None:
    log = Log()
    first, second = log.arrived(1.0), log.arrived(2.0)
    log.answered(second, 2.5)
    assert first != second
    assert len(log) == 2
    log.write(tmp_path / "log.npy")
    rows = read_log(tmp_path / "log.npy")
    assert rows[:, 0].tolist() == [1.0, 2.0]
    assert math.isnan(rows[0, 1])
    assert rows[1, 1] == 2.5
    Log().write(tmp_path / "empty.npy")
    assert read_log(tmp_path / "empty.npy").shape == (0, 2)
