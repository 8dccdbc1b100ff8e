"""Who does which part of the load: tells every worker the settings and its share, at the start and at each change.

Lives at the master, or in a local Locust, where the only worker is itself.
"""

from typing import Any, Final

import gevent

from loadtest.generator import PLAN_MESSAGE
from loadtest.settings import LoadSettings

WATCH_SECONDS: Final = 0.5
_GOING: Final = ("spawning", "running")  # Locust's names of a run's states
_PRESENT: Final = ("ready", "spawning", "running")  # and of those of a worker that takes part


class Director:
    """Holds the settings in force and hands out shares."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._shared: tuple[str, ...] = ()

    def start(self) -> gevent.Greenlet:
        """Listen to Locust, and watch workers come and go in a greenlet, which is given back."""
        self._environment.events.test_start.add_listener(self._on_test_start)
        return gevent.spawn(self._watch)

    @property
    def running(self) -> bool:
        """Whether a run is going on that an edit would change."""
        return self._environment.runner.state in _GOING

    @property
    def settings(self) -> LoadSettings:
        """The settings as they stand in Locust's options, which its form and its command line both fill."""
        return LoadSettings().with_values(vars(self._environment.parsed_options))

    def share_out(self) -> None:
        """Tell every worker the settings and its share."""
        settings = self.settings
        environment = self._environment
        # Requests under way may end in their own time, so that the account closes without loose ends.
        environment.stop_timeout = max(float(environment.parsed_options.stop_timeout), settings.timeout_seconds + 1)
        self._shared = self._workers()
        for index, worker in enumerate(self._shared):
            plan = {"settings": settings.as_dict(), "index": index, "workers": len(self._shared)}
            environment.runner.send_message(PLAN_MESSAGE, plan, client_id=worker)

    def _workers(self) -> tuple[str, ...]:
        clients = getattr(self._environment.runner, "clients", None)
        if clients is None:
            return ("local",)
        return tuple(sorted(client.id for client in clients.values() if client.state in _PRESENT))

    def _on_test_start(self, environment: Any, **_: Any) -> None:
        self.share_out()

    def _watch(self) -> None:
        while True:
            gevent.sleep(WATCH_SECONDS)
            if self.running and self._workers() != self._shared:
                self.share_out()
