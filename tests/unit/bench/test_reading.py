"""Medians over rounds, and which cell stands for a server."""

import pytest

from bench.reading import Cell, Reading, best


def reading(rate: float, p99: float | None = 0.01, errors: int = 0, sockets: int = 0) -> Reading:
    return Reading(round(rate * 2) + errors, 2.0, errors, sockets, p99 / 2 if p99 is not None else None, p99)


def cell(*readings: Reading, connections: int = 32, server: str = "s") -> Cell:
    return Cell(server, connections, readings)


def test_a_cell_is_the_median_of_its_rounds() -> None:
    three = cell(reading(100, 0.02), reading(300, 0.01), reading(110, 0.04))
    assert three.rate == 110
    assert three.p99_seconds == 0.02
    assert three.p50_seconds == 0.01
    assert three.spread == pytest.approx(200 / 110)


def test_one_round_has_no_spread() -> None:
    assert cell(reading(100)).spread is None


def test_a_round_without_replies_leaves_no_percentile() -> None:
    broken = cell(reading(100), reading(0, None))
    assert broken.p99_seconds is None
    assert not broken.counts


@pytest.mark.parametrize(
    ("errors", "sockets", "counts"),
    [(0, 0, True), (1, 0, True), (2, 0, True), (3, 0, False), (0, 3, False), (1, 2, False)],
)
def test_more_than_one_error_in_a_thousand_and_it_does_not_count(errors: int, sockets: int, counts: bool) -> None:
    assert cell(reading(1000, errors=errors, sockets=sockets)).counts is counts


def test_errors_in_any_round_count() -> None:
    assert not cell(reading(1000), reading(1000), reading(1000, errors=30)).counts


def test_the_best_cell_is_the_fastest_inside_the_bound() -> None:
    cells = [
        cell(reading(100, 0.004), connections=1),
        cell(reading(900, 0.049), connections=64),
        cell(reading(800, 0.010), connections=32),
        cell(reading(950, 0.051), connections=128),
        cell(reading(2000, 0.001, errors=100), connections=256),
    ]
    fast, tight = best(cells, 0.05), best(cells, 0.01)
    assert fast is not None
    assert tight is not None
    assert (fast.connections, tight.connections) == (64, 32)
    assert best(cells, 0.003) is None
    assert best([], 0.05) is None


def test_p99_on_the_bound_is_inside() -> None:
    assert best([cell(reading(10, 0.05))], 0.05) is not None
