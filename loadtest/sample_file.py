"""Arrivals on disk, a row each, in the order of the schedule: written in place through a memory map, read the same way.

A row is there from the moment its arrival is due and says "in flight" until its outcome is known. The kernel keeps
what a process wrote even if the process is killed, so that nothing has to be flushed and a lost worker loses nothing
that it knew.

    bytes 0–7 magic, 8–15 number of rows, 16–23 when the load began, 24– rows of `analysis.samples.SAMPLE`

Instants are the machine's monotonic clock, the same for all its processes.
"""

import math
import mmap
import struct
from pathlib import Path
from typing import Final

import numpy as np

from loadtest.analysis.samples import SAMPLE, SAMPLE_FORMAT, End, Rows

SUFFIX: Final = ".samples"
_MAGIC: Final = b"arrivals"
_HEAD: Final = struct.Struct("<8sQd")
_COUNT: Final = struct.Struct("<Q")
_COUNT_AT: Final = 8
_BEGAN: Final = struct.Struct("<d")
_BEGAN_AT: Final = 16
_ROW: Final = struct.Struct(SAMPLE_FORMAT)
_OUTCOME: Final = struct.Struct("<ddB")  # of a row, from `sent` on
_SENT_AT: Final = SAMPLE.fields["sent"][1] if SAMPLE.fields is not None else 0
_GROWTH_ROWS: Final = 1 << 16
_NAN: Final = math.nan


class SampleFileError(Exception):
    """The file cannot be written or is not one of samples: one sentence."""


class SampleWriter:
    """One process's arrivals. Row k belongs to the k-th arrival that `begin` or `drop` told."""

    def __init__(self, path: Path, worker: int = 0) -> None:
        self.path: Final = path
        self.rows = 0
        self._worker = worker
        self._room = 0
        try:
            self._file = path.open("w+b", buffering=0)
            self._file.write(_HEAD.pack(_MAGIC, 0, _NAN))
            self._map = self._grow(None)
        except OSError as error:
            why = error.strerror or error
            raise SampleFileError(f"{path}: {why}; expected room for the samples of a run") from error

    def start(self, instant: float) -> None:
        """The load began then: the zero of its curve's time."""
        _BEGAN.pack_into(self._map, _BEGAN_AT, instant)

    def begin(self, scheduled: float) -> int:
        """An arrival is due; the row in which `end` finds it."""
        return self._append(scheduled, _NAN, _NAN, End.IN_FLIGHT)

    def drop(self, scheduled: float, now: float) -> None:
        """An arrival is due and found no user."""
        self._append(scheduled, _NAN, now, End.DROPPED)

    def end(self, row: int, sent: float, done: float, end: End) -> None:
        """The arrival of that row has its outcome."""
        _OUTCOME.pack_into(self._map, _HEAD.size + row * SAMPLE.itemsize + _SENT_AT, sent, done, end)

    def close(self) -> None:
        """Give back the room that was not used; idempotent."""
        if not self._file.closed:
            self._map.close()
            self._file.truncate(_HEAD.size + self.rows * SAMPLE.itemsize)
            self._file.close()

    def _append(self, scheduled: float, sent: float, done: float, end: End) -> int:
        row = self.rows
        if row == self._room:
            self._map = self._grow(self._map)
        _ROW.pack_into(self._map, _HEAD.size + row * SAMPLE.itemsize, scheduled, sent, done, end, self._worker)
        self.rows = row + 1
        _COUNT.pack_into(self._map, _COUNT_AT, self.rows)
        return row

    def _grow(self, old: mmap.mmap | None) -> mmap.mmap:
        """Room for more rows. What is full leaves this process's memory; the kernel has it."""
        self._room += _GROWTH_ROWS
        size = _HEAD.size + self._room * SAMPLE.itemsize
        self._file.truncate(size)
        if old is None:
            return mmap.mmap(self._file.fileno(), size)
        old.resize(size)
        old.madvise(mmap.MADV_DONTNEED)
        return old


def read_rows(path: Path) -> tuple[float, Rows]:
    """When the load began (NaN: not yet), and the rows written so far, mapped and not copied, also in mid-run.

    SampleFileError if the file is none of ours.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD.size)
        if len(head) < _HEAD.size or head[: len(_MAGIC)] != _MAGIC:
            raise SampleFileError(f"{path} holds no samples; expected a file that a run wrote")
        _, count, began = _HEAD.unpack(head)
        held = (path.stat().st_size - _HEAD.size) // SAMPLE.itemsize
        if count > held:
            raise SampleFileError(f"{path} is cut off: {held:,} of {count:,} rows are left")
        if not count:
            return began, np.zeros(0, dtype=SAMPLE)
        return began, np.memmap(path, dtype=SAMPLE, mode="r", offset=_HEAD.size, shape=(count,))
    except OSError as error:
        raise SampleFileError(f"{path}: {error.strerror or error}; expected a file that a run wrote") from error
