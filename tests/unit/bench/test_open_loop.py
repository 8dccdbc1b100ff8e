"""The open-loop client's arithmetic."""

import pytest

from bench.open_loop import content_length, quantile


@pytest.mark.parametrize(
    ("total", "share", "expected"),
    [
        (4, 0.5, 2.0),
        (4, 0.99, 4.0),
        (100, 0.04, 4.0),
        (100, 0.041, None),  # the rest of the hundred never came back
        (404, 0.99, None),
        (0, 0.99, None),
    ],
)
def test_what_is_missing_counts_as_infinitely_late(total: int, share: float, expected: float | None) -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], total, share) == expected


def test_one_percent_may_be_missing_and_no_more() -> None:
    values = [float(number) for number in range(1, 991)]
    assert quantile(values, 1000, 0.99) == 990
    assert quantile(values[:-1], 1000, 0.99) is None


@pytest.mark.parametrize(
    ("head", "length"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 42\r\nX: y", 42),
        (b"HTTP/1.1 200 OK\r\nx: y\r\ncontent-length:7", 7),
        (b"HTTP/1.1 204 No Content", 0),
    ],
)
def test_content_length(head: bytes, length: int) -> None:
    assert content_length(head) == length
