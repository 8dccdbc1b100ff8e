"""Kept on disk before it is acknowledged, there again after a restart, bounded in memory and on disk."""

import json
import os
from pathlib import Path

import pytest

from stack.inbox import store as store_module
from stack.inbox.notice import Notice
from stack.inbox.store import RECENT, UNRESOLVED, NoticeStore


def notice(name: str, status: str = "firing", at: float = 1.0) -> Notice:
    starts = "2026-01-31T12:00:00Z"
    return Notice(at, status, {"alertname": name}, {"summary": "ü – ok"}, starts, "", "", fingerprint=name)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deeper" / "inbox.jsonl"


def opened(path: Path, now: float = 100.0, **options: int) -> NoticeStore:
    return NoticeStore(path, lambda: now, **options)


def names(notices: list[Notice]) -> list[str]:
    return [notice.fingerprint for notice in notices]


def test_a_notice_is_one_line_on_disk_once_it_is_added(path: Path) -> None:
    store = opened(path)
    store.add([notice("a"), notice("b")])
    assert [json.loads(line)["labels"]["alertname"] for line in path.read_text().splitlines()] == ["a", "b"]
    assert names(store.recent()) == ["b", "a"]


def test_everything_is_there_again_after_a_restart(path: Path) -> None:
    first = opened(path)
    first.add([notice("a"), notice("b")])
    first.add([notice("a", "resolved", 2.0)])
    second = opened(path)
    assert second.recent() == first.recent()
    assert names(second.unresolved()) == ["b"]
    assert second.unreadable_lines == 0


def test_an_alert_fires_until_it_is_resolved(path: Path) -> None:
    store = opened(path)
    store.add([notice("a", at=1.0), notice("b", at=2.0), notice("a", at=3.0)])
    assert names(store.unresolved()) == ["a", "b"]
    store.add([notice("a", "resolved", 4.0)])
    assert names(store.unresolved()) == ["b"]


def test_lines_that_cannot_be_read_are_counted_and_left_alone(path: Path) -> None:
    opened(path).add([notice("a")])
    with path.open("a") as file:
        file.write('[]\n{"received_at": "x"}\n{"received_at": 1}\n\n{"half a li')
    store = opened(path)
    assert names(store.recent()) == ["a"]
    assert store.unreadable_lines == 4


def test_after_half_a_line_the_next_begins_on_its_own(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"half a li')
    store = opened(path)
    store.add([notice("a")])
    store.add([notice("b")])
    assert names(opened(path).recent()) == ["b", "a"]


def test_what_could_not_be_written_was_not_kept_and_can_be_delivered_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(path)
    store.add([notice("a")])
    write = os.write
    budget = iter([10])  # the first write takes ten bytes, then the disk is full

    def full(descriptor: int, data: memoryview) -> int:
        for size in budget:
            return write(descriptor, data[:size])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_module.os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        store.add([notice("b")])
    monkeypatch.undo()
    assert names(store.recent()) == ["a"]
    store.add([notice("b")])
    again = opened(path)
    assert names(again.recent()) == ["b", "a"]
    assert again.unreadable_lines == 0


def test_the_file_is_bounded_by_rotation_and_what_was_rotated_is_still_read(path: Path) -> None:
    store = opened(path, rotate_bytes=1000)
    for number in range(40):
        store.add([notice(f"n{number}")])
    sizes = [file.stat().st_size for file in path.parent.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) <= 1000
    kept = names(opened(path).recent())
    assert kept == [f"n{number}" for number in range(39, 39 - len(kept), -1)]
    assert len(kept) > 4


def test_memory_is_bounded_and_an_old_alert_that_still_fires_is_not_forgotten(path: Path) -> None:
    store = opened(path)
    store.add([notice("old")])
    store.add([notice("noise", "resolved") for _ in range(RECENT + 5)])
    assert len(store.recent()) == RECENT
    assert names(store.unresolved()) == ["old"]
    store.add([notice(f"n{number}", at=2.0 + number) for number in range(UNRESOLVED + 5)])
    assert len(store.unresolved()) == UNRESOLVED
    assert names(store.unresolved())[0] == f"n{UNRESOLVED + 4}"


def test_opening_a_place_that_cannot_be_used_raises(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"exists|directory"):
        opened(tmp_path / "file" / "inbox.jsonl")


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module.os, "fsync", lambda descriptor: None)
