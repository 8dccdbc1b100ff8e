"""Prepared requests: whole HTTP messages of real digits."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

from loadtest.rows import VARIETY, digit_rows, prepared_requests


def parse(request: bytes) -> tuple[list[str], list[list[float]]]:
    head, body = request.split(b"\r\n\r\n")
    return head.decode().split("\r\n"), json.loads(body)["instances"]


def test_rows_are_scikit_learns_digits() -> None:
    assert np.array_equal([json.loads(row) for row in digit_rows()], load_digits().data)


def test_a_request_is_a_whole_http_message() -> None:
    request = prepared_requests("127.0.0.1:8000", (1,), seed=1, timeout_seconds=1.5)[0]
    head, rows = parse(request)
    assert head[:4] == [
        "POST /predict HTTP/1.1",
        "Host: 127.0.0.1:8000",
        "Content-Type: application/json",
        "Accept: application/json",
    ]
    assert "X-Request-Timeout-Ms: 1500" in head
    assert len(rows) == 1
    assert len(rows[0]) == 64


def test_content_length_is_that_of_the_body() -> None:
    for request in prepared_requests("h", (1, 3), seed=1, timeout_seconds=1)[:50]:
        head, _ = parse(request)
        length = next(line for line in head if line.startswith("Content-Length: "))
        assert int(length.split()[1]) == len(request.partition(b"\r\n\r\n")[2])


def test_a_mix_has_each_size_as_often() -> None:
    requests = prepared_requests("h", (1, 8, 64), seed=1, timeout_seconds=1)
    sizes = [request.count(b"],[") + 1 for request in requests]
    assert len(requests) == VARIETY
    assert [sizes.count(size) / VARIETY for size in (1, 8, 64)] == pytest.approx([1 / 3] * 3, abs=0.001)
    assert len(set(sizes[:20])) > 1  # mixed, not one size after the other


def test_the_seed_decides_rows_and_order() -> None:
    one, same, other = (prepared_requests("h", (1, 2), seed, 1) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_many_large_requests_take_bounded_memory() -> None:
    requests = prepared_requests("h", (4096,), seed=1, timeout_seconds=1)
    distinct = {id(request): len(request) for request in requests}
    assert sum(distinct.values()) < 32_000_000
    assert len(distinct) > 4
