"""Rows to send, as JSON, and bodies drawn from them by a seed: scikit-learn's handwritten digits where nobody says."""

import gzip
import importlib.util
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

PATH: Final = "/predict"
VARIETY: Final = 4_096  # requests prepared; arrival k sends number k modulo this
_MOST_BYTES: Final = 16_000_000  # of distinct requests


class RowsError(Exception):
    """What is to be sent cannot be read or made: one sentence."""


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


def instances(rows: Sequence[str]) -> bytes:
    """The body that /predict takes, for rows of JSON."""
    return ('{"instances":[' + ",".join(rows) + "]}").encode()


def drawn(
    rows: Sequence[str],
    rows_per_request: Sequence[int],
    seed: int,
    write: Callable[[Sequence[str]], bytes],
    besides_bytes: int = 0,
) -> tuple[bytes, ...]:
    """`VARIETY` of what `write` makes of some rows: sizes and rows drawn by the seed.

    Fewer distinct ones, each used several times, where all would be larger than 16 MB; `besides_bytes` is what comes
    to each besides its rows.
    """
    draw = random.Random(f"{seed}/rows")
    bytes_each = besides_bytes + sum(rows_per_request) / len(rows_per_request) * len(rows[0])
    distinct = max(len(rows_per_request), min(VARIETY, int(_MOST_BYTES / bytes_each)))
    # Sizes in turn, so that few but large requests still have the mix asked for.
    made = [write(draw.choices(rows, k=rows_per_request[index % len(rows_per_request)])) for index in range(distinct)]
    sizes = len(rows_per_request)
    whole = [made[draw.randrange(distinct // sizes) * sizes + index % sizes] for index in range(VARIETY)]
    draw.shuffle(whole)
    return tuple(whole)
