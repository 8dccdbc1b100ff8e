"""One kept HTTP/1.1 connection for prepared requests: bytes out, status and length back, nothing more is looked at.

    exchange ──▶ connect ──▶ send ──▶ reply head ──▶ reply body
                    │          │          │              │
                    └──────────┴──────────┴──────────────┴ RequestTimedOut   the whole exchange took too long
                    ├ NotConnected   refused, unreachable, no such name
                               └──────────┴──────────────┴ ConnectionLost    the peer hung up or reset
                                          └──────────────┴ MalformedReply    what came back is no HTTP

After any of these the connection is closed and the next exchange makes a new one.
"""

import time
from typing import Any, Final

from gevent import get_hub, socket
from gevent.hub import Waiter
from gevent.monkey import get_original
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

# Python's own socket, also where gevent has put its own in that place: gevent's tries to read before it waits, which
# after a request never succeeds, and arms a new timeout object each time. Waiting first saves a third of the time.
_plain_socket: Final = get_original("socket", "socket")
_READ, _WRITE = 1, 2  # libev's event masks
_READ_BYTES: Final = 65_536
_MOST_ERROR_BODY_BYTES: Final = 2_048
# Servers close connections that idle (uvicorn after 5 s). A connection that rested longer than this and is found
# closed, without a byte of a reply, met that; one that was busy and breaks is the server's failure and counts as one.
IDLE_SECONDS: Final = 0.5


class ExchangeFailed(Exception):
    """No reply. The text is the same for all failures of a kind, so that they add up in reports."""

    text = "no reply"

    def __init__(self) -> None:
        super().__init__(self.text)


class RequestTimedOut(ExchangeFailed):
    """The reply was not complete in time."""

    text = "timed out"


class NotConnected(ExchangeFailed):
    """There is no server, or it takes no connection."""

    text = "cannot connect"


class ConnectionLost(ExchangeFailed):
    """The server closed or reset the connection before the reply was complete."""

    text = "connection lost"


class MalformedReply(ExchangeFailed):
    """The bytes that came back are not HTTP/1.x."""

    text = "malformed reply"


class Connection:
    """A connection to one server, made at the first exchange and kept from then on. One exchange at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._socket: Any = None  # non-blocking
        self._parser: HttpResponseParser | None = None
        self._waiter = Waiter()
        self._used_at = 0.0  # monotonic seconds at which the last reply ended
        self._begin()

    def exchange(self, request: bytes, timeout_seconds: float) -> int:
        """Send one prepared request and read its reply whole; the status. ExchangeFailed if there is none."""
        started = time.monotonic()
        deadline = started + timeout_seconds
        rested = self._socket is not None and started - self._used_at > IDLE_SECONDS
        try:
            try:
                self._attempt(request, deadline)
            except ConnectionLost:
                if not rested or self._anything:
                    raise
                self.close()
                self._attempt(request, deadline)
        except BaseException:  # also when the user is stopped in mid-request: half a reply is of no use to the next one
            self.close()
            raise
        if not self._keep or self._excess:
            self.close()
        self._used_at = time.monotonic()
        return self.status

    def close(self) -> None:
        """Hang up; idempotent."""
        if self._socket is not None:
            self._readable.close()
            self._socket.close()
            self._socket = self._parser = None

    def _begin(self) -> None:
        self._anything = False  # a byte of the reply has come
        self._head_done = False  # … and all of its head
        self._done = False  # … and all of it
        self._keep = False  # the server lets the connection live
        self._excess = False  # more came than the reply
        self.status = 0
        """Status of the last reply."""
        self.body_bytes = 0
        """Length of the last reply's body."""
        self.error_body = b""
        """The beginning of the last reply's body if its status was not 2xx."""

    def _attempt(self, request: bytes, deadline: float) -> None:
        self._begin()
        if self._socket is None:
            self._connect(deadline)
        try:
            self._send(request, deadline)
            head = b""
            while not self._done:
                self._wait(self._readable, deadline)
                try:
                    data = self._socket.recv(_READ_BYTES)
                except BlockingIOError:
                    continue  # the kernel said readable and thought again
                if not data:
                    self._peer_closed(head)
                    return
                self._anything = True
                if not self._head_done:
                    head += data
                self._feed(data)
        except OSError:
            raise ConnectionLost from None

    def _connect(self, deadline: float) -> None:
        try:
            made = socket.create_connection(self._address, timeout=_left(deadline))
        except TimeoutError:
            raise RequestTimedOut from None
        except OSError:
            raise NotConnected from None
        # Without this a request in two segments waits for the peer's delayed ACK: a step of 40 ms in the latencies.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = _plain_socket(fileno=made.detach())
        self._socket.setblocking(False)
        self._readable = get_hub().loop.io(self._socket.fileno(), _READ)
        self._parser = HttpResponseParser(self)

    def _send(self, request: bytes, deadline: float) -> None:
        try:
            sent = self._socket.send(request)
        except BlockingIOError:
            sent = 0
        if sent == len(request):
            return
        writable = get_hub().loop.io(self._socket.fileno(), _WRITE)
        try:
            while sent < len(request):
                self._wait(writable, deadline)
                try:
                    sent += self._socket.send(request[sent:])
                except BlockingIOError:
                    continue
        finally:
            writable.close()

    def _wait(self, watcher: Any, deadline: float) -> None:
        """Let others run until the socket is ready; RequestTimedOut if it is not by the deadline."""
        timer = get_hub().loop.timer(max(0.0, deadline - time.monotonic()))
        timer.start(self._waiter.switch, True, update=True)
        watcher.start(self._waiter.switch, False)
        try:
            late = self._waiter.get()
        finally:
            watcher.stop()
            timer.close()
            self._waiter.clear()
        if late:
            raise RequestTimedOut

    def _feed(self, data: bytes) -> None:
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            if not self._done:
                raise MalformedReply from None
            self._excess = True  # the reply itself was whole; what follows it is not

    def _peer_closed(self, head: bytes) -> None:
        lower = head.lower()
        framed = b"\r\ncontent-length:" in lower or b"\r\ntransfer-encoding:" in lower
        if not self._head_done or framed:
            raise ConnectionLost
        self._done = True  # a body without a length ends where the connection does

    # --- what httptools calls ---

    def on_message_begin(self) -> None:
        """The first byte of a reply; of a second one, if the first is done."""
        if self._done:
            self._excess = True

    def on_headers_complete(self) -> None:
        """The status is known."""
        if self._done:
            return
        assert self._parser is not None
        self.status = self._parser.get_status_code()
        self._head_done = self.status >= 200

    def on_body(self, body: bytes) -> None:
        """A part of the body, its chunks undone."""
        if self._done:
            return
        self.body_bytes += len(body)
        if not 200 <= self.status < 300:
            self.error_body = (self.error_body + body)[:_MOST_ERROR_BODY_BYTES]

    def on_message_complete(self) -> None:
        """The reply is whole."""
        if self._done or self.status < 200:  # 1xx: the reply proper is still to come
            return
        assert self._parser is not None
        self._keep = self._parser.should_keep_alive()
        self._done = True


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
