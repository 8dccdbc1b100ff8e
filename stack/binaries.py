"""Programs of others without Docker: from PATH, else from `.tailboard/bin`, else Debian's packages.

Prometheus and Alertmanager for the stack, wrk and hey for the bench.

Packages are fetched with `apt-get download` into directories of our own and unpacked with `dpkg -x`: no root, no change
to the system, no service installed. `python -m stack.binaries` prints what would be used.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stack.errors import StackError
from stack.relocate import launcher

ROOT: Final = Path(__file__).resolve().parents[1]
DEFAULT_BIN_DIR: Final = ROOT / ".tailboard" / "bin"

# tool -> the names it goes by, and Debian's package that brings it
NAMES: Final = {  # of the stack
    "prometheus": ("prometheus",),
    "promtool": ("promtool",),
    "alertmanager": ("alertmanager", "prometheus-alertmanager"),
    "amtool": ("amtool",),
}
WRK: Final = "wrk"
HEY: Final = "hey"
PACKAGES: Final = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "alertmanager": "prometheus-alertmanager",
    "amtool": "prometheus-alertmanager",
    WRK: "wrk",
    HEY: "hey",
}
# What a package needs beside it: Prometheus's page its scripts and fonts, wrk a library that few systems have.
_BESIDE: Final = ("libjs-", "fonts-", "libluajit")
_HOMES: Final = {WRK: "https://github.com/wg/wrk", HEY: "https://github.com/rakyll/hey"}
_ASKS: Final = {HEY: "-help"}  # instead of --version, which it does not know
_SAYS: Final = {WRK: "wrk ", HEY: "Usage: hey "}  # how the answer begins

_VERSION_SECONDS: Final = 20.0
_UPDATE_SECONDS: Final = 180.0
_DOWNLOAD_SECONDS: Final = 300.0
_SYSTEM_SOURCES: Final = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d"))

# Hooks of the system's configuration tidy the system's own caches; a private download must not run them.
_APT_CONFIG: Final = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
APT::Sandbox::User "root";
"""

Say = Callable[[str], None]


class BinariesError(StackError):
    """A binary is missing and could not be fetched; the message says what was tried and how to get it by hand."""


@dataclass(frozen=True)
class Binaries:
    """Where the four programs are. All paths are absolute and have answered `--version`."""

    prometheus: Path
    promtool: Path
    alertmanager: Path
    amtool: Path


def obtain(bin_dir: Path = DEFAULT_BIN_DIR, say: Say = print, search_path: str | None = None) -> Binaries:
    """All four programs of the stack, fetched first if need be. `search_path` stands in for $PATH.

    Raises BinariesError. Two processes may call this at once: one fetches, the other waits for it.
    """
    return Binaries(**_obtain(tuple(NAMES), bin_dir, say, search_path))


def obtain_wrk(bin_dir: Path = DEFAULT_BIN_DIR, say: Say = print, search_path: str | None = None) -> Path:
    """wrk, in the same manner."""
    return _obtain((WRK,), bin_dir, say, search_path)[WRK]


def obtain_hey(bin_dir: Path = DEFAULT_BIN_DIR, say: Say = print, search_path: str | None = None) -> Path:
    """hey, in the same manner."""
    return _obtain((HEY,), bin_dir, say, search_path)[HEY]


def _obtain(tools: Sequence[str], bin_dir: Path, say: Say, search_path: str | None) -> dict[str, Path]:
    bin_dir = bin_dir.absolute()
    found, notes = locate(bin_dir, search_path, tools)
    missing = [tool for tool in tools if tool not in found]
    if missing:
        with _only_one(bin_dir.parent, say):
            found, notes = locate(bin_dir, search_path, tools)  # the one before us may have fetched them
            missing = [tool for tool in tools if tool not in found]
            if missing:
                _fetch(missing, bin_dir, say, notes)
                found, notes = locate(bin_dir, search_path, tools)
    missing = [tool for tool in tools if tool not in found]
    if missing:
        raise _cannot(missing, bin_dir, [*notes, "the fetched packages did not bring it"])
    return found


def locate(
    bin_dir: Path, search_path: str | None = None, tools: Sequence[str] = tuple(NAMES)
) -> tuple[dict[str, Path], list[str]]:
    """(what is there already, why each candidate that was seen could not be used). PATH comes before `bin_dir`."""
    found: dict[str, Path] = {}
    notes: list[str] = []
    for tool in tools:
        for directory in (search_path, str(bin_dir)):
            candidates = [shutil.which(name, path=directory) for name in NAMES.get(tool, (tool,))]
            for candidate in (Path(c).absolute() for c in candidates if c is not None):
                trouble = _trouble(tool, candidate)
                if trouble is None:
                    found.setdefault(tool, candidate)
                else:
                    notes.append(trouble)
            if tool in found:
                break
    return found, notes


def version(program: Path, ask: str = "--version") -> str:
    """The first line of `--version`, or the reason why there is none."""
    try:
        done = subprocess.run(
            [program, ask], capture_output=True, text=True, timeout=_VERSION_SECONDS, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    text = (done.stdout or done.stderr).strip()  # older releases print it on standard error
    return text.splitlines()[0] if text else f"printed nothing (exit code {done.returncode})"


def _trouble(tool: str, candidate: Path) -> str | None:
    """Why `candidate` is not the program that it is called; other programs go by some of these names."""
    said = version(candidate, _ASKS.get(tool, "--version"))
    begins = _SAYS.get(tool, f"{tool}, version ")
    return None if said.startswith(begins) else f"{candidate} is not {tool} ({said[:200]})"


def _cannot(missing: Iterable[str], bin_dir: Path, tried: Sequence[str]) -> BinariesError:
    tools = list(missing)
    packages = " ".join(sorted({PACKAGES[tool] for tool in tools}))
    return BinariesError(
        f"cannot find or fetch {', '.join(tools)}: not on PATH, not in {bin_dir}; {'; '.join(tried)}. "
        f"Install it (Debian, as root: apt-get install {packages}) or download it from "
        f"{_HOMES.get(tools[0], 'https://prometheus.io/download/')} and put it on PATH or into {bin_dir}."
    )


# --- fetching -----------------------------------------------------------------------------------------------------


@contextmanager
def _only_one(home: Path, say: Say) -> Iterator[None]:
    """Holds the lock of `home`; the kernel lets go of it when the holder ends, however it ends."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = (home / ".fetch.lock").open("w")
    except OSError as error:
        raise BinariesError(
            f"cannot write in {home} to fetch programs ({error.strerror}); "
            "TAILBOARD_BIN_DIR moves where programs are kept"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that is fetching programs ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(missing: Sequence[str], bin_dir: Path, say: Say, notes: Sequence[str]) -> None:
    """Downloads and unpacks the packages of `missing`, then puts launchers of their programs into `bin_dir`."""
    absent = [program for program in ("apt-get", "dpkg-deb") if shutil.which(program) is None]
    if absent:
        raise _cannot(missing, bin_dir, [*notes, f"Debian's packages need {' and '.join(absent)}, not found here"])
    began = time.monotonic()
    packages = sorted({PACKAGES[tool] for tool in missing})
    size = "about 30 MB" if set(missing) <= set(NAMES) else "a few MB"
    say(f"{', '.join(missing)}: not on PATH, fetching Debian's packages ({size}, once) ...")
    for stale in bin_dir.parent.glob("fetch-*/"):  # of a fetch that was killed: nobody else is here under the lock
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=bin_dir.parent, prefix="fetch-") as work:
        apt = _Apt(Path(work), say)
        archives, tried = apt.download(packages)
        if archives is None:
            raise _cannot(missing, bin_dir, [*notes, *tried])
        archives |= apt.beside(archives)
        say("  unpacking ...")
        # Unpacked in place: nothing looks here until the launchers below exist, so a half-done unpacking is never used.
        unpacked = bin_dir.parent / "debian"
        for archive in sorted(archives):
            done = _run(["dpkg-deb", "-x", str(archive), str(unpacked)], Path(work), _DOWNLOAD_SECONDS)
            if done.returncode:
                raise _cannot(missing, bin_dir, [*notes, f"unpacking {archive.name}: {_last_error(done.stderr)}"])
    bin_dir.mkdir(parents=True, exist_ok=True)
    for tool in missing:
        for name in NAMES.get(tool, (tool,)):
            program = unpacked / "usr" / "bin" / name
            if program.exists():
                _install(bin_dir / tool, launcher(program, bin_dir, unpacked))
    say(f"  done in {time.monotonic() - began:.0f} s: {bin_dir}")


def _install(path: Path, script: str) -> None:
    """Makes or replaces `path` in one step, so that a reader sees the old or the new one."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(script, encoding="utf-8")
    new.chmod(0o755)
    new.replace(path)


class _Apt:
    """apt-get with its lists and caches in `work`, so that it needs neither root nor fresh lists."""

    def __init__(self, work: Path, say: Say) -> None:
        self._say = say
        self._debs = work / "debs"
        self._lists = work / "lists"
        self._config = work / "apt.conf"
        self._options: list[str] = []  # the ones that worked
        (work / "cache" / "archives" / "partial").mkdir(parents=True)
        self._debs.mkdir()
        self._config.write_text(_APT_CONFIG)
        self._cache = [
            "-o",
            f"Dir::Cache={work / 'cache'}",
            "-o",
            f"Dir::Cache::archives={work / 'cache' / 'archives'}",
        ]

    def download(self, packages: Sequence[str]) -> tuple[set[Path] | None, list[str]]:
        """(the archives or None, what was tried). The system's lists first: where they are fresh, that is all."""
        tried: list[str] = []
        for title, options, update in self._attempts():
            if update:
                shutil.rmtree(self._lists, ignore_errors=True)
                (self._lists / "partial").mkdir(parents=True)
                self._say(f"  reading package lists ({title}) ...")
                # Its exit code is no verdict: one broken source of many makes it fail. The download tells.
                self._apt(options, ["update"], _UPDATE_SECONDS)
            self._say(f"  downloading {' '.join(packages)} ({title}) ...")
            done = self._apt(options, ["download", *packages], _DOWNLOAD_SECONDS)
            if done.returncode == 0:
                self._options = options
                return set(self._debs.glob("*.deb")), tried
            tried.append(f"apt-get download with {title}: {_last_error(done.stderr)}")
        return None, tried

    def beside(self, archives: set[Path]) -> set[Path]:
        """What they need beside them, and that in turn: without it a page is bare, and wrk does not start."""
        wanted = set(self._asset_names(archives))
        have: set[str] = set()
        while wanted - have:
            names = sorted(wanted - have)
            self._say(f"  downloading {len(names)} packages that they need ...")
            done = self._apt(self._options, ["download", *names], _DOWNLOAD_SECONDS)
            if done.returncode:
                self._say(f"  going on without ({' '.join(names)}): {_last_error(done.stderr)}")
                break
            have |= set(names)
            wanted |= set(self._asset_names(self._debs.glob("*.deb")))
        return set(self._debs.glob("*.deb")) - archives

    def _asset_names(self, archives: Iterable[Path]) -> Iterator[str]:
        for archive in archives:
            done = _run(["dpkg-deb", "-f", str(archive), "Depends"], self._debs, _VERSION_SECONDS)
            for dependency in done.stdout.split(","):
                name = dependency.split("|")[0].split("(")[0].strip().partition(":")[0]
                if name.startswith(_BESIDE):
                    yield name

    def _attempts(self) -> Iterator[tuple[str, list[str], bool]]:
        """(title, apt options, whether lists must be fetched first)."""
        yield "the system's lists", [], False
        own = ["-o", f"Dir::State::Lists={self._lists}"]
        yield "fresh lists", own, True
        listed, directory = _SYSTEM_SOURCES
        files = [listed, *sorted([*directory.glob("*.list"), *directory.glob("*.sources")])]
        for file in (f for f in files if f.is_file()):  # a malformed file spoils all the others for apt
            alone = ["-o", f"Dir::Etc::SourceList={file}", "-o", "Dir::Etc::SourceParts=/dev/null"]
            yield f"fresh lists of {file} alone", [*own, *alone], True

    def _apt(
        self, options: Sequence[str], arguments: Sequence[str], limit_seconds: float
    ) -> subprocess.CompletedProcess[str]:
        return _run(
            ["apt-get", "-q", "-c", str(self._config), *self._cache, *options, *arguments], self._debs, limit_seconds
        )


def _run(argv: Sequence[str], cwd: Path, limit_seconds: float) -> subprocess.CompletedProcess[str]:
    """Runs to the end or to the limit, in a process group of its own so that nothing of it outlives an interrupt."""
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    with subprocess.Popen(
        argv,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=limit_seconds)
        except subprocess.TimeoutExpired:
            _kill_group(process)
            return subprocess.CompletedProcess(argv, -signal.SIGKILL, "", f"E: no end after {limit_seconds:.0f} s")
        except BaseException:
            _kill_group(process)
            raise
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


def _kill_group(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _last_error(stderr: str) -> str:
    """The line that says most: apt's own errors are marked with E:."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E:")] or lines or ["no reason given"]
    return errors[0]


def main() -> int:
    """Prints tool, path and version, one a line."""
    bin_dir = Path(os.environ.get("TAILBOARD_BIN_DIR") or DEFAULT_BIN_DIR)
    try:
        binaries = obtain(bin_dir, say=lambda line: print(line, file=sys.stderr, flush=True))
    except BinariesError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for tool in NAMES:
        path = getattr(binaries, tool)
        print(f"{tool:<13} {path}  ({version(path)})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
