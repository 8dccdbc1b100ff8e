"""What outlives a start: directories, the admin token, and the note that says that the stack runs and where.

One supervisor per state directory: it holds a lock that the kernel lets go of however it ends, so a note that a killed
one left behind is never believed.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

from stack.errors import StackError
from stack.settings import StackSettings

_TOKEN_BYTES: Final = 24


class AlreadyRunning(StackError):
    """Another supervisor has this state directory; `note` is what it wrote about itself (maybe nothing yet)."""

    def __init__(self, state_dir: Path, note: Mapping[str, Any]) -> None:
        pid = note.get("pid")
        super().__init__(
            f"the stack is already {note.get('status', 'being started')} in {state_dir}"
            + (f" (pid {pid}; Ctrl-C there, or kill {pid}, stops it)" if pid else "")
        )
        self.note = note


class StateDirectory:
    """Held from the start of a stack to its end; use as a context manager or call `release`."""

    def __init__(self, settings: StackSettings) -> None:
        """Makes the directories and takes the lock. Raises StackError, AlreadyRunning if somebody has it."""
        self._settings = settings
        self.note_path = settings.run_dir / "stack.json"
        for directory in (settings.log_dir, settings.data_dir / "prometheus", settings.data_dir / "alertmanager"):
            _make_writable(directory)
        self._lock: IO[str] | None = (settings.run_dir / "stack.lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            self._lock = None
            raise AlreadyRunning(settings.state_dir, read_note(self.note_path)) from None

    def write_note(self, note: Mapping[str, Any]) -> None:
        """Replaces run/stack.json in one step."""
        new = self.note_path.with_suffix(".json.new")
        new.write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
        new.replace(self.note_path)

    def admin_token(self) -> str:
        """SERVICE_ADMIN_TOKEN, else the one kept in `admin-token`, made at the first start and readable to us alone."""
        if self._settings.admin_token is not None:
            return self._settings.admin_token
        path = self._settings.state_dir / "admin-token"
        try:
            kept = path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            kept = ""
        except (OSError, UnicodeDecodeError) as error:
            raise StackError(f"{path} cannot be read ({error}); remove it and a new token is made") from error
        if kept:
            path.chmod(0o600)
            return kept
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        new = path.with_name("admin-token.new")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token + "\n")
        new.replace(path)
        return token

    def forget_notifications(self) -> None:
        """Whom Alertmanager has told of what, before it starts. Silences stay.

        It tells nobody twice of the same alert until `repeat_interval` is over, across its own restarts too, and an
        alert of the stack before this one is the same to it: a breach soon after a start would reach nobody.
        """
        (self._settings.data_dir / "alertmanager" / "nflog").unlink(missing_ok=True)

    def release(self) -> None:
        """Removes the note and lets the next one in; idempotent."""
        if self._lock is not None:
            self.note_path.unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    def __enter__(self) -> "StateDirectory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def read_note(path: Path) -> dict[str, Any]:
    """run/stack.json; empty if there is none that can be read."""
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _make_writable(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise StackError(
            f"cannot write in {directory} ({error.strerror}); expected a directory of our own, "
            "TAILBOARD_STATE_DIR moves it"
        ) from error
