"""Requests as bytes."""

import pytest

from loadtest.messages import head, message


def test_a_message_is_head_length_and_body() -> None:
    assert message(head("/predict", "[::1]:8000", 1.5), b"{}") == (
        b"POST /predict HTTP/1.1\r\nHost: [::1]:8000\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
        b"X-Request-Timeout-Ms: 1500\r\nContent-Length: 2\r\n\r\n{}"
    )


def test_a_persons_header_takes_the_place_of_ours() -> None:
    lines = head("/", "h:1", 1, [("content-type", "text/csv"), ("A", "1"), ("A", "2"), ("HOST", "x")]).split(b"\r\n")
    assert lines == [
        b"POST / HTTP/1.1",
        b"Accept: application/json",
        b"X-Request-Timeout-Ms: 1000",
        b"content-type: text/csv",
        b"A: 1",
        b"A: 2",
        b"HOST: x",
        b"",
    ]


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0.0001, b"1"), (0.25, b"250"), (600, b"600000")])
def test_the_service_is_told_the_timeout(seconds: float, milliseconds: bytes) -> None:
    assert b"X-Request-Timeout-Ms: " + milliseconds + b"\r\n" in head("/", "h", seconds)
