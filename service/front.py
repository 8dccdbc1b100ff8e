"""A connection on the inference port: inference posts go from the parser to the handler, all else to Flask.

uvicorn's protocol reads HTTP and runs the pages. For inference it would make a task, a future, a scope and several
messages a request, which cost more than everything else together; here such a request is an `Exchange`, a plain object
that its tickets carry, and its reply one write when they come back. A client that leaves is noticed at once.
"""

import asyncio
import logging
from typing import Any, Final

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from service.exchange import Exchange
from service.handler import FAULT, Handler, Pending, Reply, error_reply, too_many_bytes
from service.heads import Heads
from service.health import Health
from service.http1 import inference_target, rendered
from service.protocol.errors import Refused
from service.turn import Turn

log = logging.getLogger(__name__)

MAX_HEAD_BYTES: Final = 64 * 1024  # request line and headers
READING_SECONDS: Final = 30.0  # in which a request that comes in pieces must be complete

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Front(HttpToolsProtocol):
    """One connection. Requests that come before the reply to the last one wait for their turn."""

    def __init__(
        self,
        handler: Handler,
        health: Health,
        heads: Heads,
        turn: Turn,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._handler = handler
        self._health = health
        self._heads = heads
        self._turn = turn
        self._active: Exchange | None = None  # whose turn it is
        self._advancing = False
        self._reading = False  # in the middle of a request
        self._head_open = False  # in the middle of its headers
        self._head_bytes = 0
        self._chunk_bytes = 0
        self._requests = 0
        self._unparsed_body = 0  # bytes still to come that the parser knows nothing of
        self._page: RequestResponseCycle | None = None  # the last that went to Flask
        self._closes_after_reading = False
        self._reading_ends: asyncio.TimerHandle | None = None
        self._quiet_since: float | None = None  # None: a request is being read or answered

    # --- the connection -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._quiet_since = self.loop.time()
        self._look_at_quiet()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_keepalive_if_required()
        self._stop_reading_timer()
        self.pipeline.clear()
        exchange, self._active = self._active, None
        if isinstance(self.cycle, Exchange):
            self.cycle = self._page
        super().connection_lost(exc)
        if exchange is not None and exchange.pending is not None:
            pending, exchange.pending = exchange.pending, None
            self._handler.gone(pending)

    def data_received(self, data: bytes) -> None:
        self._quiet_since = None
        fresh = not self._reading and (self.cycle is None or self.cycle.response_complete)
        if fresh and (known := self._heads.find(data)) is not None:
            head, body = known
            exchange = Exchange(self, head.route, keep_alive=True)
            exchange.head, exchange.body, exchange.whole = head, body, True
            self.cycle = exchange  # type: ignore[assignment]
            self._active = exchange
            self._advance()
            return
        before = self._requests
        self._chunk_bytes = len(data)
        if not self._parse(data):
            return
        if fresh and self._requests == before + 1:
            self._remember(data)
        if self._reading:
            self._await_the_rest()
        if self._active is not None:
            self._advance()
        elif not self._reading and (self.cycle is None or self.cycle.response_complete):
            self._quiet_since = self.loop.time()  # nothing but an empty line

    def _parse(self, data: bytes) -> bool:
        """False if this is no HTTP and the connection has been closed."""
        try:
            while data:
                if self._unparsed_body:
                    piece, data = data[: self._unparsed_body], data[self._unparsed_body :]
                    self._unparsed_body -= len(piece)
                    self.on_body(piece)
                    if not self._unparsed_body:
                        self.on_message_complete()
                    continue
                try:
                    self.parser.feed_data(data)
                except httptools.HttpParserUpgrade as offer:
                    # Declined: no other protocol is spoken here. That parser is done for, and has left out the body.
                    self.parser = httptools.HttpRequestParser(self)
                    data = data[offer.args[0] :]
                else:
                    break
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._turn_away(cause if isinstance(cause, Refused) else _no_http(error))
            return False
        return True

    def _remember(self, data: bytes) -> None:
        exchange: Any = self.cycle
        if isinstance(exchange, Exchange) and exchange.head is not None and exchange.keep_alive and not self._reading:
            self._heads.remember(data, self.headers, exchange.head)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.flow.pause_reading()  # who reads no replies gets no more requests read

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.pipeline:
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._quiet_since = self.loop.time()
        if not self.pipeline and not self.flow.write_paused:
            self.flow.resume_reading()  # of the request whose turn it is now, a part may be missing

    def shutdown(self) -> None:
        self._turn.flush()
        super().shutdown()

    def _write(self, data: bytes) -> None:
        """At once, but after the replies that wait for the end of the turn: one of them may be this connection's."""
        self._turn.flush()
        self.transport.write(data)

    def _look_at_quiet(self) -> None:
        """Closes a connection on which nothing has happened for long. One timer, not one for each request."""
        quiet = 0.0 if self._quiet_since is None else self.loop.time() - self._quiet_since
        left = self.timeout_keep_alive - quiet
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self._look_at_quiet)
        elif not self.transport.is_closing():
            self.transport.close()

    # --- requests that come in pieces, or are none --------------------------------------------------------------

    def _await_the_rest(self) -> None:
        """A request is here in part: what is to come is bounded in size and time."""
        if self._head_open:
            self._head_bytes += self._chunk_bytes
            if self._head_bytes > MAX_HEAD_BYTES:
                self._turn_away(_head_too_long())
                return
        if self._reading_ends is None:
            self._reading_ends = self.loop.call_later(READING_SECONDS, self._reading_took_too_long)

    def _reading_took_too_long(self) -> None:
        self._reading_ends = None
        self._turn_away(Refused(408, f"the request was not complete after {READING_SECONDS:g} s"))

    def _stop_reading_timer(self) -> None:
        if self._reading_ends is not None:
            self._reading_ends.cancel()
            self._reading_ends = None

    def _turn_away(self, refused: Refused) -> None:
        """Says what is wrong, if it is clear which request is meant, and closes: what follows is no request."""
        if self.transport.is_closing():
            return
        self._reading = self._head_open = False  # nothing more is waited for
        current: Any = self.cycle
        active = self._active
        if current is not None and not current.response_complete and _is_whole(current):
            current.keep_alive = False  # asked before the nonsense came: it, and all before it, is still answered
            self.flow.pause_reading()
            self._advance()
            return
        self.pipeline.clear()
        if active is not None and active.whole:  # the nonsense is part of a later one
            active.keep_alive = False
            self.flow.pause_reading()
            self._advance()
            return
        if active is not None:
            self._write(rendered(self._handler.refuse(active.route, active.started, refused), keep_alive=False))
        elif (current is None or current.response_complete) and not self._closes_after_reading:
            self._write(rendered(error_reply(refused.status, str(refused)), keep_alive=False))
        self._turn.flush()
        self.transport.close()

    # --- the parser's callbacks ---------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._reading = self._head_open = True
        self._head_bytes = 0
        self._requests += 1

    def on_headers_complete(self) -> None:
        self._head_open = False
        if self.parser.should_upgrade():
            self._unparsed_body = self._body_beside_an_offer()
        # A chunk may hold more than the head, so the head itself is measured; but only where it can be too long.
        if self._head_bytes + self._chunk_bytes > MAX_HEAD_BYTES and self._head_length() > MAX_HEAD_BYTES:
            raise _head_too_long()
        target = inference_target(self.url) if self.parser.get_method() == b"POST" else None
        if target is None:
            self._to_flask()
            return
        route, model = target
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        exchange = Exchange(self, route, keep_alive)
        try:
            exchange.head = self._handler.read_head(route, model, dict(self.headers))
        except Refused as refused:
            exchange.refused = refused
        before, self.cycle = self.cycle, exchange  # type: ignore[assignment]
        if before is None or before.response_complete:
            self._begin(exchange)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))  # type: ignore[arg-type]

    def _body_beside_an_offer(self) -> int:
        """Bytes of body of a request that offers another protocol too, as some clients' first one does."""
        if any(name == b"transfer-encoding" for name, _ in self.headers):
            raise Refused(501, "the request offers an upgrade and has a chunked body; expected one or the other")
        return self._stated_length()

    def _stated_length(self) -> int:
        return next((int(value) for name, value in self.headers if name == b"content-length"), 0)

    def _head_length(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def _to_flask(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        super().on_headers_complete()
        self._page = self.cycle

    def on_body(self, body: bytes) -> None:
        exchange: Any = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_body(body)
        elif not exchange.whole:
            exchange.add(body, self._handler.limits)

    def on_message_complete(self) -> None:
        if self._unparsed_body:
            return
        self._reading = False
        self._stop_reading_timer()
        exchange: Any = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_message_complete()
        elif self._closes_after_reading:
            self.transport.close()
        else:
            exchange.whole = True

    # --- turns --------------------------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Begins what comes next, be it for Flask or not."""
        if isinstance(cycle, Exchange):
            self._begin(cycle)
            if not self._advancing:
                self._advance()
        else:
            super()._start_asgi_task(cycle, app)

    def _begin(self, exchange: Exchange) -> None:
        self._active = exchange
        if exchange.whole:
            return
        limits = self._handler.limits
        stated = self._stated_length()
        if stated > limits.bytes:
            exchange.cut_short(too_many_bytes(limits, stated))
        elif self.expect_100_continue:
            if exchange.refused is None:
                self._write(_CONTINUE)
            else:
                exchange.whole = True  # the client waits to hear whether it should go on

    def _advance(self) -> None:
        """Takes the request whose turn it is, once it is whole; and the next one, where that one was refused."""
        self._advancing = True
        try:
            while (exchange := self._active) is not None and exchange.whole and exchange.pending is None:
                taken = self._take(exchange)
                if isinstance(taken, Reply):
                    self._send(exchange, taken)
                else:
                    exchange.pending = taken
                    self._turn.accepted(self.loop)
        finally:
            self._advancing = False

    def _take(self, exchange: Exchange) -> Pending | Reply:
        head = exchange.head
        if exchange.refused is not None:
            return self._handler.refuse(
                exchange.route, exchange.started, exchange.refused, head.traceparent if head else None
            )
        assert head is not None
        try:
            return self._handler.accept(head, exchange.take_body(), exchange.started, exchange.ticket_out, wake=False)
        except Exception:
            log.exception("a request could not be taken")
            return error_reply(500, FAULT)

    def answer(self, exchange: Exchange, pending: Pending) -> None:
        """All tickets of the exchange are back."""
        try:
            reply = self._handler.finish(pending)
        except Exception:
            log.exception("a reply could not be made")
            reply = self._handler.fault(pending)
        self._send(exchange, reply)

    def _send(self, exchange: Exchange, reply: Reply) -> None:
        exchange.pending = None  # and with it goes the circle of exchange and ticket
        exchange.response_complete = True
        self._active = None
        if self.transport.is_closing():
            return
        # While a head is being read, `cycle` is still the request before it.
        unread = self._reading and not self._head_open and exchange is self.cycle  # type: ignore[comparison-overlap]
        keep_alive = exchange.keep_alive and not self._health.draining and not unread
        data = rendered(reply, keep_alive)
        if keep_alive:
            self._turn.reply(self.loop, self.transport, data)
            self.on_response_complete()
            return
        self._write(data)
        if unread:
            self._closes_after_reading = True  # to close on bytes that are still coming would destroy the reply
        else:
            self.transport.close()


def _is_whole(cycle: Any) -> bool:
    return cycle.whole if isinstance(cycle, Exchange) else not cycle.more_body


def _head_too_long() -> Refused:
    return Refused(431, f"the request's headers are longer than is read; expected at most {MAX_HEAD_BYTES} bytes")


def _no_http(error: httptools.HttpParserError) -> Refused:
    return Refused(400, f"this is no HTTP/1.1 request ({error}); expected one")
