"""Locust users that send prepared requests over one kept connection: under the schedule, or one after the other."""

import time
from typing import Any

from locust import User, task
from locust.exception import StopUser
from locust.user.task import LOCUST_STATE_STOPPING

from loadtest.analysis.samples import End
from loadtest.connection import ExchangeFailed, RequestTimedOut
from loadtest.generator import METHOD, LoadGenerator
from loadtest.idle import Idle
from loadtest.outcomes import ENDS, outcome_of


class BadStatus(Exception):
    """A reply came, but not 2xx."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")


class LeanUser(User):
    """Sends the generator's prepared requests and records what became of each."""

    abstract = True
    load: LoadGenerator

    def on_start(self) -> None:
        """Called in the user's greenlet before its first task."""
        self.load = self.environment.load_generator
        self._connection = self.load.connection()

    def on_stop(self) -> None:
        """Called when the user ends."""
        self._connection.close()

    def send(self, number: int, scheduled: float) -> None:
        """Serve one arrival: the request, the account, the histograms, Locust's own statistics."""
        load = self.load
        failure: Exception | None = None
        status: int | None = None
        kind = ""
        sent = time.monotonic()
        load.recorder.dispatched(sent - scheduled)
        try:
            status = self._connection.exchange(
                load.requests[number % len(load.requests)], load.settings.timeout_seconds
            )
        except ExchangeFailed as error:
            outcome, failure, kind = "failed", error, error.text
            end = End.TIMED_OUT if isinstance(error, RequestTimedOut) else End.CONNECTION
        except BaseException:  # the user is stopped by force; whatever it is, the arrival has its end
            load.account.cut_short(number)
            raise
        else:
            outcome = outcome_of(status)
            end = ENDS[outcome]
            if outcome != "ok":
                failure = BadStatus(status)
                kind = str(failure)
                load.tell_once(status, self._connection.error_body)
        done = time.monotonic()
        load.account.finish(number, end, kind, sent, done)
        load.recorder.observe(load.name, outcome, done - scheduled, done - sent, replied=status is not None)
        self.environment.events.request.fire(
            request_type=METHOD,
            name=load.name,
            response_time=(done - scheduled) * 1000,
            response_length=self._connection.body_bytes,
            exception=failure,
            context={},
        )


class OpenLoopUser(LeanUser):
    """Serves arrivals of the schedule. The number of these users is the cap on requests in flight, not the load."""

    def on_start(self) -> None:
        """Called in the user's greenlet before its first task."""
        super().on_start()
        self._idle = Idle(self, self.load)

    @task
    def serve(self) -> None:
        """One arrival after the other, in one long task: Locust's own loop between tasks costs as much as a request."""
        while True:
            number, scheduled = self._idle.wait()
            self.send(number, scheduled)
            if self._state == LOCUST_STATE_STOPPING:
                raise StopUser


class ClosedLoopUser(LeanUser):
    """Sends one request after the other: ramp these users by hand to see what a closed loop shows and hides."""

    @task
    def ask(self) -> None:
        """One request; its latency counts from now, as in any closed loop."""
        now = time.monotonic()
        self.send(self.load.account.start(now), now)

    def wait_time(self) -> Any:
        """No pause."""
        return 0
