"""What all connections do together in one turn of the event loop: wake the batcher once, and write replies in one go.

Both save the machine more than they cost the first of a batch. A batcher thread that is woken by the first of many
requests only contends for the interpreter lock, which it cannot have until the loop lets go. And a client on the same
machine that gets its replies one by one, each when it is made, falls asleep and has to be woken for every one of them.
"""

import asyncio
from collections.abc import Callable


class Turn:
    """Shared by all connections of one event loop, on whose thread it lives."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._wake_due = False
        self._replies: list[tuple[asyncio.Transport, bytes]] = []

    def accepted(self, loop: asyncio.AbstractEventLoop) -> None:
        """A request has been accepted; the batcher is to be told after the last of this turn."""
        if not self._wake_due:
            self._wake_due = True
            loop.call_soon(self._tell_batcher)

    def reply(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, data: bytes) -> None:
        """`data` is to be written when all replies of this turn have been made."""
        if not self._replies:
            loop.call_soon(self.flush)
        self._replies.append((transport, data))

    def flush(self) -> None:
        """Writes at once, for whoever is about to write by itself or to close."""
        replies, self._replies = self._replies, []
        for transport, data in replies:
            if not transport.is_closing():
                transport.write(data)

    def _tell_batcher(self) -> None:
        self._wake_due = False
        self._wake()
