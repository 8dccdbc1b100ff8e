"""How a user waits for an arrival of the schedule: the same for the lean users and for those that people bring."""

from typing import Any

from gevent import get_hub
from gevent.hub import Waiter
from locust.user.task import LOCUST_STATE_RUNNING, LOCUST_STATE_WAITING

from loadtest.generator import LoadGenerator


class Idle:
    """One user's place among those that wait. What the scheduler is given in the user's stead."""

    def __init__(self, user: Any, load: LoadGenerator) -> None:
        self._user = user
        self._load = load
        self._waiter = Waiter()
        self._arrival: tuple[int, float] | None = None

    def take_arrival(self, number: int, scheduled: float) -> None:
        """The scheduler gives an arrival to this idle user."""
        self._arrival = number, scheduled
        # From here on a graceful stop waits for what is done for it, as Locust does for a running task.
        self._user._state = LOCUST_STATE_RUNNING
        get_hub().loop.run_callback(self._waiter.switch, None)

    def wait(self) -> tuple[int, float]:
        """The next arrival's number and scheduled instant. What stops the user, stops the wait; no arrival is lost."""
        self._user._state = LOCUST_STATE_WAITING
        self._load.join(self)
        try:
            self._waiter.get()
        except BaseException:  # stopped while idle, or between being given an arrival and waking up
            if not self._load.scheduler.leave(self) and self._arrival is not None:
                self._load.account.cut_short(self._arrival[0])
            raise
        self._waiter.clear()
        assert self._arrival is not None
        arrival, self._arrival = self._arrival, None
        return arrival
