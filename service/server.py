"""The embedded HTTP servers: binding a port with a clear error, serving, and a drain that loses nothing."""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Generator
from typing import Final

import uvicorn

from service.front import ASGI
from service.settings import variable

# Longer than clients and balancers keep one idle: they close first, and no request meets a connection being closed.
KEEP_ALIVE_SECONDS: Final = 75
_TICK_SECONDS: Final = 0.01


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


class EmbeddedServer(uvicorn.Server):
    """uvicorn without its own signal handling: the composition root owns the signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def started_serving(self) -> None:
        """Returns once connections are accepted."""
        while not self.started:
            await asyncio.sleep(_TICK_SECONDS)

    async def stop_listening(self, listener: socket.socket) -> None:
        """Takes no new connections; those that the kernel has accepted already are served, not reset.

        `listener` is a duplicate of the listening socket: while it is open, closing the server's own resets nobody.
        """
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        accepted = []
        with listener, contextlib.suppress(BlockingIOError):
            while True:
                accepted.append(listener.accept()[0])
        for connection in accepted:
            connection.setblocking(False)
            await loop.connect_accepted_socket(self._protocol, connection)

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


def embedded(app: ASGI, backlog: int) -> EmbeddedServer:
    """The server of the inference port."""
    return EmbeddedServer(
        uvicorn.Config(
            app,
            loop="uvloop",
            http="httptools",
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
