"""Request heads that were read before: clients send the same bytes over and over, and they mean the same each time."""

from dataclasses import dataclass
from typing import Final

from service.handler import Head

KEPT: Final = 256
LONGEST: Final = 2048  # bytes; longer ones carry something that changes with each request
_END: Final = b"\r\n\r\n"
# Present in few requests, and then either part of a conversation of its own or different each time.
_UNUSUAL: Final = frozenset((b"transfer-encoding", b"expect", b"upgrade", b"connection", b"traceparent"))


@dataclass(frozen=True, slots=True)
class Known:
    """What a head said, and how many bytes of body follow it."""

    head: Head
    body_bytes: int


class Heads:
    """Shared by all connections, bounded, the first to come the first to go. For the event loop's thread only."""

    def __init__(self) -> None:
        self._known: dict[bytes, Known] = {}

    def find(self, chunk: bytes) -> tuple[Head, bytes] | None:
        """(head, body) if the chunk is exactly one request with a head that was read before."""
        at = chunk.find(_END) + len(_END)
        known = self._known.get(chunk[:at])
        if known is None or known.body_bytes != len(chunk) - at:
            return None
        return known.head, chunk[at:]

    def remember(self, chunk: bytes, headers: list[tuple[bytes, bytes]], head: Head) -> None:
        """`chunk` was read as exactly one request, on a connection that stays open."""
        at = chunk.find(_END) + len(_END)
        stated = [value for name, value in headers if name == b"content-length"]
        if at > LONGEST or stated != [b"%d" % (len(chunk) - at)] or any(name in _UNUSUAL for name, _ in headers):
            return
        if len(self._known) >= KEPT:
            del self._known[next(iter(self._known))]
        self._known[chunk[:at]] = Known(head, len(chunk) - at)
