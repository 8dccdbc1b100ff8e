"""A directory of dashboards follows its files."""

import os
from pathlib import Path

from stack.live.catalogue import Catalogue, Trouble


def write(path: Path, uid: str, title: str, stamp: int) -> None:
    path.write_text(f'{{"uid": "{uid}", "title": "{title}", "panels": []}}')
    os.utime(path, (stamp, stamp))


def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    assert catalogue.contents().dashboards == ()
    write(tmp_path / "a.json", "a", "one", 1)
    (first,) = catalogue.contents().dashboards
    assert catalogue.contents().dashboards[0] is first  # unchanged: not parsed again
    write(tmp_path / "a.json", "a", "two", 2)
    found = catalogue.contents().by_uid("a")
    assert found is not None
    assert found.title == "two"
    (tmp_path / "a.json").unlink()
    assert catalogue.contents().by_uid("a") is None


def test_a_broken_file_is_named_and_the_others_stay(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "same", "one", 1)
    write(tmp_path / "b.json", "same", "two", 1)
    (tmp_path / "c.json").write_text("{")
    (tmp_path / "d.json").write_bytes(b"\xff")
    contents = Catalogue(tmp_path).contents()
    assert [dashboard.title for dashboard in contents.dashboards] == ["one"]
    assert contents.troubles[0] == Trouble("b.json", "its uid 'same' is that of an earlier file")
    assert contents.troubles[1].message.startswith("not valid JSON")
    assert contents.troubles[2] == Trouble("d.json", "is not UTF-8")
