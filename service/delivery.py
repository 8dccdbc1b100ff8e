"""Hands finished tickets back to whoever waits: one wake of the event loop per batch, one event per waiting thread."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from service.batching.records import Ticket

log = logging.getLogger(__name__)


class Waiter(Protocol):
    """The context of a ticket whose caller lives on an event loop."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def ticket_done(self) -> None:
        """One of the caller's tickets is back. Called on the loop's thread."""
        ...


def deliver(tickets: Sequence[Ticket]) -> None:
    """The batcher's `Deliver`: a ticket's context is a `Waiter` or a `threading.Event`."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Waiter]] = {}
    for ticket in tickets:
        context = ticket.context
        if isinstance(context, threading.Event):
            context.set()
        else:
            by_loop.setdefault(context.loop, []).append(context)
    for loop, waiters in by_loop.items():
        if not loop.is_closed():  # a loop that has ended has nobody left to tell
            loop.call_soon_threadsafe(_tell, waiters)


def _tell(waiters: list[Waiter]) -> None:
    for waiter in waiters:
        try:
            waiter.ticket_done()
        except Exception:  # what goes wrong for one caller must not keep the others of the batch waiting
            log.exception("a caller could not be told of its result")
