"""Reads files of what is to be sent: rows (.npy, .csv, .jsonl) as JSON texts, and bodies as they are."""

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import orjson

from loadtest.rows import RowsError

FOLDER: Final = "loadtest/data"  # what may be named in the web form
MOST_ROWS: Final = 100_000
MOST_BYTES: Final = 256_000_000  # of a file; requests are drawn from far less
ROWS_ENDINGS: Final = (".npy", ".csv", ".jsonl")


def shipped_files() -> tuple[str, ...]:
    """Names of the files in `FOLDER`, which anybody may send."""
    folder = Path(FOLDER)
    return tuple(sorted(f"{FOLDER}/{path.name}" for path in folder.iterdir())) if folder.is_dir() else ()


def read_rows(path: str) -> tuple[str, ...]:
    """The file's rows, each as JSON, at most the first `MOST_ROWS`; RowsError if it has none or a bad one.

    .npy: the first axis counts rows, numbers or booleans. .csv: numbers, with or without a line of names.
    .jsonl: any JSON in each line, as the model takes an instance.
    """
    if path.endswith(".npy"):
        return _npy(path)
    if path.endswith(".csv"):
        return _csv(path)
    if path.endswith(".jsonl"):
        return _jsonl(path)
    raise RowsError(f"data {path} has no known ending; expected {', '.join(ROWS_ENDINGS)}")


def read_bodies(path: str) -> tuple[bytes, ...]:
    """The bodies to send in turn: each line of a .jsonl file that is not blank, else the whole file as one."""
    content = _bytes(path, "body_file")
    bodies = tuple(line for line in content.splitlines() if line.strip()) if path.endswith(".jsonl") else (content,)
    if not any(bodies):
        raise RowsError(f"body_file {path} is empty; expected a body")
    return bodies


def _bytes(path: str, setting: str) -> bytes:
    try:
        size = Path(path).stat().st_size
        if size > MOST_BYTES:
            raise RowsError(f"{setting} {path} has {size} bytes; expected at most {MOST_BYTES}")
        return Path(path).read_bytes()
    except OSError as error:
        raise RowsError(f"{setting} {path} cannot be read: {error.strerror}; expected a file") from error


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers."""
    try:
        text = _bytes(path, "data").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RowsError(f"data {path} is no text (byte {error.start}); expected UTF-8") from None
    return ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def _npy(path: str) -> tuple[str, ...]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise RowsError(f"data {path} cannot be read: {error.strerror or error}; expected a .npy file") from error
    except (ValueError, EOFError):
        raise RowsError(f"data {path} is no .npy file of numbers; expected one written by numpy.save") from None
    if not isinstance(array, np.ndarray) or array.ndim < 2 or array.size == 0 or array.dtype.kind not in "fiub":
        has = f"{array.dtype} of shape {list(array.shape)}" if isinstance(array, np.ndarray) else "several arrays"
        raise RowsError(f"data {path} has {has}; expected numbers with at least two axes, rows first")
    rows = np.ascontiguousarray(array[:MOST_ROWS])
    if rows.dtype.kind == "f":
        rows = rows if rows.dtype.itemsize in (4, 8) else rows.astype(np.float64)
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        if not finite.all():
            raise RowsError(f"data {path}: row {int(np.argmin(finite)) + 1} is not finite; expected numbers JSON has")
    rows = rows.astype(rows.dtype.newbyteorder("="), copy=False)
    return tuple(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY).decode() for row in rows)


def _csv(path: str) -> tuple[str, ...]:
    rows: list[str] = []
    width = 0
    for number, line in _lines(path):
        where = f"data {path}, line {number}"
        try:
            cells = [cell.strip() for cell in next(csv.reader([line], strict=True))]
        except csv.Error as error:
            raise RowsError(
                f"{where} is no line of a CSV: {error}; expected numbers with commas between them"
            ) from None
        numbers = [_number(cell) for cell in cells]
        if not width:
            width = len(cells)
            if all(text is None for text in numbers):
                continue  # names of columns
        if len(cells) != width:
            raise RowsError(f"{where} has {len(cells)} columns; expected {width}, as in the lines before")
        if None in numbers:
            column = numbers.index(None)
            raise RowsError(f"{where}, column {column + 1} is {cells[column][:40]!r}; expected a finite number")
        rows.append("[" + ",".join(text for text in numbers if text is not None) + "]")
        if len(rows) == MOST_ROWS:
            break
    if not rows:
        raise RowsError(f"data {path} has no rows; expected numbers with commas between them")
    return tuple(rows)


def _number(cell: str) -> str | None:
    """A CSV's number as JSON has it, None if it is none; "5." and "+1" are numbers in one and not in the other."""
    try:
        value = float(cell)
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    try:
        json.loads(cell)
    except ValueError:
        return repr(value)
    return cell


def _jsonl(path: str) -> tuple[str, ...]:
    rows: list[str] = []
    for number, line in _lines(path):
        try:
            rows.append(orjson.dumps(orjson.loads(line)).decode())  # without its blanks
        except orjson.JSONDecodeError as error:
            raise RowsError(
                f"data {path}, line {number} is no JSON: {error.msg}; expected one instance a line, such as [1, 2.5]"
            ) from None
        if len(rows) == MOST_ROWS:
            break
    if not rows:
        raise RowsError(f"data {path} has no rows; expected one instance a line, such as [1, 2.5]")
    return tuple(rows)
