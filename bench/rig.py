"""What every part of the bench works with: starts servers, loads them with wrk, looks at the machine in between."""

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench import wrk
from bench.environments import PeerEnvironmentError, prepare
from bench.forest import FILES
from bench.options import Options
from bench.programs import ROOT, Program, ProgramFailed, free_ports, run
from bench.progress import Progress
from bench.reading import Reading
from bench.servers import OURS, OURS_REQUEST, Server, Start, start_ours, start_peer
from bench.wrk import Request
from bench.yardstick import Calibration, Yardstick

# Estimates for the start, the warm-up and the stop of a server together, on a slow machine.
OURS_START_SECONDS: Final = 6.0
PEER_START_SECONDS: Final = 10.0
_WARM_UP_SECONDS: Final = 2
_QUICK_WARM_UP_SECONDS: Final = 1
WARM_UP_CONNECTIONS: Final = 32
CALIBRATION_SECONDS: Final = 0.1
_START_LIMIT_SECONDS: Final = 120.0
_GENERATOR_LIMIT_SECONDS: Final = 30.0  # beyond the time that it was asked to measure


class NotMeasured(Exception):
    """A server could not be measured; the message is for people and complete by itself."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server that answers."""

    program: Program
    url: str
    request: Request
    admin_url: str = ""  # of ours


@dataclass(slots=True)
class Rig:
    options: Options
    wrk: Path
    forest: Path
    yardstick: Yardstick
    progress: Progress
    generator_cpus: tuple[int, ...]
    server_cpus: tuple[int, ...]
    calibrations: list[tuple[str, Calibration]] = field(default_factory=list)

    @property
    def logs(self) -> Path:
        return self.options.out / "logs"

    @contextlib.contextmanager
    def serving(self, server: Server) -> Iterator[Served]:
        """One of the line-up, started and answering; ended afterwards whatever happens."""
        if server.family == OURS:
            workers = server.setting.partition(" ")[0]
            with self.ours(str(self.forest / FILES[server.runtime]), OURS_REQUEST, model_workers=workers) as served:
                yield served
            return
        port, *more = free_ports(3)
        try:
            start = start_peer(server, prepare(server.peer, self.logs, self.progress.say), self.forest, port, more)
        except PeerEnvironmentError as error:
            raise NotMeasured(str(error)) from error
        with self._running(server.key, start, port) as served:
            yield served

    @contextlib.contextmanager
    def ours(self, model: str, request: Request, module: str = "service", **settings: str) -> Iterator[Served]:
        """Our service with a model and any settings."""
        port, admin_port = free_ports(2)
        argv, environment = start_ours(sys.executable, model, port, admin_port, module, **settings)
        name = f"{module} {Path(model.partition('?')[0]).name} {settings.get('model_workers', '1')}"
        with self._running(name, Start(argv, environment, ROOT, request), port, f"http://127.0.0.1:{admin_port}") as it:
            yield it

    @contextlib.contextmanager
    def _running(self, name: str, start: Start, port: int, admin_url: str = "") -> Iterator[Served]:
        url = f"http://127.0.0.1:{port}{start.request.path}"
        log = self.logs / f"{name.replace(' ', '-')}.log"
        with Program(start.argv, start.environment, start.cwd, log, self.server_cpus) as program:
            try:
                program.until_it_answers(url, start.request, _START_LIMIT_SECONDS)
            except ProgramFailed as error:
                raise NotMeasured(str(error)) from error
            yield Served(program, url, start.request, admin_url)

    def load(self, served: Served, connections: int, seconds: float) -> Reading:
        """wrk against it for that long. Raises NotMeasured if the server ended or wrk gave no report."""
        script = self.logs / "request.lua"
        script.write_text(wrk.script(served.request))
        command = wrk.command(self.wrk, script, served.url, connections, seconds)
        try:
            text = run(
                command, os.environ, self.logs / "wrk.log", seconds + _GENERATOR_LIMIT_SECONDS, self.generator_cpus
            )
            reading = wrk.parse(text)
        except (ProgramFailed, wrk.WrkError) as error:
            raise NotMeasured(str(error)) from error
        if (code := served.program.ended()) is not None:
            raise NotMeasured(f"it ended with exit code {code} under load{served.program.tail()}")
        return reading

    def warm_up(self, served: Served) -> None:
        seconds = _QUICK_WARM_UP_SECONDS if self.options.quick else _WARM_UP_SECONDS
        self.load(served, WARM_UP_CONNECTIONS, seconds)

    def calibrate(self, before: str) -> Calibration:
        """How fast the machine is just now; kept under the name of what comes next."""
        calibration = self.yardstick.calibrate()
        self.calibrations.append((before, calibration))
        return calibration


def start_seconds(family: str, options: Options) -> float:
    """Estimate for the start, the warm-up and the stop of a server."""
    saved = _WARM_UP_SECONDS - _QUICK_WARM_UP_SECONDS if options.quick else 0
    return (OURS_START_SECONDS if family == OURS else PEER_START_SECONDS) - saved


def cpus(pin: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(of the generator, of the servers); both empty, which means all, unless pinned and there are two or more."""
    usable = sorted(os.sched_getaffinity(0))
    return ((usable[0],), tuple(usable[1:])) if pin and len(usable) > 1 else ((), ())
