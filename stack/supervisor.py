"""Runs the parts of the stack: started together, watched, and stopped together, whatever ends first.

Each part is a session of its own, so a Ctrl-C in the terminal reaches only the supervisor, which stops the parts in
order. The kernel kills them if the supervisor is killed (see `launch`); it does so when the *thread* that started them
ends, so `start()` belongs to a thread that lives as long as the stack.
"""

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import urlsplit

from stack.component import Component
from stack.errors import StackError

_LAUNCH: Final = Path(__file__).with_name("launch.py")
_POLL_SECONDS: Final = 0.1
_PROBE_SECONDS: Final = 2.0  # one health request
_STILL_WAITING_SECONDS: Final = 5.0  # between lines that say what is not ready yet
_TAIL_LINES: Final = 25
_TAIL_BYTES: Final = 16_384


class PartFailed(StackError):
    """A part ended by itself or never became ready. The message ends with the last lines of its log."""

    def __init__(self, sentence: str, log: Path) -> None:
        tail = log_tail(log)
        shown = "\n".join(f"    {line}" for line in tail) if tail else "    (empty)"
        super().__init__(f"{sentence}\n  the end of {log}:\n{shown}")
        self.log = log


class _Part:
    """A running component."""

    def __init__(self, component: Component, log: Path, cwd: Path) -> None:
        self.component = component
        self.log = log
        self.started = time.monotonic()
        self._exit_code: int | None = None
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        cpus = ",".join(map(str, component.cpus))
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), cpus, *component.argv],
                cwd=cwd,
                env=dict(component.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs. Once it has ended, what is left of its process group is killed too."""
        if self._exit_code is None:
            # Looked at without reaping: while the leader is a zombie its group's number cannot be given to others.
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return None
            self._signal_group(signal.SIGKILL)
            self._exit_code = self._process.wait()
        return self._exit_code

    def terminate(self) -> None:
        """Asks the leader alone: its own children are its business."""
        if self._exit_code is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the whole group now."""
        if self._exit_code is None:
            self._signal_group(signal.SIGKILL)
            self._exit_code = self._process.wait()

    def _signal_group(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):  # PermissionError: only zombies are left (macOS)
            os.killpg(self.pid, number)


class Supervisor:
    """`start`, then `wait` or `check`, then `stop`; `stop` is right at any time and more than once."""

    def __init__(
        self,
        components: Sequence[Component],
        log_dir: Path,
        cwd: Path,
        say: Callable[[str], None] = print,
        start_seconds: float = 180.0,
    ) -> None:
        self._components = tuple(components)
        self._log_dir = log_dir
        self._cwd = cwd
        self._say = say
        self._start_seconds = start_seconds
        self._parts: list[_Part] = []

    @property
    def pids(self) -> dict[str, int]:
        """Name to process id of every part that was started."""
        return {part.component.name: part.pid for part in self._parts}

    def start(self) -> None:
        """Starts all parts at once and returns when all are ready; on any trouble stops all and raises."""
        try:
            for component in self._components:
                self._parts.append(_Part(component, self._log_dir / f"{component.name}.log", self._cwd))
            self._until_ready()
        except BaseException:
            self.stop()
            raise

    def check(self) -> None:
        """Raises PartFailed, with everything stopped, if a part has ended by itself."""
        for part in self._parts:
            code = part.exit_code()
            if code is not None:
                self.stop()
                raise PartFailed(
                    f"{part.component.name} ended by itself ({_meaning(code)}), so everything was stopped", part.log
                )

    def wait(self) -> NoReturn:
        """Raises as `check` does, or whatever a signal handler raises."""
        while True:
            self.check()
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Stops all parts in order, politely and then not. An interrupt meanwhile skips the politeness."""
        if not self._parts:
            return
        try:
            if any(part.exit_code() is None for part in self._parts):
                self._say("stopping ... (Ctrl-C again kills)")
            for stage in self._stages():
                self._stop_stage(stage)
        except KeyboardInterrupt:
            self._say("  killing what is left")
        finally:
            for part in self._parts:
                part.kill()
            self._parts.clear()

    def _stages(self) -> Iterator[list[_Part]]:
        ordered = sorted(self._parts, key=lambda part: part.component.stop_order)
        for _, stage in groupby(ordered, key=lambda part: part.component.stop_order):
            yield list(stage)

    def _stop_stage(self, stage: Sequence[_Part]) -> None:
        began = time.monotonic()
        running = [part for part in stage if part.exit_code() is None]
        for part in running:
            part.terminate()
        while running:
            for part in running:
                if time.monotonic() - began > part.component.stop_seconds:
                    self._say(f"  {part.component.name} did not end within {part.component.stop_seconds:g} s: killed")
                    part.kill()
            running = [part for part in running if part.exit_code() is None]
            if running:
                time.sleep(_POLL_SECONDS / 2)

    def _until_ready(self) -> None:
        given_up = threading.Event()
        pool = ThreadPoolExecutor(max_workers=len(self._parts) or 1, thread_name_prefix="ready")
        try:
            waiting = {part: pool.submit(_poll_ready, part.component.ready_url, given_up) for part in self._parts}
            self._watch_start(waiting)
        finally:
            given_up.set()
            pool.shutdown(wait=False)

    def _watch_start(self, waiting: dict[_Part, "Future[None]"]) -> None:
        began = time.monotonic()
        next_line = began + _STILL_WAITING_SECONDS
        while waiting:
            self.check()
            now = time.monotonic()
            for part in [part for part, future in waiting.items() if future.done()]:
                waiting.pop(part).result()
                self._say(f"  {part.component.name:<14} ready after {now - part.started:4.1f} s")
            if waiting and now - began > self._start_seconds:
                raise self._late(list(waiting))
            if waiting and now >= next_line:
                self._say(f"  waiting for {_and_their_last_words(list(waiting))} ({now - began:.0f} s)")
                next_line += _STILL_WAITING_SECONDS
            if waiting:
                time.sleep(_POLL_SECONDS)

    def _late(self, parts: Sequence[_Part]) -> PartFailed:
        """Asks the first of them once more, then stops everything."""
        first = parts[0]
        answer = probe(first.component.ready_url) or "200 just now"
        names = " and ".join(part.component.name for part in parts)
        self.stop()
        return PartFailed(
            f"{names} {'were' if len(parts) > 1 else 'was'} not ready within {self._start_seconds:g} s "
            f"({first.component.ready_url}: {answer}), so everything was stopped; TAILBOARD_START_SECONDS allows more",
            first.log,
        )


def probe(url: str) -> str | None:
    """None if `url` answers 200, else what happened instead. No proxy is ever asked."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_PROBE_SECONDS)
    try:
        connection.request("GET", parts.path or "/")
        response = connection.getresponse()
        response.read(65_536)
    except (OSError, http.client.HTTPException) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__
    finally:
        connection.close()
    return None if response.status == http.client.OK else f"status {response.status}"


def log_tail(log: Path, lines: int = _TAIL_LINES) -> list[str]:
    """The last lines of a log, at most 16 KiB of them."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except OSError as error:
        return [f"(cannot be read: {error.strerror})"]


def _and_their_last_words(parts: Sequence[_Part]) -> str:
    """Their names; of the last one also what its log says that it is doing."""
    names = ", ".join(part.component.name for part in parts)
    words = log_tail(parts[0].log, 1) if len(parts) == 1 else []
    return f"{names}: {words[0][:100]}" if words else names


def _poll_ready(url: str, given_up: threading.Event) -> None:
    while probe(url) is not None and not given_up.wait(_POLL_SECONDS):
        pass


def _meaning(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
