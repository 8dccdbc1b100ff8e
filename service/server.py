"""The embedded HTTP servers: binding a port with a clear error, serving, and a drain that loses nothing."""

import asyncio
import contextlib
import ctypes
import errno
import os
import socket
import struct
import sys
from collections.abc import Generator
from functools import partial
from typing import Final, cast

import uvicorn

from service.door import Door
from service.front import Front
from service.handler import Handler
from service.heads import Heads
from service.health import Health
from service.pages import ASGI
from service.settings import variable
from service.turn import Turn

# Longer than clients and balancers keep one idle: they close first, and no request meets a connection being closed.
KEEP_ALIVE_SECONDS: Final = 75
_TICK_SECONDS: Final = 0.01
HANDSHAKE_SECONDS: Final = 0.2  # for those whose connecting is under way when the door closes
_SO_ATTACH_FILTER: Final = 26


class PortError(Exception):
    """A port cannot be listened on; one sentence that names the port and the variable that moves it."""


def bind(host: str, port: int, host_field: str, port_field: str) -> socket.socket:
    """A bound socket that does not listen yet: until the model is up, connections are refused, not left hanging."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise PortError(f"{variable(host_field)} is {host!r}, which is no address: {error.strerror}") from None
    listener = socket.socket(family, kind, protocol)
    with _explained(listener, host, port, host_field, port_field):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    return listener


def listen(listener: socket.socket, host: str, port: int, host_field: str, port_field: str, backlog: int) -> None:
    """From here on connections are accepted; PortError if another process was quicker."""
    with _explained(listener, host, port, host_field, port_field):
        listener.listen(backlog)


@contextlib.contextmanager
def _explained(listener: socket.socket, host: str, port: int, host_field: str, port_field: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortError(
                f"port {port} on {host} is in use by another process; stop that, or set {variable(port_field)}"
            ) from None
        raise PortError(
            f"cannot listen on {host}:{port} ({os.strerror(error.errno or 0)}); "
            f"set {variable(host_field)} or {variable(port_field)}"
        ) from None


def refuse_new(listener: socket.socket) -> bool:
    """Lets the kernel drop who begins to connect, while those who have begun may finish; False where it cannot.

    A socket filter (classic BPF) of five instructions. It sees packets from the TCP header on, whose byte 13 are the
    flags; SYN without ACK is a first packet. Linux only.
    """
    load_byte, keep_bits, jump_if_equal, give = 0x30, 0x54, 0x15, 0x06
    syn, syn_or_ack, everything = 0x02, 0x12, 0xFFFFFFFF
    program = b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (load_byte, 0, 0, 13),
            (keep_bits, 0, 0, syn_or_ack),
            (jump_if_equal, 0, 1, syn),
            (give, 0, 0, 0),
            (give, 0, 0, everything),
        )
    )
    text = ctypes.create_string_buffer(program, len(program))
    if sys.platform != "linux":
        return False
    try:
        described = struct.pack("@HP", len(program) // 8, ctypes.addressof(text))
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)
    except OSError:
        return False
    return True


class EmbeddedServer(uvicorn.Server):
    """uvicorn without its own signals and listening: the composition root owns the signals, a `Door` listens."""

    _door: Door

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def take(self, listener: socket.socket) -> None:
        """Takes connections from `listener`, its own from now on; to be awaited while `serve(sockets=[])` runs."""
        while not self.started:
            await asyncio.sleep(_TICK_SECONDS)
        self._door = Door(listener, self._protocol, asyncio.get_running_loop())
        self._door.open()

    async def stop_listening(self) -> None:
        """Takes no new connections; those that the kernel has accepted, or is about to, are served, not reset.

        First the door is closed to those who have not knocked yet, so that between the last look at who has come in
        and the end of the listener nobody can come in; who knocks meanwhile is refused when it has ended.
        """
        if refuse_new(self._door.listener):
            await asyncio.sleep(HANDSHAKE_SECONDS)
        await self._door.close(self.config.backlog)

    async def quiet(self, seconds: float) -> None:
        """Returns once all connections have closed, or after `seconds`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.server_state.connections and loop.time() < until:
            await asyncio.sleep(_TICK_SECONDS)

    def _protocol(self) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol


def embedded(handler: Handler, health: Health, pages: ASGI, backlog: int) -> EmbeddedServer:
    """The server of the inference port: `handler` answers inference, `pages` all else."""
    return EmbeddedServer(
        uvicorn.Config(
            pages,
            loop="uvloop",
            http=cast(type[asyncio.Protocol], partial(Front, handler, health, Heads(), Turn(handler.wake))),
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            backlog=backlog,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
        )
    )
