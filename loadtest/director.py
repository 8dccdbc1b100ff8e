"""Who does which part of the load: tells every worker the settings and its share, at the start and at each change.

Lives at the master, or in a local Locust, where the only worker is itself.
"""

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import gevent

from loadtest.arrivals import Share
from loadtest.generator import GOING, PLAN_MESSAGE, PROBLEM_MESSAGE, REPORT_KEY
from loadtest.sample_file import SUFFIX
from loadtest.settings import LoadSettings

WATCH_SECONDS: Final = 0.5
# New shares hold from so much later on, so that every worker has heard of them by then and no arrival has two or none.
NOTICE_SECONDS: Final = 0.25
_PRESENT: Final = ("ready", *GOING)  # Locust's names of the states of a worker that is there

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LostWorker:
    """A worker that has gone in mid-run."""

    id: str
    share: Share
    begun: float  # of the load's time, when it was dealt its last share
    until: float  # … and when that share went to the others


class Director:
    """Holds the settings in force and hands out shares."""

    def __init__(
        self,
        environment: Any,
        clock: Callable[[], float] = time.monotonic,
        on_lost: Callable[[str], None] = lambda worker: None,
    ) -> None:
        """`on_lost` is told the id of each worker that has gone in mid-run, before others get its share."""
        self._on_lost = on_lost
        self._environment = environment
        self._clock = clock
        self._shared: tuple[str, ...] = ()
        self._settings: LoadSettings | None = None  # in force
        self._began = 0.0  # when the curve's time began
        self._dealt_at = 0.0  # of the curve's time, when the shares in force were handed out
        self._seconds: float | None = None
        self._samples: Path | None = None
        self._grace_seconds: float | None = None
        self.problems: list[str] = []
        """What kept workers from taking part in the run that goes on, or in the last one: a sentence each."""
        self.lost: list[LostWorker] = []
        """Workers that have gone in the run that goes on, or in the last one."""
        self.heard: set[str] = set()
        """Workers whose generator has reported: before that a plan that is sent to them is lost without a word."""

    def start(self) -> gevent.Greenlet:
        """Listen to Locust, and watch workers come and go in a greenlet, which is given back."""
        self._environment.events.test_start.add_listener(self._on_test_start)
        self._environment.events.worker_report.add_listener(self._on_report)
        self._environment.runner.register_message(PROBLEM_MESSAGE, self._on_problem)
        return gevent.spawn(self._watch)

    @property
    def running(self) -> bool:
        """Whether a run is going on that an edit would change."""
        return self._environment.runner.state in GOING

    @property
    def settings(self) -> LoadSettings:
        """The settings as they stand in Locust's options, which its form and its command line both fill."""
        return LoadSettings().with_values(vars(self._environment.parsed_options))

    @property
    def dealt(self) -> dict[str, tuple[Share, float]]:
        """The share of each worker in the run, and from when of the load's time on it has that."""
        return {worker: (Share(index, len(self._shared)), self._dealt_at) for index, worker in enumerate(self._shared)}

    def limit(self, seconds: float | None, samples: Path | None, grace_seconds: float | None = None) -> None:
        """For the runs from now on: the load ends after so many seconds; a row per arrival goes into this folder.

        When a run is stopped, requests under way have `grace_seconds` to end; None: their timeout.
        """
        self._seconds, self._samples, self._grace_seconds = seconds, samples, grace_seconds

    def share_out(self, notice_seconds: float = 0.0) -> None:
        """Tell every worker the settings, its share, and how far the load will have come when these take over."""
        settings = self.settings
        now = self._clock()
        begun = 0.0 if self._settings is None else settings.begun_after(self._settings, now - self._began)
        self._settings, self._began = settings, now - begun
        begun += notice_seconds if begun else 0.0
        environment = self._environment
        # Requests under way may end in their own time, so that the account closes without loose ends.
        grace = settings.timeout_seconds + 1 if self._grace_seconds is None else self._grace_seconds
        environment.stop_timeout = max(float(environment.parsed_options.stop_timeout), grace)
        self._shared, self._dealt_at = self._workers(), begun
        for index, worker in enumerate(self._shared):
            plan = {
                "settings": settings.as_dict(),
                "index": index,
                "workers": len(self._shared),
                "begun": begun,
                "seconds": self._seconds,
                "samples": None if self._samples is None else str(sample_path(self._samples, worker)),
            }
            environment.runner.send_message(PLAN_MESSAGE, plan, client_id=worker)

    def _workers(self) -> tuple[str, ...]:
        clients = getattr(self._environment.runner, "clients", None)
        if clients is None:
            return ("local",)
        present = (client.id for client in clients.values() if client.state in _PRESENT)
        return tuple(sorted(worker for worker in present if worker in self.heard))

    def _on_report(self, client_id: str, data: Mapping[str, Any]) -> None:
        if REPORT_KEY in data:
            self.heard.add(client_id)

    def _on_test_start(self, environment: Any, **_: Any) -> None:
        self._settings = None
        self.problems, self.lost = [], []
        self.share_out()

    def _on_problem(self, environment: Any, msg: Any) -> None:
        self.problems.append(str(msg.data))
        log.error("a worker cannot take part: %s", msg.data)

    def check_workers(self) -> None:
        """Deal the shares anew if a worker has come or gone in mid-run."""
        if not self.running or (present := self._workers()) == self._shared:
            return
        before, dealt_at = self._shared, self._dealt_at
        self.share_out(NOTICE_SECONDS)
        for index, worker in enumerate(before):
            if worker not in present:
                self.lost.append(LostWorker(worker, Share(index, len(before)), dealt_at, self._dealt_at))
                self._on_lost(worker)

    def _watch(self) -> None:
        while True:
            gevent.sleep(WATCH_SECONDS)
            self.check_workers()


def sample_path(folder: Path, worker: str) -> Path:
    """Where the samples of the worker with that id are."""
    return folder / (re.sub(r"[^\w.-]", "_", worker) + SUFFIX)
