"""One process's load: the scheduler greenlet, and what the users of this process share.

Lives in every process that runs users (a local Locust, or each worker). It is told what to do by the director, with
the same message whether that is in this process or at the master.
"""

import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import gevent
from gevent.hub import Waiter

from loadtest.account import Account
from loadtest.arrivals import Share, Trace
from loadtest.connection import Connection
from loadtest.cpu import CpuShare
from loadtest.prepared import prepare, same_requests
from loadtest.recorder import Recorder
from loadtest.rows import PATH, RowsError
from loadtest.sample_file import SampleFileError, SampleWriter
from loadtest.scheduler import ArrivalTaker, Scheduler
from loadtest.settings import LoadSettings
from loadtest.target import parse_target
from loadtest.trace_file import TraceError, read_trace
from loadtest.worker_report import Report

# What the director tells: settings, index, workers, begun, and seconds and samples or None
PLAN_MESSAGE: Final = "load_plan"
PROBLEM_MESSAGE: Final = "load_problem"  # why this process cannot take part: a sentence
REPORT_KEY: Final = "load"  # in the reports that workers send to the master anyway
METHOD: Final = "POST"
GOING: Final = ("spawning", "running")  # Locust's names of a run's states, and of those of a worker that takes part

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
        self.name = PATH
        """Under which requests are counted."""
        self.drops_as: tuple[str, str] | None = None
        """Type and name of dropped arrivals in Locust's tables, where users send other requests than the prepared."""
        self._environment = environment
        self._share: Share | None = None  # None until the director has said
        self._begun = 0.0  # how far the load had come when it did
        self._seconds = math.inf  # after how long it ends
        self._samples_path: Path | None = None
        self._samples: SampleWriter | None = None
        self._running = False
        self._following = False  # a plan of this run
        self._waiter = Waiter()  # what the scheduler greenlet waits for
        self._told: set[int] = set()
        self._before_run: dict[str, int] = self.account.counts()
        self._cpu = CpuShare(time.monotonic, time.process_time)
        self._prepared_for: LoadSettings | None = None
        self._prepared_target = ""
        self._trace: Trace | None = None
        self._traced: str | None = None  # the file that it was read from

    def start(self) -> gevent.Greenlet:
        """Listen to Locust and start the scheduler greenlet, which is given back."""
        events = self._environment.events
        events.test_start.add_listener(self._on_test_start)
        events.test_stopping.add_listener(self._on_test_stopping)
        events.test_stop.add_listener(self._on_test_stop)
        self._environment.runner.register_message(PLAN_MESSAGE, self._on_plan)
        # A worker that joins a run that goes on may have been told to spawn users before anybody could listen.
        if getattr(self._environment.runner, "worker_state", "") in GOING:
            self._on_test_start(self._environment)
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
        unchanged = self._following and self._share == share and settings.same_arrivals(self.settings)
        self.settings, self._share = settings, share
        self._begun = data["begun"]
        self._seconds = math.inf if data["seconds"] is None else data["seconds"]
        self._samples_path = None if data["samples"] is None else Path(data["samples"])
        # A new cap or another timeout must not begin a ramp again.
        if self._running and not unchanged:
            self._take_part()
        elif self._running:
            self._prepare()

    def _on_test_start(self, environment: Any, **_: Any) -> None:
        self._running = True
        self._told.clear()
        self._prepared_for = None  # files may have changed, and the target may answer now
        self.drops_as = None  # until the users of this run say
        self._before_run = self.account.counts()
        self.recorder.begin_run()
        self._cpu.begin()
        self._take_part()

    def _on_test_stopping(self, environment: Any, **_: Any) -> None:
        self._running = self._following = False
        self._share = None
        self.scheduler.stop()

    def _on_test_stop(self, environment: Any, **_: Any) -> None:
        if self._samples is not None:
            self.account.keep(None)
            self._samples.close()
            self._samples = None

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

    def _take_part(self) -> None:
        share = self._share
        if share is not None and self._prepare() and self._keep_samples(share):
            self._follow(share)

    def _follow(self, share: Share) -> None:
        self.scheduler.follow(self.settings.plan(share, self._begun, self._trace), self._seconds)
        self._following = True
        self._wake()

    def _prepare(self) -> bool:
        """Make the requests that the settings ask for, unless they are there; False if that cannot be done."""
        settings, target = self.settings, self._environment.host
        try:
            if self._prepared_for is None or not (
                target == self._prepared_target and same_requests(settings, self._prepared_for)
            ):
                prepared = prepare(settings, target)
                self.requests, self.name = prepared.requests, prepared.name
                self._prepared_for, self._prepared_target = settings, target
                log.info("%s", prepared.said)
            if settings.arrivals != "trace":
                self._trace = self._traced = None
            elif self._traced != settings.trace:
                self._trace, self._traced = read_trace(settings.trace), settings.trace
        except (RowsError, TraceError) as error:
            self._cannot(error)
            return False
        return True

    def _keep_samples(self, share: Share) -> bool:
        if self._samples_path is None or self._samples is not None:
            return True
        try:
            self._samples = SampleWriter(self._samples_path, share.index)
        except SampleFileError as error:
            self._cannot(error)
            return False
        self._samples.start(time.monotonic())  # the schedule, if there is one, will say it better
        self.account.keep(self._samples)
        return True

    def _cannot(self, why: object) -> None:
        """This process takes no part in the load: say so where people look."""
        self.scheduler.stop()
        self._following = False
        self._environment.runner.send_message(PROBLEM_MESSAGE, str(why))

    def _dropped(self, late_seconds: float) -> None:
        self.recorder.run.lateness.observe(late_seconds)
        request_type, name = self.drops_as or (METHOD, self.name)
        self._environment.events.request.fire(
            request_type=request_type,
            name=name,
            response_time=None,  # it has none; Locust counts it as a failure and leaves it out of its percentiles
            response_length=0,
            exception=NoFreeUser(),
            context={},
        )
