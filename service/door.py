"""Takes connections in bursts, so that after an overload nobody waits behind those who have given up.

The event loop's own listener takes one connection a turn. While the model computes one row a turn, that is a few
hundred a second: behind a full queue of new connections every client gives up before its turn comes, connects anew, and
the service works for the dead alone, for as long as the load lasts. Taken in bursts the queue is empty within a few
turns, and what came too late is shed by the batcher's rules.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final

BURST: Final = 64  # connections a turn: some 10 ms of work at most for those who are connected already
FULL_PAUSE_SECONDS: Final = 0.05  # without a free descriptor: until some may have closed

Connect = Callable[[], asyncio.Protocol]


class Door:
    """One listening socket, whose connections get protocols of `connect`. For the event loop's thread only."""

    def __init__(self, listener: socket.socket, connect: Connect, loop: asyncio.AbstractEventLoop) -> None:
        """Owns `listener` from now on."""
        self.listener: Final = listener
        self._connect, self._loop = connect, loop
        self._opening: set[asyncio.Task[object]] = set()
        self._pause: asyncio.TimerHandle | None = None
        listener.setblocking(False)

    def open(self) -> None:
        """From here on connections are taken."""
        self._pause = None
        self._loop.add_reader(self.listener.fileno(), self._take)

    async def close(self, most: int) -> None:
        """Takes who has come in, up to `most`, and then nobody; returns when they are connected. Idempotent."""
        if self.listener.fileno() < 0:
            return
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self.listener.fileno())
        with self.listener, contextlib.suppress(OSError):  # no descriptor left: serve who is here
            for _ in range(most):
                self._accept()
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _take(self) -> None:
        try:
            for _ in range(BURST):
                self._accept()
        except (BlockingIOError, InterruptedError):
            return
        except ConnectionError:  # that one hung up before its turn
            return
        except OSError:  # no descriptor or no memory left: the queue is readable all the time, so look away for a while
            self._loop.remove_reader(self.listener.fileno())
            self._pause = self._loop.call_later(FULL_PAUSE_SECONDS, self.open)

    def _accept(self) -> None:
        connection, _ = self.listener.accept()
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._loop.connect_accepted_socket(self._connect, connection))
        self._opening.add(task)
        task.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[object]) -> None:
        self._opening.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._loop.call_exception_handler({"message": "a connection could not be taken", "exception": error})
