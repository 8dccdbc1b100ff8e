"""The generator processes of a run: started, watched, and ended with it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil

ROOT: Final = Path(__file__).resolve().parents[2]
_LOG_TAIL_BYTES: Final = 2_000
_END_SECONDS: Final = 5.0


class Workers:
    """`count` processes that join the Locust master on `port` of this machine."""

    def __init__(self, count: int, port: int, folder: Path, user_file: str = "") -> None:
        """Their logs go into `folder`. `user_file` is one with user classes of somebody's own."""
        self._folder = folder
        files = "loadtest/locustfile.py" + (f",{Path(user_file).resolve()}" if user_file else "")
        arguments = ["-f", files, "--worker", "--master-host", "127.0.0.1", "--master-port", str(port)]
        # Above the warnings there is only what Locust says about its own coming and going.
        arguments += ["--loglevel", "WARNING"]
        self._processes = [self._start(number, arguments) for number in range(count)]
        self._cpu_at_mark: dict[int, float] = {}
        self._marked_at = 0.0

    def _start(self, number: int, arguments: list[str]) -> subprocess.Popen[bytes]:
        with self._log(number).open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "loadtest.run.worker", str(os.getpid()), *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _log(self, number: int) -> Path:
        return self._folder / f"worker-{number}.log"

    @property
    def ended(self) -> list[int]:
        """Numbers of those that are no longer there."""
        return [number for number, each in enumerate(self._processes) if each.poll() is not None]

    @property
    def pids(self) -> list[int]:
        """Process ids, in the order of their numbers."""
        return [each.pid for each in self._processes]

    def last_words(self, number: int) -> str:
        """The end of that one's log, on one line."""
        text = self._log(number).read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"

    def mark(self, now: float) -> None:
        """From here on CPU time counts."""
        self._marked_at = now
        self._cpu_at_mark = self._cpu()

    def cpu_share(self, now: float) -> float:
        """Share of one core that the busiest has used since the mark."""
        span = now - self._marked_at
        used = [seconds - self._cpu_at_mark.get(pid, 0.0) for pid, seconds in self._cpu().items()]
        return max(used, default=0.0) / span if span > 0 else 0.0

    def _cpu(self) -> dict[int, float]:
        found = {}
        for pid in self.pids:
            try:
                times = psutil.Process(pid).cpu_times()
            except psutil.Error:
                continue  # it is no longer there
            found[pid] = times.user + times.system
        return found

    def end(self, at_once: bool = False) -> None:
        """End those that are still there, `at_once` with requests under way; they have written all that they know."""
        for each in self._processes:
            if each.poll() is None:
                each.kill() if at_once else each.terminate()
        for each in self._processes:
            try:
                each.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()
