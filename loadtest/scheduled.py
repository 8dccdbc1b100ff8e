"""The schedule for users that people bring: any Locust user class becomes open-loop with `OnSchedule` before its base.

    class Shopper(OnSchedule, FastHttpUser):
        @task
        def ask(self) -> None:
            self.client.get("/")

One arrival of the schedule is one execution of a task, chosen by Locust as always: by weight, from nested task sets, in
sequence. `wait_time` has no say any more: the schedule decides when, and idle users wait for it.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from gevent import getcurrent
from locust import User
from locust.event import EventHook
from locust.exception import (
    InterruptTaskSet,
    RescheduleTask,
    RescheduleTaskImmediately,
    StopTest,
    StopUser,
)
from locust.user.task import (
    LOCUST_STATE_STOPPING,
    DefaultTaskSet,
    TaskSet,
)

from loadtest.generator import LoadGenerator
from loadtest.idle import Idle
from loadtest.recorder import Recorder
from loadtest.served import Served

# Locust's ways to end a task early, all of them the task's own wish.
_NO_FAILURE: Final = (InterruptTaskSet, RescheduleTask, RescheduleTaskImmediately, StopUser, StopTest)


class RequestEvent(EventHook):
    """Locust's request event in a process with such users: it knows which greenlet serves which arrival.

    In the place of `environment.events.request` it reaches every kind of client, and listeners need not know.
    """

    def __init__(self, plain: EventHook, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._handlers = plain._handlers  # one list: whoever listened before still does
        self._recorder = recorder
        self.serving: Final[dict[Any, Served]] = {}

    def fire(self, *, reverse: bool = False, **request: Any) -> None:
        """A request has ended; what is sent in `on_start` or in greenlets of one's own stays as it is."""
        served = self.serving.get(getcurrent())
        if served is not None:
            request = served.count(request, time.monotonic(), self._recorder)
        super().fire(reverse=reverse, **request)  # type: ignore[no-untyped-call]


class OnSchedule(User):
    """A user that waits for arrivals. Name it before the class it changes: `class Mine(OnSchedule, HttpUser)`.

    An arrival's latency runs from its scheduled instant to its task's last reply; it has failed if one of its
    requests failed or the task raised. The number of users is the cap on arrivals in flight. Give the schedule one such
    class and let its tasks have weights: idle users are taken last in, first out, whatever their class.
    """

    abstract = True
    load: LoadGenerator

    def __init__(self, environment: Any) -> None:
        load = getattr(environment, "load_generator", None)
        if load is None:
            raise StopTest(  # Locust logs it and ends the run
                f"{type(self).__name__} waits for a schedule and there is none; expected "
                "`locust -f loadtest/locustfile.py,YOUR_FILE.py ...`"
            )
        self.load = load
        load.drops_as = ("ARRIVAL", type(self).__name__)  # no task was chosen for it
        if not isinstance(environment.events.request, RequestEvent):
            environment.events.request = RequestEvent(environment.events.request, load.recorder)
        self._requests: Final = environment.events.request
        super().__init__(environment)  # from here on the client has the event above
        self._idle: Final = Idle(self, load)
        # Locust calls on_start just before the first task; a subclass's own may leave out super().
        theirs = self.on_start

        def on_start() -> None:
            _put_on_schedule(self, self._taskset_instance)
            theirs()

        vars(self)["on_start"] = on_start

    def serve(self, run_task: Callable[[], None]) -> None:
        """Wait for an arrival, run the task for it, and close the arrival's account."""
        if self._state == LOCUST_STATE_STOPPING:
            raise StopUser
        number, scheduled = self._idle.wait()
        served = Served(number, scheduled, time.monotonic(), time.time())
        self.load.recorder.dispatched(served.started - scheduled)
        self._requests.serving[getcurrent()] = served
        try:
            run_task()
        except _NO_FAILURE:
            self._close(served)
            raise
        except Exception as error:
            served.raised(error)
            self._close(served)
            raise  # Locust counts it among the exceptions and goes on
        except BaseException:  # the user is stopped by force; whatever it is, the arrival has its end
            self.load.account.cut_short(number)
            raise
        else:
            self._close(served)
        finally:
            del self._requests.serving[getcurrent()]

    def _close(self, served: Served) -> None:
        done = served.done if served.done is not None else time.monotonic()
        self.load.account.finish(served.number, served.end, served.kind, served.started, done)
        self.load.recorder.arrival(served.outcome, done - served.scheduled, done - served.started, served.replied)


def _put_on_schedule(user: OnSchedule, task_set: Any) -> None:
    """Make every task function of a task set wait for an arrival, and of the task sets nested in it."""
    run = task_set.execute_task
    # Locust's outermost task set, of the user's own tasks, is nobody's parent: the user is.
    parent = user if isinstance(task_set, DefaultTaskSet) else task_set

    def execute_task(task: Any) -> None:
        if isinstance(task, type) and issubclass(task, TaskSet):
            nested = task(parent)
            _put_on_schedule(user, nested)
            nested.run()  # type: ignore[no-untyped-call]
        else:
            user.serve(lambda: run(task))

    vars(task_set).update(execute_task=execute_task, wait_time=lambda: 0)
