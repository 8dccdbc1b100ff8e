"""Reads a file of arrival instants: a CSV with a column of times, or one number of seconds a line."""

import csv
import math
import os
import re
from array import array
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final, TextIO

from loadtest.arrivals import Trace

MOST_ARRIVALS: Final = 10_000_000
COLUMNS: Final = ("timestamp", "time", "seconds")  # in any case of letters
_EXPECTED: Final = f"a CSV with a column {', '.join(COLUMNS[:-1])} or {COLUMNS[-1]}, or one number of seconds a line"
_FEWEST_SECONDS, _MOST_SECONDS = -1e12, 1e12
# ISO 8601 as recordings have it. Python's own reader knows fractions of three or six digits; some write seven.
_DATE: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))? ?(Z|UTC|[+-]\d\d:?\d\d)?", re.ASCII | re.IGNORECASE
)


class TraceError(Exception):
    """The file cannot be replayed: one sentence that says what is wrong, in which line, and what was expected."""


def read_trace(path: str) -> Trace:
    """The arrivals in that file, put in order, in seconds from the first of them; TraceError if it holds none.

    What was read before and has not changed since is not read again.
    """
    try:
        state = os.stat(path)
        return _read(path, state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise TraceError(f"trace {path} cannot be read: {error.strerror}; expected {_EXPECTED}") from error


@lru_cache(maxsize=2)
def _read(path: str, changed_ns: int, size: int) -> Trace:
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            times = array("d", _times(file, path))
    except UnicodeDecodeError:
        raise TraceError(f"trace {path} is no text; expected {_EXPECTED}") from None
    if not times:
        raise TraceError(f"trace {path} has no arrivals; expected {_EXPECTED}")
    ordered = sorted(times)
    first = ordered[0]
    return Trace(instant - first for instant in ordered)


def _times(file: TextIO, path: str) -> Iterator[float]:
    """The instants line by line, in seconds from the first line's."""
    lines = ((number, line) for number, line in enumerate(file, 1) if line.strip() and not line.startswith("#"))
    column = None  # of a CSV
    read: Callable[[str], float] | None = None
    begun, count = False, 0
    for number, line in lines:
        where = f"trace {path}, line {number}"
        if not begun:
            begun = True
            cells = _cells(line, where)
            names = [cell.strip().lower() for cell in cells]
            column = next((index for index, name in enumerate(names) if name in COLUMNS), None)
            if column is not None:
                continue
            if len(cells) > 1:
                raise TraceError(f"{where}: the columns are {', '.join(cells)[:80]!r}; expected {_EXPECTED}")
        if column is None:
            text = line.strip()
        else:
            cells = _cells(line, where)
            text = cells[column].strip() if column < len(cells) else ""
        if read is None:
            read = _Dates() if _DATE.fullmatch(text) else _seconds
        try:
            instant = read(text)
        except ValueError:
            like = "seconds" if read is _seconds else "a date and time, as in the lines before"
            raise TraceError(f"{where}: {text[:40]!r} is no instant; expected {like}") from None
        count += 1
        if count > MOST_ARRIVALS:
            raise TraceError(f"{where}: there are more than {MOST_ARRIVALS} arrivals; expected fewer")
        yield instant


def _cells(line: str, where: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise TraceError(f"{where} is no line of a CSV: {error}; expected {_EXPECTED}") from None


def _seconds(text: str) -> float:
    number = float(text)
    if not _FEWEST_SECONDS <= number <= _MOST_SECONDS:  # NaN is none either
        raise ValueError(text)
    return number


class _Dates:
    """Date-times as seconds since the first of them. The difference is taken in whole nanoseconds: seconds since 1970
    as a float would be off by some hundred of them."""

    def __init__(self) -> None:
        self._first: int | None = None

    def __call__(self, text: str) -> float:
        match = _DATE.fullmatch(text)
        if match is None:
            raise ValueError(text)
        date, time, fraction, zone = match.groups()
        offset = "+00:00" if zone is None or zone.upper() in ("Z", "UTC") else zone
        seconds = math.floor(datetime.fromisoformat(f"{date}T{time}{offset}").astimezone(UTC).timestamp())
        nanoseconds = seconds * 10**9 + int((fraction or "0").ljust(9, "0"))
        if self._first is None:
            self._first = nanoseconds
        return (nanoseconds - self._first) / 1e9
