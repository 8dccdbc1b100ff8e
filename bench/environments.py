"""Virtual environments for peers, apart from ours: made by uv from lock files with hashes, once for each lock.

One is used again as long as the lock that it was made from is still the same.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.programs import ROOT, ProgramFailed, run

HOME: Final = ROOT / ".tailboard" / "peers"
LOCKS: Final = ROOT / "bench" / "peers"
_MAKE_SECONDS: Final = 120.0
_INSTALL_SECONDS: Final = 1200.0  # some peers are half a gigabyte
_MADE: Final = ".made-from"
# pytriton's server is linked against the system's own Python library.
_SYSTEM_PYTHON: Final = {"triton": "/usr/bin/python3"}


class PeerEnvironmentError(Exception):
    """A peer's environment could not be made; one sentence and the end of the log."""


def prepare(name: str, log_dir: Path, say: Callable[[str], None]) -> Path:
    """The `bin` directory of the environment of `<name>.lock`, made first if need be. Raises PeerEnvironmentError."""
    directory = HOME / name
    lock = LOCKS / f"{name}.lock"
    want = f"{hashlib.sha256(lock.read_bytes()).hexdigest()} {sys.version_info.major}.{sys.version_info.minor}"
    made = directory / _MADE
    if made.is_file() and made.read_text() == want:
        return directory / "bin"
    python = _SYSTEM_PYTHON.get(name, sys.executable)
    if not Path(python).exists():
        raise PeerEnvironmentError(f"{name} needs {python}, which is not here")
    say(f"installing {name} into {directory.relative_to(ROOT)} (once) ...")
    shutil.rmtree(directory, ignore_errors=True)
    uv = Path(sys.executable).with_name("uv")
    log = log_dir / f"install-{name}.log"
    try:
        run([str(uv), "venv", "-q", "--python", python, str(directory)], os.environ, log, _MAKE_SECONDS)
        install = [str(uv), "pip", "install", "-q", "--python", str(directory / "bin" / "python"), "--require-hashes"]
        run([*install, "-r", str(lock)], os.environ, log, _INSTALL_SECONDS)
    except ProgramFailed as error:
        raise PeerEnvironmentError(f"{name}: {error}") from error
    made.write_text(want)
    return directory / "bin"
