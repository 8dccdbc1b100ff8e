"""Debian's builds find their files under /usr/share only; these launchers let them run from where they were unpacked.

Prometheus takes a flag. Alertmanager (and amtool) open their message templates by a path compiled into the program, and
end at once if it is not there. No flag moves it, so in our own copy that path is replaced by one of the same length
that leads through a file descriptor, which the launcher opens. wrk takes its library from beside it.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

_COMPILED_IN: Final = b"/usr/share/prometheus/alertmanager"
_DESCRIPTOR: Final = 9
# A Go string carries its length, so the length has to stay: slashes in a row count as one.
_THROUGH_DESCRIPTOR: Final = f"/proc/self/fd/{_DESCRIPTOR}".encode().ljust(len(_COMPILED_IN), b"/")

_LAUNCHER: Final = """\
#!/bin/sh
# {program} of Debian's package, unpacked in {debian}; it looks for its files under /usr unless helped.
unpacked=$(dirname "$(readlink -f "$0")")/{debian}
{commands}
"""


def launcher(program: Path, bin_dir: Path, unpacked: Path) -> str:
    """The text of a launcher in `bin_dir` for `program`, which lies in `unpacked`; prepares the program's copy."""
    inside = f'"$unpacked/{program.relative_to(unpacked)}"'
    if program.name == "prometheus" and _knows_flag(program, "--web.local-assets"):
        commands = f'exec {inside} --web.local-assets="$unpacked/usr/share/prometheus/web" "$@"'
    elif _lead_through_descriptor(program):
        commands = f'exec {_DESCRIPTOR}<"$unpacked{_COMPILED_IN.decode()}"\nexec {inside} "$@"'
    else:
        commands = f'{_libraries(unpacked)}exec {inside} "$@"'
    return _LAUNCHER.format(program=program.name, debian=os.path.relpath(unpacked, bin_dir), commands=commands)


def _libraries(unpacked: Path) -> str:
    """A command that lets the loader look into the unpacked library directories too, if there are any."""
    found = sorted({library.parent.relative_to(unpacked) for library in unpacked.glob("usr/lib/*/lib*.so*")})
    if not found:
        return ""
    path = ":".join(f"$unpacked/{directory}" for directory in found)
    return f'export LD_LIBRARY_PATH="{path}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"\n'


def _knows_flag(program: Path, flag: str) -> bool:
    done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=20, errors="replace")
    return flag in done.stdout + done.stderr


def _lead_through_descriptor(program: Path) -> bool:
    """Whether the path was in the program; it no longer is. A copy takes the place of the file in one step."""
    before = program.read_bytes()
    if _THROUGH_DESCRIPTOR in before:
        return True  # done before
    after = before.replace(_COMPILED_IN, _THROUGH_DESCRIPTOR)
    if after == before:
        return False
    new = program.with_name(f".{program.name}.new")
    new.write_bytes(after)
    new.chmod(0o755)
    new.replace(program)
    return True
