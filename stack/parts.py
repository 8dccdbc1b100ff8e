"""The stack's parts as data: for each, what runs it, when it is ready, what it listens on, how it is stopped.

The order below is the order in which people are told about them. Load is stopped before the service, so that the
service has nothing left to drain; what records comes last, so that the end of the others is recorded.
"""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stack import grafana, render
from stack.binaries import Binaries
from stack.component import Component
from stack.errors import StackError
from stack.ports import Claim
from stack.settings import LOOPBACK, ROOT, StackSettings, variable

# Stages of a stop and the longest each may take, 14.5 s together. The service may drain for 12 s by its defaults, but
# without load it needs only its grace of 2 s; who sets its times longer waits longer.
_LOAD, _SERVICE_AND_PAGES, _RECORDERS = range(3)
_LOAD_SECONDS: Final = 2.5
_SERVICE_SECONDS: Final = 9.0
_PAGE_SECONDS: Final = 2.0
_RECORDER_SECONDS: Final = 3.0
_DRAIN_VARIABLES: Final = ("SERVICE_DRAIN_GRACE_SECONDS", "SERVICE_DRAIN_TIMEOUT_SECONDS")


@dataclass(frozen=True, slots=True)
class Context:
    """What the parts are built from, once ports are known to be free and programs to be there."""

    settings: StackSettings
    binaries: Binaries | None  # None where no selected part needs them
    admin_token: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part before it is known how exactly it runs: enough to choose it and to check its ports."""

    name: str
    ports: Mapping[str, str]  # field of StackSettings -> what listens there
    build: Callable[[Context, "Part"], Component]
    needs_binaries: bool = False

    def claims(self, settings: StackSettings) -> tuple[Claim, ...]:
        return tuple(Claim(getattr(settings, name), variable(name), what) for name, what in self.ports.items())


def _python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, *arguments)


def _service(context: Context, part: Part) -> Component:
    settings = context.settings
    environment = settings.child_environment()
    environment["SERVICE_ADMIN_TOKEN"] = context.admin_token
    if not environment.get("SERVICE_MODEL_CACHE_DIR"):
        environment["SERVICE_MODEL_CACHE_DIR"] = str(settings.state_dir / "models")
    admin = settings.url(settings.service_admin_port)
    return Component(
        name=part.name,
        argv=_python("-m", "service"),
        environment=environment,
        ready_url=f"{admin}/readyz",
        claims=part.claims(settings),
        urls={"service": settings.url(settings.service_port), "service_admin": admin},
        cpus=settings.service_cpus,
        stop_order=_SERVICE_AND_PAGES,
        stop_seconds=_service_stop_seconds(environment),
    )


def _service_stop_seconds(environment: Mapping[str, str]) -> float:
    """Long enough for a drain that somebody asked for; what is no number the service itself refuses."""
    asked = 0.0
    for name in _DRAIN_VARIABLES:
        text = environment.get(name, "").strip()
        try:
            asked += float(text) if text else 0.0
        except ValueError:
            return _SERVICE_SECONDS
    return max(_SERVICE_SECONDS, asked + 1.0)


def _locust(context: Context, part: Part) -> Component:
    settings = context.settings
    page = settings.url(settings.locust_port)
    return Component(
        name=part.name,
        argv=_python(
            *("-m", "locust", "-f", "loadtest/locustfile.py", "--class-picker"),
            *("--host", settings.url(settings.service_port)),
            *("--web-host", LOOPBACK, "--web-port", str(settings.locust_port)),
        ),
        environment=settings.child_environment(),
        ready_url=f"{page}/",
        claims=part.claims(settings),
        urls={"locust": page, "locust_metrics": settings.url(settings.locust_metrics_port)},
        cpus=settings.generator_cpus,
        stop_order=_LOAD,
        stop_seconds=_LOAD_SECONDS,
    )


def _live(context: Context, part: Part) -> Component:
    settings = context.settings
    page = settings.url(settings.live_port)
    environment = settings.child_environment() | {
        "PROMETHEUS_URL": settings.url(settings.prometheus_port),
        "DASHBOARDS_DIR": str(ROOT / "grafana" / "dashboards"),
    }
    return Component(
        name=part.name,
        argv=_python("-m", "stack.live"),
        environment=environment,
        ready_url=f"{page}/healthz",
        claims=part.claims(settings),
        urls={"live": page},
        stop_order=_SERVICE_AND_PAGES,
        stop_seconds=_PAGE_SECONDS,
    )


def _inbox(context: Context, part: Part) -> Component:
    settings = context.settings
    page = settings.url(settings.inbox_port)
    return Component(
        name=part.name,
        argv=_python("-m", "stack.inbox"),
        environment=settings.child_environment(),
        ready_url=f"{page}/healthz",
        claims=part.claims(settings),
        urls={"inbox": page},
        stop_order=_RECORDERS,
        stop_seconds=_RECORDER_SECONDS,
    )


def _prometheus(context: Context, part: Part) -> Component:
    settings, binaries = context.settings, _binaries(context)
    page = settings.url(settings.prometheus_port)
    return Component(
        name=part.name,
        argv=(
            str(binaries.prometheus),
            f"--config.file={render.prometheus(settings)}",
            f"--web.listen-address={LOOPBACK}:{settings.prometheus_port}",
            f"--web.external-url={page}/",
            f"--storage.tsdb.path={settings.data_dir / 'prometheus'}",
            f"--storage.tsdb.retention.time={settings.retention}",
            # Alertmanager holds an alert four times as long after Prometheus has gone; the default is a minute.
            "--rules.alert.resend-delay=30s",
        ),
        environment=settings.child_environment(),
        ready_url=f"{page}/-/ready",
        claims=part.claims(settings),
        urls={"prometheus": page},
        stop_order=_RECORDERS,
        stop_seconds=_RECORDER_SECONDS,
    )


def _alertmanager(context: Context, part: Part) -> Component:
    settings, binaries = context.settings, _binaries(context)
    page = settings.url(settings.alertmanager_port)
    return Component(
        name=part.name,
        argv=(
            str(binaries.alertmanager),
            f"--config.file={render.alertmanager(settings)}",
            f"--web.listen-address={LOOPBACK}:{settings.alertmanager_port}",
            f"--web.external-url={page}/",
            f"--storage.path={settings.data_dir / 'alertmanager'}",
            "--cluster.listen-address=",  # a cluster of one listens for no others
        ),
        environment=settings.child_environment(),
        ready_url=f"{page}/-/ready",
        claims=part.claims(settings),
        urls={"alertmanager": page},
        stop_order=_RECORDERS,
        stop_seconds=_RECORDER_SECONDS,
    )


def _grafana(context: Context, part: Part) -> Component:
    settings = context.settings
    program = shutil.which("grafana")
    if program is None:
        raise StackError("the part grafana was asked for, but no program 'grafana' is on PATH")
    page = settings.url(settings.grafana_port)
    return Component(
        name=part.name,
        argv=grafana.command(Path(program)),
        environment=settings.child_environment() | grafana.environment(settings),
        ready_url=f"{page}/api/health",
        claims=part.claims(settings),
        urls={"grafana": page},
        stop_order=_SERVICE_AND_PAGES,
        stop_seconds=_PAGE_SECONDS,
    )


def _binaries(context: Context) -> Binaries:
    if context.binaries is None:
        raise ValueError("a part that needs binaries was built without them")
    return context.binaries


PARTS: Final = (
    Part("service", {"service_port": "service", "service_admin_port": "service admin"}, _service),
    Part("locust", {"locust_port": "Locust", "locust_metrics_port": "Locust metrics"}, _locust),
    Part("live", {"live_port": "live page"}, _live),
    Part("grafana", {"grafana_port": "Grafana"}, _grafana),
    Part("inbox", {"inbox_port": "alert inbox"}, _inbox),
    Part("prometheus", {"prometheus_port": "Prometheus"}, _prometheus, needs_binaries=True),
    Part("alertmanager", {"alertmanager_port": "Alertmanager"}, _alertmanager, needs_binaries=True),
)


def choose(names: Sequence[str] | None) -> list[Part]:
    """The named parts; None means all, Grafana only where it is installed. Raises StackError for an unknown name."""
    if names is None:
        return [part for part in PARTS if part.name != "grafana" or shutil.which("grafana")]
    known = {part.name for part in PARTS}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise StackError(f"{', '.join(unknown) or 'nothing'} is no part of the stack; expected some of {_listed()}")
    return [part for part in PARTS if part.name in names]


def _listed() -> str:
    return ", ".join(part.name for part in PARTS)
