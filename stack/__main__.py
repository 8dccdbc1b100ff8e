"""`python -m stack`: starts everything, says where it is, watches it, stops it on Ctrl-C or SIGTERM.

Exit codes: 0 stopped as asked, or already running; 1 could not start, or a part ended by itself; 64 a setting or
argument that cannot be used.
"""

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

from stack import banner
from stack.errors import StackError
from stack.native import AlreadyRunning, NativeStack
from stack.settings import ROOT, SettingsError, StackSettings

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 64
_EXIT_CODES: Final = "Exit codes: 0 stopped as asked, or already running; 1 could not start, or a part ended; 64 usage."


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"error: {message}\n")


def main(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    only = _arguments(argv)
    try:
        settings = StackSettings.from_environment(environment)
    except SettingsError as error:
        return _failed(error, USAGE)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    color = sys.stdout.isatty() and not environment.get("NO_COLOR")
    stack = NativeStack(settings, say=_say, only=only)
    try:
        with stack:
            _say(f"\nTailboard is up ({stack.start_seconds:.1f} s). Ctrl-C stops all of it.\n")
            _say(banner.table(stack.urls, color))
            token_file = settings.state_dir / "admin-token" if settings.admin_token is None else None
            _say("\n" + banner.hints(stack.urls, _short(token_file), _short(settings.log_dir) or ROOT, color) + "\n")
            stack.wait()
    except AlreadyRunning as running:
        _say(f"{running}\nWhat the environment says now does not change it.\n")
        _say(banner.table(_urls(running.note), color))
        return OK
    except KeyboardInterrupt:
        _say("stopped: nothing of it runs any more")
        return OK
    except StackError as error:
        return _failed(error, FAILED)


def _arguments(argv: Sequence[str]) -> list[str] | None:
    parser = _Parser(prog="python -m stack", description="The whole stack without Docker.", epilog=_EXIT_CODES)
    parser.add_argument(
        "--only", metavar="PARTS", help="comma-separated parts instead of all, such as prometheus,inbox"
    )
    only: str | None = parser.parse_args(argv).only
    return None if only is None else [name.strip() for name in only.split(",") if name.strip()]


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Whichever signal it is, it unwinds like Ctrl-C; one more while stopping makes the stop impatient."""
    raise KeyboardInterrupt


def _failed(error: StackError, code: int) -> int:
    print(f"error: {error}", file=sys.stderr, flush=True)
    return code


def _say(line: str) -> None:
    with suppress(OSError):  # the reader of a pipe or the terminal is gone: no reason to end what runs
        print(line, flush=True)


def _short(path: Path | None) -> Path | None:
    """As one would type it in the repository's root, from where everything is run."""
    return path.relative_to(ROOT) if path is not None and path.is_relative_to(ROOT) else path


def _urls(note: Mapping[str, Any]) -> dict[str, str]:
    urls = note.get("urls")
    return {str(name): str(url) for name, url in urls.items()} if isinstance(urls, dict) else {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
