"""Requests ready to send: real rows of scikit-learn's handwritten digits as whole HTTP/1.1 messages in bytes."""

import gzip
import importlib.util
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

PATH: Final = "/predict"
VARIETY: Final = 4_096  # requests prepared; arrival k sends number k modulo this
_MOST_BYTES: Final = 16_000_000  # of distinct requests


class RowsError(Exception):
    """The rows cannot be read: one sentence."""


@cache
def digit_rows() -> tuple[str, ...]:
    """Each of the 1,797 digits as JSON: 64 intensities from 0 to 16.

    Read from the file inside scikit-learn without importing it: that import takes seconds and starts threads, which
    have no place in a process patched by gevent.
    """
    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise RowsError("scikit-learn is not installed; expected it for the rows of its digits")
    path = Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    try:
        lines = gzip.decompress(path.read_bytes()).decode("ascii").splitlines()
    except OSError as error:
        raise RowsError(f"{path} cannot be read: {error.strerror or error}; expected scikit-learn's digits") from error
    # The last column is the digit itself.
    return tuple("[" + ",".join(f"{float(value):g}" for value in line.split(",")[:-1]) + "]" for line in lines)


def prepared_requests(
    host: str, rows_per_request: Sequence[int], seed: int, timeout_seconds: float
) -> tuple[bytes, ...]:
    """`VARIETY` requests for `host` ("name:port"): sizes and rows drawn by the seed."""
    rows = digit_rows()
    draw = random.Random(f"{seed}/rows")
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
        f"X-Request-Timeout-Ms: {max(1, round(timeout_seconds * 1000))}\r\n"
    )
    bytes_each = len(head) + sum(rows_per_request) / len(rows_per_request) * len(rows[0])
    distinct = max(len(rows_per_request), min(VARIETY, int(_MOST_BYTES / bytes_each)))
    made = []
    for index in range(distinct):
        # Sizes in turn, so that few but large requests still have the mix asked for.
        chosen = draw.choices(rows, k=rows_per_request[index % len(rows_per_request)])
        body = '{"instances":[' + ",".join(chosen) + "]}"
        made.append(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode("ascii"))
    sizes = len(rows_per_request)
    whole = [made[draw.randrange(distinct // sizes) * sizes + index % sizes] for index in range(VARIETY)]
    draw.shuffle(whole)
    return tuple(whole)
