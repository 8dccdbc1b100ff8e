"""Child programs of the bench: servers and generators, each in a session of its own, none of them left behind.

The bench is made the reaper of everything below it, so that a daemon that a server starts is found and ended too.
"""

import contextlib
import ctypes
import os
import random
import select
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from bench.wrk import Request

ROOT: Final = Path(__file__).resolve().parents[1]
_LAUNCH: Final = ROOT / "stack" / "launch.py"
_PR_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h
_STOP_SECONDS: Final = 5.0  # from SIGTERM to SIGKILL
_POLL_SECONDS: Final = 0.1
_TAIL_BYTES: Final = 4096
_TAIL_LINES: Final = 12

_running: set[int] = set()  # leaders that have not been stopped yet


class ProgramFailed(Exception):
    """A program did not do its part; the message ends with the last lines of its log."""


def adopt_orphans() -> None:
    """From now on whatever a child leaves behind becomes a child of ours; Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Program:
    """A running child; a context manager that ends it and all that it started."""

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path,
        log: Path,
        cpus: Sequence[int] = (),
        talks: bool = False,
    ) -> None:
        """What it prints goes to `log`; with `talks` only its errors do, and `ask` exchanges lines with it."""
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), ",".join(map(str, cpus)), *argv],
                cwd=cwd,
                env=dict(environment),
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks else output,
                stderr=output,
                start_new_session=True,
                text=True,
            )
        _running.add(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def ended(self) -> int | None:
        """The exit code, None while it runs."""
        return self._process.poll()

    def wait(self, limit_seconds: float) -> int:
        """Exit code; ProgramFailed if it runs longer than that."""
        try:
            return self._process.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            raise ProgramFailed(f"it did not end within {limit_seconds:g} s{self.tail()}") from None

    def ask(self, line: str | None, limit_seconds: float) -> str:
        """Sends a line, if any, and returns the next one that it prints; one line answers one line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            if line is not None:
                print(line, file=self._process.stdin, flush=True)
            if not select.select([self._process.stdout], [], [], limit_seconds)[0]:
                raise ProgramFailed(f"it did not answer within {limit_seconds:g} s{self.tail()}")
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise ProgramFailed(f"it ended with exit code {self._process.wait()}{self.tail()}")
        return answer

    def until_it_answers(self, url: str, request: Request, limit_seconds: float) -> None:
        """Returns at the first good reply; ProgramFailed if it ends or stays silent."""
        began = time.monotonic()
        answer = "nothing"
        while time.monotonic() - began < limit_seconds:
            if (code := self.ended()) is not None:
                raise ProgramFailed(f"it ended with exit code {code} before it answered{self.tail()}")
            answer = post(url, request)
            if answer == "200":
                return
            time.sleep(_POLL_SECONDS)
        raise ProgramFailed(f"it did not answer within {limit_seconds:g} s (last: {answer}){self.tail()}")

    def stop(self) -> None:
        """SIGTERM, a while, then SIGKILL for it and everything that it left."""
        try:
            if self.ended() is None:
                self._process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_STOP_SECONDS)
        finally:  # a second Ctrl-C skips the waiting, not the killing
            if self.ended() is None:
                self._kill_family()
            _running.discard(self.pid)
            _kill_strays()

    def _kill_family(self) -> None:
        """Children first noted, then the leader ended, so that none of them is lost between."""
        with contextlib.suppress(psutil.NoSuchProcess):
            _kill(psutil.Process(self.pid).children(recursive=True))
        self._process.kill()
        self._process.wait()

    def tail(self) -> str:
        """The end of its log, to be put behind a sentence."""
        with self.log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
        shown = "\n".join(f"    {line}" for line in lines) or "    (empty)"
        return f"\n  the end of {self.log}:\n{shown}"


def _kill_strays() -> None:
    """Ends every process below ours that belongs to no running program: what stopped ones left behind, daemons too."""
    strays = []
    for child in psutil.Process().children():
        if child.pid not in _running:
            with contextlib.suppress(psutil.NoSuchProcess):
                strays += [child, *child.children(recursive=True)]
    _kill(strays)


def _kill(processes: Sequence[psutil.Process]) -> None:
    """Kills and reaps them: some become our children only when their parents among them have been reaped."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    left = {process.pid for process in processes}
    give_up_at = time.monotonic() + _STOP_SECONDS
    while left and time.monotonic() < give_up_at:
        left = {pid for pid in left if not _reaped(pid)}
        if left:
            time.sleep(0.01)


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # gone, or not ours yet
        return not psutil.pid_exists(pid)


def post(url: str, request: Request, timeout_seconds: float = 5.0) -> str:
    """The status as text, or what happened instead. No proxy is ever asked."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(
            urllib.request.Request(url, data=request.body, headers=dict(request.headers), method="POST"),
            timeout=timeout_seconds,
        ) as reply:
            reply.read()
            return str(reply.status)
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read(200).decode(errors='replace')}"
    except OSError as error:
        return str(error)


def run(
    argv: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    limit_seconds: float,
    cpus: Sequence[int] = (),
    cwd: Path = ROOT,
) -> str:
    """Runs a program to its end; what it printed. ProgramFailed if it fails or takes too long."""
    with Program(argv, environment, cwd, log, cpus) as program:
        code = program.wait(limit_seconds)
        if code != 0:
            raise ProgramFailed(f"{Path(argv[0]).name} ended with exit code {code}{program.tail()}")
        return log.read_text(errors="replace")


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on, below the range of outgoing connections."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found
