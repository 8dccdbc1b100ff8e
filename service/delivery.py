"""Hands finished tickets back to whoever waits: one wake of the event loop per batch, one event per waiting thread."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from service.batching.records import Ticket


def deliver(tickets: Sequence[Ticket]) -> None:
    """The batcher's `Deliver`: a ticket's context is an asyncio future or a `threading.Event`."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[bool]]] = {}
    for ticket in tickets:
        context: Any = ticket.context
        if isinstance(context, threading.Event):
            context.set()
        else:
            by_loop.setdefault(context.get_loop(), []).append(context)
    for loop, futures in by_loop.items():
        if not loop.is_closed():  # a loop that has ended has nobody left to tell
            loop.call_soon_threadsafe(_resolve, futures)


def _resolve(futures: list[asyncio.Future[bool]]) -> None:
    for future in futures:
        if not future.done():  # done already where the client has gone
            future.set_result(True)
