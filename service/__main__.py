"""`python -m service`: reads the settings, starts the model, serves, and owns SIGTERM and SIGINT.

Start: ports first, so that a busy one is said at once; then the model, which takes seconds; then one line with the
addresses. Stop: not ready, a grace in which everything is still served, no new connections, flush, exit 0. A second
signal skips the waiting.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, Final

import uvloop

from service import admin, caps, links
from service.assembly import Assembly, assemble
from service.examples import example_row
from service.models import ModelError, parse_model
from service.models.process import hang_limit_seconds, start_runners
from service.server import EmbeddedServer, PortError, bind, embedded, listen
from service.settings import Settings, SettingsError
from slo.config import SloError
from slo.config import load as load_slo

FAILED: Final = 1
LINGER_SECONDS: Final = 0.5  # after the grace: for connections that were opened and have not asked yet
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger("service")


class Stopped(Exception):
    """A signal came before the service was up."""


def main() -> int:
    """The program; its exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for number in SIGNALS:
        signal.signal(number, _stop_starting)
    try:
        run(Settings.from_environment(os.environ))
    except (SettingsError, PortError, ModelError, SloError) as error:
        print(f"service: {error}", file=sys.stderr)
        return FAILED
    except Stopped:
        print("service: stopped before it was ready", file=sys.stderr)
    return 0


def run(settings: Settings) -> None:
    """Serves until a signal; raises the one-sentence errors of a start that cannot be."""
    limits = caps.plan(settings, caps.read_machine())
    caps.apply(limits)
    slo_file = load_slo(settings.slo_file)
    spec = parse_model(settings.model)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(bind(settings.host, settings.port, "host", "port"))
        admin_listener = stack.enter_context(bind(settings.admin_host, settings.admin_port, "admin_host", "admin_port"))
        restarts = Restarts()
        info, runners = start_runners(
            spec,
            settings.model_cache_dir,
            settings.allow_pickle,
            settings.model_workers,
            restarts,
            hang_limit_seconds(settings.request_timeout_seconds),
        )
        for runner in runners:
            stack.callback(runner.close)
        service = assemble(
            settings,
            info,
            runners,
            slo_file,
            links.from_environment(os.environ),
            example_row(spec.kind, info.features),
        )
        restarts.count = service.ledger.on_worker_restart
        service.batcher.start()
        stack.callback(service.batcher.close)
        listen(admin_listener, settings.admin_host, settings.admin_port, "admin_host", "admin_port", limits.backlog)
        admin.serve(service.admin, admin_listener)
        listen(listener, settings.host, settings.port, "host", "port", limits.backlog)
        gc.collect()
        gc.freeze()  # what was made so far stays; collections need not walk it
        _run_loop(
            serve(settings, service, embedded(service.handler, service.health, service.pages, limits.backlog), listener)
        )


class Restarts:
    """Counts worker restarts; the runners start, and may fail, before there is a ledger to count in."""

    count: Callable[[], None] | None = None

    def __call__(self) -> None:
        if self.count is not None:
            self.count()


async def serve(settings: Settings, service: Assembly, server: EmbeddedServer, listener: socket.socket) -> None:
    """Serves on `listener` until the first signal, then drains."""
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()
    for number in SIGNALS:
        loop.add_signal_handler(number, _on_signal, stop, hurry)
    serving = asyncio.create_task(server.serve(sockets=[]))
    await server.take(listener)
    print(
        f"service: {service.handler.signature.name} ready on http://{settings.host}:{settings.port} "
        f"(admin http://{settings.admin_host}:{settings.admin_port})",
        flush=True,
    )
    await stop.wait()
    await drain(settings, service, server, hurry)
    server.should_exit = True
    await serving


async def drain(settings: Settings, service: Assembly, server: EmbeddedServer, hurry: asyncio.Event) -> None:
    """Answers all that was accepted: within the grace everything, then, bounded, what is on open connections."""
    service.health.draining = True
    await _unless(hurry, asyncio.sleep(settings.drain_grace_seconds))
    await server.stop_listening()
    await _unless(hurry, server.quiet(LINGER_SECONDS))
    flushed = asyncio.create_task(asyncio.to_thread(service.batcher.drain, settings.drain_timeout_seconds))
    await _unless(hurry, asyncio.shield(flushed))
    if service.handler.in_flight and not hurry.is_set():
        await _unless(hurry, server.quiet(LINGER_SECONDS))  # the last replies are on their way out
    if left := service.handler.in_flight:
        cut = "a second signal cut the drain short" if hurry.is_set() else "the drain took too long"
        print(f"service: {cut}; {left} accepted requests not answered by then are told 503", file=sys.stderr)
    service.batcher.close()
    await flushed


async def _unless(hurry: asyncio.Event, waiting: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> None:
    """Waits for `waiting`, or until a second signal."""
    first = asyncio.ensure_future(waiting)
    second = asyncio.create_task(hurry.wait())
    await asyncio.wait((first, second), return_when=asyncio.FIRST_COMPLETED)
    for task in (first, second):
        if not task.done():
            task.cancel()


def _on_signal(stop: asyncio.Event, hurry: asyncio.Event) -> None:
    (hurry if stop.is_set() else stop).set()


def _stop_starting(number: int, frame: FrameType | None) -> None:
    raise Stopped


def _run_loop(program: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(program)


if __name__ == "__main__":
    sys.exit(main())
