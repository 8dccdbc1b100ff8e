"""Locust's master in this process and its generator processes, which send one load after the other.

Importing this file lets gevent take over the process, as Locust does.
"""

import logging
import time
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gevent
from locust.env import Environment
from locust.event import Events

from loadtest.director import Director
from loadtest.errors import CannotGoOn
from loadtest.generator import REPORT_KEY
from loadtest.run.own_user import own_user_class
from loadtest.run.workers import Workers
from loadtest.settings import LoadSettings
from loadtest.user import ClosedLoopUser, OpenLoopUser
from loadtest.worker_report import WorkerReports

# Its warnings are about many users at once, and ours only wait; what happens to workers is told in the run's own words.
logging.getLogger("locust.runners").setLevel(logging.ERROR)

JOIN_SECONDS: Final = 60.0  # for the workers to come up on a busy machine
POLL_SECONDS: Final = 0.05


class TrialError(CannotGoOn):
    """The load could not be made: one sentence."""


@dataclass(frozen=True, slots=True)
class CrewSpec:
    """What stays the same from load to load."""

    target: str
    closed: bool
    processes: int
    user: str  # FILE or FILE:CLASS with a user class of somebody's own, or nothing
    edges: tuple[float, ...]
    grace_seconds: float | None = None  # for requests under way when a load is stopped; None: their timeout


class Crew:
    """Sends loads, one at a time; `end` it whatever happened."""

    def __init__(self, spec: CrewSpec, folder: Path) -> None:
        """Starts the processes; their logs go into `folder`."""
        self.spec = spec
        self._interrupts = 0
        self._environment = Environment(
            user_classes=[self._user_class()],
            events=Events(),  # type: ignore[no-untyped-call]
            host=spec.target,
            parsed_options=_options(LoadSettings()),
        )
        self.runner: Final[Any] = self._environment.create_master_runner("127.0.0.1", 0)
        self.reports: Final = WorkerReports(spec.edges, (), time.monotonic)
        events: Any = self._environment.events
        events.worker_report.add_listener(self._hear)
        self.director: Final = Director(self._environment)
        self._watching = self.director.start()
        self.workers: Final = Workers(spec.processes, self.runner.server.port, folder, spec.user.partition(":")[0])

    def _hear(self, client_id: str, data: Mapping[str, Any]) -> None:
        if REPORT_KEY in data:  # the very first may come before the worker has a generator
            self.reports.receive(client_id, data[REPORT_KEY])

    def _user_class(self) -> Any:
        if self.spec.user:
            return own_user_class(self.spec.user)
        return ClosedLoopUser if self.spec.closed else OpenLoopUser

    @property
    def interrupts(self) -> int:
        """How often somebody wanted it to end."""
        return self._interrupts

    def interrupt(self) -> bool:
        """End the load early: the first time requests under way may end, the second time they are given up; whether."""
        self._interrupts += 1
        return self._interrupts > 1

    def wait(self) -> None:
        """Until all processes are ready for a load, at first or again after one; TrialError."""
        end = time.monotonic() + JOIN_SECONDS
        while sum(client.id in self.director.heard for client in self.runner.clients.ready) < self.spec.processes:
            if self.workers.ended:
                raise TrialError(f"a generator process is not there: {self.workers.last_words(self.workers.ended[0])}")
            if self._interrupts:
                raise TrialError("interrupted before the load began")
            if time.monotonic() > end:
                raise TrialError(f"the generator's processes were not ready within {JOIN_SECONDS:g} s")
            gevent.sleep(POLL_SECONDS)

    def begin(self, settings: LoadSettings, seconds: float | None, cap: int, folder: Path) -> None:
        """Start a load; a row per arrival goes into `folder`. `seconds` None: it does not end by itself. TrialError."""
        self.wait()
        self._environment.parsed_options = _options(settings)
        self.director.limit(seconds, folder, self.spec.grace_seconds)
        self.runner.start(cap, float(cap))

    def stop(self) -> None:
        """End the load when its last request has ended, or at once on a second interrupt."""
        stopping = gevent.spawn(self.runner.stop)
        while not stopping.ready() and self._interrupts < 2:
            gevent.sleep(POLL_SECONDS)
        stopping.kill(block=False)

    def end(self) -> None:
        """End all processes."""
        self._watching.kill()
        self.runner.greenlet.kill(block=False)
        self.workers.end(at_once=self._interrupts > 1)


def _options(settings: LoadSettings) -> Namespace:
    return Namespace(
        **settings.as_dict(), stop_timeout=0.0, headless=True, enable_rebalancing=False, tags=None, exclude_tags=None
    )
