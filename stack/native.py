"""The whole stack as one object: checks first, then programs, configuration and parts; the supervisor runs them."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from service.models import ModelError, check_file, parse_model
from service.settings import Settings as ServiceSettings
from service.settings import SettingsError as ServiceSettingsError
from slo.config import SloError, SloFile
from slo.config import load as load_slo
from stack import binaries, parts, ports
from stack.drift import drifted
from stack.errors import StackError
from stack.settings import ROOT, RULES, StackSettings
from stack.state import AlreadyRunning, StateDirectory
from stack.supervisor import PartFailed, Supervisor

__all__ = ["AlreadyRunning", "NativeStack", "PartFailed", "StackError"]


class NativeStack:
    """`start` returns when every part is ready. As a context manager it is started, and stopped whatever happens.

    The thread that calls `start` has to live as long as the stack: the kernel kills the parts when it ends.
    `only` names the parts to run (see `stack.parts`); None means all.
    """

    def __init__(
        self, settings: StackSettings, say: Callable[[str], None] = print, only: Sequence[str] | None = None
    ) -> None:
        self.settings = settings
        self.urls: dict[str, str] = {}  # service, service_admin, locust, locust_metrics, live, grafana, inbox, …
        self.admin_token = ""
        self.start_seconds = 0.0  # how long the last start took
        self._say = say
        self._only = only
        self._state: StateDirectory | None = None
        self._supervisor: Supervisor | None = None

    @property
    def pids(self) -> dict[str, int]:
        """Process id of every running part by name."""
        return self._supervisor.pids if self._supervisor else {}

    def start(self) -> None:
        """Raises StackError: one sentence, with nothing left running. AlreadyRunning if the state directory is held."""
        if self._supervisor is not None:
            raise StackError("this stack was started before; stop it first")
        began = time.monotonic()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        self.start_seconds = time.monotonic() - began

    def check(self) -> None:
        """Raises PartFailed, with everything stopped, if a part has ended by itself."""
        self._running().check()

    def wait(self) -> NoReturn:
        """Watches the parts; raises PartFailed, or what a signal handler raises (KeyboardInterrupt)."""
        self._running().wait()

    def stop(self) -> None:
        """Ends every part in order, within 15 s unless a longer drain was asked for. Right at any time, idempotent."""
        try:
            if self._supervisor is not None:
                self._supervisor.stop()
        finally:
            self._supervisor = None
            if self._state is not None:
                self._state.release()
                self._state = None

    def __enter__(self) -> "NativeStack":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        settings = self.settings
        chosen = parts.choose(self._only)
        if any(part.name == "service" for part in chosen):
            self._check_service_settings()
        self._state = StateDirectory(settings)
        note = {"pid": os.getpid(), "started_at": time.time(), "log_dir": str(settings.log_dir)}
        self._state.write_note({**note, "status": "being started"})
        self._state.forget_notifications()
        ports.check([claim for part in chosen for claim in part.claims(settings)])
        programs = None
        if any(part.needs_binaries for part in chosen):
            programs = binaries.obtain(settings.bin_dir, self._say)
        self.admin_token = self._state.admin_token()
        context = parts.Context(settings, programs, self.admin_token)
        components = [part.build(context, part) for part in chosen]
        self._say(f"starting {', '.join(component.name for component in components)}")
        self._supervisor = Supervisor(components, settings.log_dir, ROOT, self._say, settings.start_seconds)
        self._supervisor.start()
        self.urls = {name: url for component in components for name, url in component.urls.items()}
        self._state.write_note({**note, "status": "running", "urls": self.urls, "pids": self.pids})

    def _check_service_settings(self) -> None:
        """The service would refuse them too, but only after the others have started."""
        try:
            settings = ServiceSettings.from_environment(self.settings.child_environment())
            model = parse_model(settings.model)
            if model.path is not None:  # the parts run in ROOT, wherever we were started
                check_file(replace(model, path=str(ROOT / model.path)), settings.allow_pickle)
            self._compare_rules(load_slo(ROOT / settings.slo_file), settings.slo_file)
        except (ServiceSettingsError, ModelError, SloError) as error:
            raise StackError(str(error)) from error

    def _compare_rules(self, slo: SloFile, source: Path) -> None:
        """Rules of one's own are one's own; those of the repository are said to follow from slo.yaml."""
        if self.settings.rules_dir != RULES:
            return
        if names := drifted(slo, RULES):
            verb = "is" if len(names) == 1 else "are"
            self._say(
                f"warning: {' and '.join(names)} in {RULES.relative_to(ROOT)} {verb} not what {source} "
                "gives, so alerts and dashboards follow another objective than the service; "
                f"`python -m slo generate --slo {source}` writes them anew"
            )

    def _running(self) -> Supervisor:
        if self._supervisor is None:
            raise StackError("the stack is not running; start it first")
        return self._supervisor
