"""One process's load: the scheduler greenlet, and what the users of this process share.

Lives in every process that runs users (a local Locust, or each worker). It is told what to do by the director, with
the same message whether that is in this process or at the master.
"""

import logging
import math
import time
from collections.abc import Mapping
from typing import Any, Final

import gevent
from gevent.hub import Waiter

from loadtest.account import Account
from loadtest.arrivals import Share
from loadtest.connection import Connection
from loadtest.cpu import CpuShare
from loadtest.recorder import Recorder
from loadtest.rows import PATH, prepared_requests
from loadtest.scheduler import ArrivalTaker, Scheduler
from loadtest.settings import LoadSettings, parse_rows
from loadtest.target import parse_target
from loadtest.worker_report import Report

PLAN_MESSAGE: Final = "load_plan"  # {"settings": …, "index": …, "workers": …}
REPORT_KEY: Final = "load"  # in the reports that workers send to the master anyway
METHOD: Final = "POST"

log = logging.getLogger(__name__)


class NoFreeUser(Exception):
    """An arrival was dropped: every user was waiting for a reply."""

    def __init__(self) -> None:
        super().__init__("dropped: the cap on requests in flight is reached")


class LoadGenerator:
    """Scheduler, account and recorder of this process, bound to Locust's environment."""

    def __init__(self, environment: Any, edges: tuple[float, ...]) -> None:
        self.account: Final = Account()
        self.recorder: Final = Recorder(edges, (PATH,))
        self.scheduler: Final = Scheduler(self.account, time.monotonic, self._dropped)
        self.settings = LoadSettings()
        self.requests: tuple[bytes, ...] = ()
        """Prepared requests; arrival k sends number k modulo their count."""
        self._environment = environment
        self._share: Share | None = None  # None until the director has said
        self._running = False
        self._waiter = Waiter()  # what the scheduler greenlet waits for
        self._told: set[int] = set()
        self._before_run: dict[str, int] = self.account.counts()
        self._cpu = CpuShare(time.monotonic, time.process_time)
        self._prepared_for: tuple[Any, ...] = ()

    def start(self) -> gevent.Greenlet:
        """Listen to Locust and start the scheduler greenlet, which is given back."""
        events = self._environment.events
        events.test_start.add_listener(self._on_test_start)
        events.test_stopping.add_listener(self._on_test_stopping)
        self._environment.runner.register_message(PLAN_MESSAGE, self._on_plan)
        return gevent.spawn(self._run)

    def report(self) -> Report:
        """Counts and state of this process."""
        return Report.of(
            self.account,
            self.recorder,
            self.scheduler.rate(),
            time.monotonic(),
            self._before_run,
            self._cpu.recent(),
        )

    def connection(self) -> Connection:
        """A new connection to the target."""
        return Connection(*parse_target(self._environment.host))

    def join(self, user: ArrivalTaker) -> None:
        """`user` is free for an arrival."""
        if self.scheduler.join(user):
            self._wake()

    def tell_once(self, status: int, body: bytes) -> None:
        """Log what the first reply with that status said: a person wants to know why all are refused."""
        if status not in self._told:
            self._told.add(status)
            log.warning("the first reply with status %d says: %s", status, body.decode("utf-8", "replace").strip())

    # --- what Locust calls ---

    def _on_plan(self, environment: Any, msg: Any) -> None:
        data: Mapping[str, Any] = msg.data
        settings = LoadSettings().with_values(data["settings"])
        share = Share(data["index"], data["workers"])
        unchanged = self._share == share and settings.same_arrivals(self.settings)
        self.settings, self._share = settings, share
        if self._running:
            self._prepare()
            if not unchanged:  # a new cap or another timeout must not begin a ramp again
                self._follow(share)

    def _on_test_start(self, environment: Any, **_: Any) -> None:
        self._running = True
        self._told.clear()
        self._before_run = self.account.counts()
        self.recorder.begin_run()
        self._cpu.begin()
        if self._share is not None:
            self._prepare()
            self._follow(self._share)

    def _on_test_stopping(self, environment: Any, **_: Any) -> None:
        self._running = False
        self._share = None
        self.scheduler.stop()

    # --- the greenlet ---

    def _run(self) -> None:
        # A bare timer: gevent's Event.wait makes a timeout object for each wait and raises it at the end of most.
        loop = gevent.get_hub().loop
        while True:
            self._waiter = Waiter()
            seconds = self.scheduler.run_once()
            if seconds <= 0:
                gevent.sleep(0)  # already late: let users send what they were given, then go on
            elif math.isinf(seconds):
                self._waiter.get()
            else:
                timer = loop.timer(seconds)
                timer.start(self._waiter.switch, None, update=True)
                try:
                    self._waiter.get()
                finally:
                    timer.close()

    def _wake(self) -> None:
        gevent.get_hub().loop.run_callback(self._waiter.switch, None)

    def _follow(self, share: Share) -> None:
        self.scheduler.follow(self.settings.plan(share))
        self._wake()

    def _prepare(self) -> None:
        host, port = parse_target(self._environment.host)
        settings = self.settings
        wanted = (host, port, settings.rows_per_request, settings.seed, settings.timeout_seconds)
        if wanted != self._prepared_for:
            sizes = parse_rows(settings.rows_per_request)
            self.requests = prepared_requests(f"{host}:{port}", sizes, settings.seed, settings.timeout_seconds)
            self._prepared_for = wanted

    def _dropped(self) -> None:
        self._environment.events.request.fire(
            request_type=METHOD,
            name=PATH,
            response_time=None,  # it has none; Locust counts it as a failure and leaves it out of its percentiles
            response_length=0,
            exception=NoFreeUser(),
            context={},
        )
