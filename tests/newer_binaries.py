"""Prometheus and Alertmanager as new as Debian has them (sid), beside those of the machine's own release.

Fetched by the machine's apt from its own mirror into `.tailboard/newer/`, once: no root, no change to the system. The
packages are only unpacked, as `stack.binaries` does with the release's own.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from stack.binaries import NAMES, Binaries, BinariesError, version
from stack.relocate import launcher

HOME: Final = Path(__file__).resolve().parents[1] / ".tailboard" / "newer"
SUITE: Final = "sid"
PACKAGES: Final = ("prometheus", "promtool", "prometheus-alertmanager")  # amtool comes with the last one
FETCH_SECONDS: Final = 240.0

_CONFIG: Final = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::Etc::sourcelist "{work}/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferencesparts "-";
Dir::State::lists "{work}/lists";
Dir::State::status "{work}/status";
Dir::Cache "{work}/cache";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
"""


def obtain_newer(home: Path = HOME) -> Binaries:
    """The four programs, fetched first if need be; BinariesError says why they cannot be had.

    Two processes may call this at once: one fetches, the other waits for it.
    """
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((home / "bin" / tool).exists() for tool in NAMES):
            _fetch(home)
    programs = {tool: home / "bin" / tool for tool in NAMES}
    for tool, program in programs.items():
        if not (said := version(program)).startswith(f"{tool}, version "):
            raise BinariesError(f"{tool} of Debian {SUITE} in {home} {said}")
    return Binaries(**programs)


def _fetch(home: Path) -> None:
    absent = [program for program in ("apt-get", "dpkg-deb") if shutil.which(program) is None]
    if absent:
        raise BinariesError(
            f"the newest Prometheus comes from Debian's packages, with {' and '.join(absent)}: not here"
        )
    with tempfile.TemporaryDirectory(dir=home, prefix="fetch-") as directory:
        work = Path(directory)
        for name in ("lists/partial", "cache/archives/partial", "debs"):
            (work / name).mkdir(parents=True)
        (work / "status").touch()
        (work / "apt.conf").write_text(_CONFIG.format(work=work))
        (work / "sources.list").write_text(f"deb [signed-by={_keyring()}] {_mirror()} {SUITE} main\n")
        _run(work, "apt-get", "-q", "update")
        _run(work, "apt-get", "-q", "download", *PACKAGES)
        unpacked = home / "debian"
        shutil.rmtree(unpacked, ignore_errors=True)
        for archive in sorted((work / "debs").glob("*.deb")):
            _run(work, "dpkg-deb", "-x", archive, unpacked)
    (home / "bin").mkdir(exist_ok=True)
    for tool, names in NAMES.items():  # last of all: what is here has been unpacked whole
        program = next((path for name in names if (path := unpacked / "usr" / "bin" / name).exists()), None)
        if program is None:
            raise BinariesError(f"Debian {SUITE}'s packages {', '.join(PACKAGES)} bring no {tool}")
        script = home / "bin" / tool
        script.write_text(launcher(program, home / "bin", unpacked))
        script.chmod(0o755)


def _mirror() -> str:
    """The machine's own, so that this works wherever apt does."""
    targets = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"]
    done = subprocess.run(targets, capture_output=True, text=True, timeout=60, check=False)
    if not done.stdout.split():
        raise BinariesError("apt knows no Debian mirror (no lists: apt-get update makes them; or not Debian)")
    return done.stdout.split()[0]


def _keyring() -> Path:
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    if not keyring.exists():
        raise BinariesError(f"Debian's keys are not in {keyring} (Debian: apt-get install debian-archive-keyring)")
    return keyring


def _run(work: Path, *command: object) -> None:
    """In `work/debs`, where downloads are to lie. BinariesError with apt's first complaint."""
    apt = {"APT_CONFIG": str(work / "apt.conf"), "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            list(map(str, command)),
            cwd=work / "debs",
            env={**os.environ, **apt},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BinariesError(f"{command[0]} {command[-1]}: no end after {FETCH_SECONDS:.0f} s") from error
    if done.returncode:
        complaints = [line for line in (done.stderr + done.stdout).splitlines() if line.startswith("E:")]
        raise BinariesError(f"{command[0]} {command[-1]}: {(complaints or ['it failed and gave no reason'])[0]}")
