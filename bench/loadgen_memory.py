"""The load generator's memory over millions of requests: `python -m bench.loadgen_memory --requests 10000000`.

All that a generator keeps of a request is real: schedule, scheduler, account, samples on disk, histograms, Locust's own
statistics. In the place of the connection there is one that answers at once, and in that of the scheduler's clock one
that is turned on by hand, so that requests follow each other without a pause.

Prints a line of JSON at each step: requests made, resident bytes (and those that are the process's own, not a file's),
seconds.
"""

import argparse
import json
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any, Final

from locust.env import Environment

from loadtest.arrivals import Share
from loadtest.generator import LoadGenerator
from loadtest.sample_file import SampleWriter
from loadtest.scheduler import Scheduler
from loadtest.settings import MAX_RATE, LoadSettings
from loadtest.user import OpenLoopUser
from slo.config import load

_STEPS: Final = 20  # readings, evenly spaced
_TURN_SECONDS: Final = 0.001


class InstantConnection:
    """Answers at once, well."""

    body_bytes = 19
    error_body = b""

    def exchange(self, request: bytes, timeout_seconds: float) -> int:
        return 200

    def close(self) -> None:
        pass


class Load:
    """A generator with one user, which serves each arrival where it is released and is free again."""

    def __init__(self, samples: Path | None) -> None:
        settings = LoadSettings().with_values({"rate": MAX_RATE, "arrivals": "poisson"})
        options: Any = Namespace(**settings.as_dict(), stop_timeout=0.0)
        environment: Any = Environment(user_classes=[OpenLoopUser], parsed_options=options, host="http://127.0.0.1:1")
        environment.create_local_runner()  # with it come Locust's statistics
        self.generator: Final = LoadGenerator(environment, load("slo.yaml").duration_edges)
        self.generator.settings, self.generator.requests = settings, (b"request",)
        self.generator.connection = InstantConnection  # type: ignore[method-assign,assignment]
        self.generator.recorder.begin_run()
        if samples is not None:
            self.generator.account.keep(SampleWriter(samples))
        environment.load_generator = self.generator
        self._user = OpenLoopUser(environment)
        self._user.on_start()
        self._now = time.monotonic()
        self._scheduler = Scheduler(self.generator.account, lambda: self._now, lambda late: None)
        self._scheduler.join(self)
        self._scheduler.follow(settings.plan(Share()))

    def take_arrival(self, number: int, scheduled: float) -> None:
        self._user.send(number, scheduled)
        self._scheduler.join(self)

    def turn(self) -> None:
        """All that a little while brings."""
        self._scheduler.run_once()
        self._now += _TURN_SECONDS


def memory_bytes() -> tuple[int, int]:
    """(resident, of which the process's own)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith(("VmRSS", "RssAnon"))}
    return found["VmRSS"], found["RssAnon"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.loadgen_memory", description="Memory over many requests.")
    parser.add_argument("--requests", type=int, default=10_000_000)
    parser.add_argument("--samples", action="store_true", help="a row per arrival on disk too, as `loadtest run` keeps")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        made = Load(Path(folder) / "memory.samples" if given.samples else None)
        account = made.generator.account
        step = max(1, given.requests // _STEPS)
        for number in range(1, _STEPS + 1):
            while account.completed < number * step:
                made.turn()
            resident, own = memory_bytes()
            assert account.completed == account.offered
            print(
                json.dumps(
                    {
                        "requests": account.completed,
                        "resident_bytes": resident,
                        "own_bytes": own,
                        "seconds": time.monotonic() - began,
                    }
                ),
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
