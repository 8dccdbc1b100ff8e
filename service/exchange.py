"""An inference request on its connection: what is known of it between its headers and its reply."""

import asyncio
import time
from typing import Protocol

from service.handler import Head, Pending, too_many_bytes
from service.protocol.errors import Refused
from service.protocol.signature import Limits


class Connection(Protocol):
    """What an exchange needs of its connection."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def answer(self, exchange: "Exchange", pending: Pending) -> None:
        """All tickets of the exchange are back."""
        ...


class Exchange:
    """Carried by its tickets as their context. Lives on the event loop's thread."""

    __slots__ = (
        "_connection",
        "_tickets_out",
        "body",
        "head",
        "keep_alive",
        "loop",
        "pending",
        "pieces",
        "refused",
        "response_complete",
        "route",
        "started",
        "whole",
    )

    def __init__(self, connection: Connection, route: str, keep_alive: bool) -> None:
        self._connection = connection
        self.loop = connection.loop  # where `ticket_done` is to be called
        self.route = route
        self.keep_alive = keep_alive
        self.started = time.monotonic()
        self.head: Head | None = None
        self.refused: Refused | None = None  # instead of a head, or because of what came after it
        self.body = b""
        self.pieces: bytearray | None = None  # of a body that comes in several
        self.whole = False  # nothing more of it is waited for
        self.pending: Pending | None = None
        self.response_complete = False
        self._tickets_out = 0

    def ticket_out(self) -> "Exchange":
        """One more ticket carries this exchange."""
        self._tickets_out += 1
        return self

    def ticket_done(self) -> None:
        """One of them is back."""
        self._tickets_out -= 1
        if self._tickets_out == 0 and self.pending is not None:
            self._connection.answer(self, self.pending)

    def add(self, piece: bytes, limits: Limits) -> None:
        """A piece of the body; refuses the request once it is too long."""
        if self.refused is not None:
            return  # the rest is read and forgotten
        if not self.body:
            self.body = piece  # nearly always all of it
            return
        if self.pieces is None:
            self.pieces = bytearray(self.body)
        self.pieces += piece
        if len(self.pieces) > limits.bytes:
            self.cut_short(too_many_bytes(limits))

    def cut_short(self, refused: Refused) -> None:
        """Refuses the request before all of it is here."""
        self.refused = refused
        self.whole = True
        self.body = b""
        self.pieces = None

    def take_body(self) -> bytes:
        """The body, which is kept no longer."""
        body = self.body if self.pieces is None else bytes(self.pieces)
        self.body = b""
        self.pieces = None
        return body
