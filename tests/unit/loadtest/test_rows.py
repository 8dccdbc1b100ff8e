"""Rows of real digits, and bodies drawn from them."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

from loadtest.rows import VARIETY, digit_rows, drawn, instances


def bodies(rows_per_request: tuple[int, ...], seed: int = 1) -> tuple[bytes, ...]:
    return drawn(digit_rows(), rows_per_request, seed, instances)


def test_rows_are_scikit_learns_digits() -> None:
    assert np.array_equal([json.loads(row) for row in digit_rows()], load_digits().data)


def test_instances_are_predicts_body() -> None:
    assert json.loads(instances(["[1,2]", "[3,4]"])) == {"instances": [[1, 2], [3, 4]]}


def test_a_mix_has_each_size_as_often() -> None:
    requests = bodies((1, 8, 64))
    sizes = [request.count(b"],[") + 1 for request in requests]
    assert len(requests) == VARIETY
    assert [sizes.count(size) / VARIETY for size in (1, 8, 64)] == pytest.approx([1 / 3] * 3, abs=0.001)
    assert len(set(sizes[:20])) > 1  # mixed, not one size after the other


def test_the_seed_decides_rows_and_order() -> None:
    one, same, other = (bodies((1, 2), seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_many_large_requests_take_bounded_memory() -> None:
    requests = bodies((4096,))
    distinct = {id(request): len(request) for request in requests}
    assert sum(distinct.values()) < 32_000_000
    assert len(distinct) > 4
