"""The state directory: one supervisor at a time, a token that only we can read, one sentence when it cannot be used."""

import dataclasses
import os
import stat
from pathlib import Path

import pytest

from stack.errors import StackError
from stack.settings import StackSettings
from stack.state import AlreadyRunning, StateDirectory, read_note


@pytest.fixture
def settings(tmp_path: Path) -> StackSettings:
    return StackSettings(state_dir=tmp_path / "state")


def test_the_second_is_told_what_the_first_wrote(settings: StackSettings) -> None:
    with StateDirectory(settings) as first:
        first.write_note({"pid": 4711, "status": "running", "urls": {"inbox": "http://127.0.0.1:8060"}})
        with pytest.raises(AlreadyRunning, match=r"already running in .*state \(pid 4711; .*\)") as caught:
            StateDirectory(settings)
        assert caught.value.note["urls"] == {"inbox": "http://127.0.0.1:8060"}
        assert read_note(first.note_path)["pid"] == 4711, "the second must not touch the note of the first"


def test_the_second_may_come_before_the_first_has_written_anything(settings: StackSettings) -> None:
    with StateDirectory(settings), pytest.raises(AlreadyRunning, match="already being started"):
        StateDirectory(settings)


def test_a_note_left_behind_by_a_killed_one_is_not_believed(settings: StackSettings) -> None:
    settings.run_dir.mkdir(parents=True)
    (settings.run_dir / "stack.json").write_text(f'{{"pid": {os.getpid()}, "status": "running"}}')
    with StateDirectory(settings) as state:
        state.release()
        assert not state.note_path.exists()


def test_releasing_lets_the_next_one_in(settings: StackSettings) -> None:
    first = StateDirectory(settings)
    first.release()
    first.release()
    StateDirectory(settings).release()


def test_a_file_in_the_way_is_one_sentence_with_the_variable_that_moves_it(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "data").write_text("not a directory")
    with pytest.raises(StackError) as caught:
        StateDirectory(StackSettings(state_dir=tmp_path / "state"))
    sentence = str(caught.value)
    assert sentence.startswith(f"cannot write in {tmp_path / 'state' / 'data' / 'prometheus'} (Not a directory)")
    assert "TAILBOARD_STATE_DIR" in sentence
    assert "\n" not in sentence


def test_a_token_is_made_once_and_only_we_can_read_it(settings: StackSettings) -> None:
    with StateDirectory(settings) as state:
        token = state.admin_token()
        path = settings.state_dir / "admin-token"
        assert len(token) >= 32
        assert path.read_text() == token + "\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o644)
        assert state.admin_token() == token
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.write_text("")
        assert state.admin_token() not in ("", token)


def test_a_given_token_is_used_and_not_written_down(settings: StackSettings) -> None:
    with StateDirectory(dataclasses.replace(settings, admin_token="given")) as state:
        assert state.admin_token() == "given"
        assert not (settings.state_dir / "admin-token").exists()


def test_a_start_forgets_who_was_told_of_what_and_keeps_silences(settings: StackSettings) -> None:
    with StateDirectory(settings) as state:
        state.forget_notifications()  # the first time there is nothing yet
        data = settings.data_dir / "alertmanager"
        (data / "nflog").write_bytes(b"told")
        (data / "silences").write_bytes(b"muted")
        state.forget_notifications()
        assert [path.name for path in data.iterdir()] == ["silences"]
