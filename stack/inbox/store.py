"""Where notices are kept: appended to a file of JSON lines before they are acknowledged, the latest also in memory.

Both are bounded: the file by rotation (one older file beside it), memory by counts.
"""

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from stack.inbox.notice import BadNotice, Notice, parse_alert

RECENT: Final = 1000  # notices in memory
UNRESOLVED: Final = 500  # alerts that may fire at once; beyond that the oldest is forgotten
ROTATE_BYTES: Final = 5 * 1024 * 1024


class NoticeStore:
    """Thread-safe. What an earlier process left in the file is there again after a restart."""

    def __init__(self, path: Path, now: Callable[[], float], rotate_bytes: int = ROTATE_BYTES) -> None:
        """Reads what is there. Raises OSError if the file cannot be read or appended to."""
        self._path = path
        self._rotate_bytes = rotate_bytes
        self._lock = threading.Lock()
        self._recent: deque[Notice] = deque(maxlen=RECENT)
        self._unresolved: dict[str, Notice] = {}  # by fingerprint, longest known first
        self.unreadable_lines = 0  # left alone in the file
        path.parent.mkdir(parents=True, exist_ok=True)
        for notice in self._read():
            self._remember(notice)
        self.started_at = now()
        with path.open("ab") as file:
            torn = file.tell() > 0 and not _ends_with_newline(path)
        self._torn = torn  # a write was cut short: the next one begins with a new line

    def add(self, notices: Sequence[Notice]) -> None:
        """On disk when this returns. Raises OSError if it could not be written; then nothing was kept."""
        lines = "".join(json.dumps(notice.as_json(), ensure_ascii=False) + "\n" for notice in notices)
        with self._lock:
            self._append(lines.encode())
            for notice in notices:
                self._remember(notice)

    def recent(self) -> list[Notice]:
        """The latest notices, newest first."""
        with self._lock:
            return list(reversed(self._recent))

    def unresolved(self) -> list[Notice]:
        """Of every alert that was last said to fire, the last notice; newest first."""
        with self._lock:
            return sorted(self._unresolved.values(), key=lambda notice: notice.received_at, reverse=True)

    def _append(self, data: bytes) -> None:
        if self._path.exists() and self._path.stat().st_size + len(data) > self._rotate_bytes:
            os.replace(self._path, self._older())
            self._torn = False
        with self._path.open("ab", buffering=0) as file:
            before = file.tell()
            try:
                _write_all(file.fileno(), b"\n" + data if self._torn else data)
                os.fsync(file.fileno())
            except OSError:
                self._torn = not self._undo(file.fileno(), before)
                raise
        self._torn = False

    def _undo(self, descriptor: int, size: int) -> bool:
        """Takes back half a write, so that a repeated delivery is not kept twice. Whether that worked."""
        try:
            os.ftruncate(descriptor, size)
        except OSError:
            return False
        return True

    def _remember(self, notice: Notice) -> None:
        self._recent.append(notice)
        known = self._unresolved.pop(notice.fingerprint, None)
        if notice.status == "firing":
            self._unresolved[notice.fingerprint] = notice
            if known is None and len(self._unresolved) > UNRESOLVED:
                del self._unresolved[next(iter(self._unresolved))]

    def _read(self) -> Iterator[Notice]:
        for path in (self._older(), self._path):
            if not path.exists():
                continue
            with path.open("rb") as file:
                for line in file:
                    if line.strip():
                        try:
                            yield _from_line(line)
                        except ValueError:  # BadNotice is one too
                            self.unreadable_lines += 1

    def _older(self) -> Path:
        return self._path.with_name(self._path.name + ".1")


def _from_line(line: bytes) -> Notice:
    record = json.loads(line)
    received_at = record.get("received_at") if isinstance(record, dict) else None
    if not isinstance(received_at, int | float):
        raise BadNotice("has no received_at")
    return parse_alert(record, float(received_at))


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
