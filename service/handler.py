"""The one way through inference: bytes in, reply out. Flask's routes and the front both call it.

    read_head, accept ──▶ refused? a Reply   ──▶ sent
       └─────▶ Pending ──(the front waits for its tickets, each in its own manner)──▶ finish ──▶ Reply ──▶ sent
                  └──────(the client left)──▶ gone

Nothing here blocks, and nothing here knows an event loop or a server. One record is made per request, whatever its end.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import orjson

from service.batching import errors
from service.batching.records import Ticket
from service.protocol import predict, v2
from service.protocol.errors import Refused, shown
from service.protocol.signature import Limits, Signature
from service.records import Outcome, RequestRecord
from slo import names

# Core errors know no HTTP: this is the one table that maps them.
STATUS_OF: Final[Mapping[type[errors.BatcherError], tuple[int, Outcome]]] = {
    errors.QueueFull: (429, "shed"),
    errors.Unlikely: (429, "shed"),
    errors.Draining: (503, "shed"),
    errors.DeadlinePassed: (504, "failed"),
    errors.ModelDown: (503, "failed"),
    errors.ModelFailed: (500, "failed"),
    errors.ClientGone: (499, "failed"),
}
FAULT: Final = "the service failed on this request; its log says why"  # the body of a 500 that is our own
GONE_STATUS: Final = 499  # never sent: nobody is there to read it

_JSON_TYPE: Final = b"application/json"
_BINARY_TYPE: Final = b"application/octet-stream"
_OK_HEADERS: Final = (
    b"content-type: %b\r\ncontent-length: %d\r\nserver-timing: queue;dur=%.3f, model;dur=%.3f\r\nx-batch-rows: %d\r\n"
)

_LENGTH_NAME: Final = v2.HEADER_LENGTH.lower().encode()

Stages = tuple[float, float, int]  # queue seconds, model seconds, batch rows


class Reply(NamedTuple):
    """An HTTP reply. `headers` is as it goes over the wire, a line for each, names in lower case."""

    status: int
    headers: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """What a request says before its body; the same for many requests of one client."""

    route: str
    timeout_seconds: float
    json_bytes: int | None  # where the JSON of a binary v2 request ends
    traceparent: bytes | None


@dataclass(slots=True, eq=False)
class Pending:
    """An accepted request that waits for the batcher: one ticket per method that it asked for."""

    route: str
    started: float
    rows: int
    methods: tuple[str, ...]
    wanted: v2.Wanted | None  # None: a /predict request
    traceparent: bytes | None
    tickets: list[Ticket] = field(default_factory=list)


class Submits(Protocol):
    """What the handler needs of the batcher."""

    def submit(self, ticket: Ticket, wake: bool = True) -> None: ...

    def wake(self) -> None: ...

    def cancel(self, ticket: Ticket) -> bool: ...


class Handler:
    """Turns requests into tickets and tickets into replies. Thread-safe: it keeps nothing but the set in flight."""

    def __init__(
        self,
        signature: Signature,
        limits: Limits,
        timeout_seconds: float,
        batcher: Submits,
        record: Callable[[RequestRecord], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.signature = signature
        self.limits = limits
        self._timeout_seconds = timeout_seconds
        self._batcher = batcher
        self._record = record
        self._clock = clock
        self._dtype = signature.dtype.name  # numpy makes the text anew at each look
        self._in_flight: dict[int, Pending] = {}  # by id(); adding and removing an entry is atomic

    @property
    def in_flight(self) -> int:
        """Accepted requests that have no reply yet."""
        return len(self._in_flight)

    def read_head(self, route: str, model: str | None, headers: Mapping[bytes, bytes]) -> Head:
        """What URL and headers say; Refused where they are wrong.

        `headers` has lower-case names; `model` is the name in the URL, None where it has none.
        """
        timeout_seconds = self._timeout(headers)
        _check_content(headers, binary_allowed=route == names.ROUTE_V2_INFER)
        json_bytes = None
        if route == names.ROUTE_V2_INFER:
            if model != self.signature.name:
                raise unknown_model(model or "", self.signature)
            json_bytes = _header_length(headers)
        return Head(route, timeout_seconds, json_bytes, headers.get(b"traceparent"))

    def accept(
        self, head: Head, body: bytes, started: float, waiter: Callable[[], Any], wake: bool = True
    ) -> Pending | Reply:
        """Checks a request and queues it; or the reply that refuses it. `waiter` makes the context of each ticket.

        With `wake=False` the batcher is not told; `wake` is to be called once the last of several has been accepted.
        """
        wanted: v2.Wanted | None = None
        try:
            if len(body) > self.limits.bytes:
                raise too_many_bytes(self.limits, len(body))
            if head.route == names.ROUTE_PREDICT:
                call = predict.parse(body, self.signature, self.limits)
            else:
                call, wanted = v2.parse(body, head.json_bytes, self.signature, self.limits)
        except Refused as refused:
            return self.refuse(head.route, started, refused, head.traceparent)
        rows = call.rows
        tickets: list[Ticket] = []
        pending = Pending(head.route, started, len(rows), call.methods, wanted, head.traceparent, tickets)
        self._in_flight[id(pending)] = pending
        deadline = started + head.timeout_seconds
        try:
            for method in call.methods:
                ticket = Ticket(rows, (method, self._dtype, rows.shape[1]), deadline, waiter(), beside=len(tickets))
                self._batcher.submit(ticket, wake)
                tickets.append(ticket)
        except errors.BatcherError as error:
            for ticket in tickets:
                self._batcher.cancel(ticket)
            return self._failed(pending, error)
        except Exception:  # not the request's fault; whoever called says so
            self.fault(pending)
            raise
        return pending

    def wake(self) -> None:
        """Tells the batcher of what was accepted with `wake=False`."""
        self._batcher.wake()

    def finish(self, pending: Pending) -> Reply:
        """The reply to a request whose tickets have all been handed back."""
        tickets = pending.tickets
        for ticket in tickets:
            if ticket.error is not None:
                return self._failed(pending, ticket.error)
        try:
            body, length = self._write(pending)
        except (TypeError, ValueError) as error:
            return self._failed(pending, errors.ModelFailed(f"the model's result cannot be written: {error}"))
        queue, model, batch_rows = stages = _stages(tickets)
        headers = _OK_HEADERS % (
            _JSON_TYPE if length is None else _BINARY_TYPE,
            len(body),
            queue * 1e3,
            model * 1e3,
            batch_rows,
        )
        if length is not None:
            headers += b"%b: %d\r\n" % (_LENGTH_NAME, length)
        self._close(pending, "ok", 200, None, stages)
        return Reply(200, headers, body)

    def gone(self, pending: Pending) -> None:
        """The client left before the reply; rows still queued are dropped."""
        for ticket in pending.tickets:
            self._batcher.cancel(ticket)
        # A client that gives up waiting was not served: leaving it out would flatter the SLO.
        self._close(pending, "failed", GONE_STATUS, errors.ClientGone.reason)

    def fault(self, pending: Pending) -> Reply:
        """The reply to a request that the service itself has failed on."""
        for ticket in pending.tickets:
            self._batcher.cancel(ticket)
        self._close(pending, "failed", 500, None)
        return error_reply(500, FAULT)

    def refuse(self, route: str, started: float, refused: Refused, traceparent: bytes | None = None) -> Reply:
        """The reply to a request that is wrong."""
        self._record(
            RequestRecord(
                route,
                "client_error",
                refused.status,
                self._clock() - started,
                reason="invalid",
                traceparent=traceparent,
            )
        )
        return error_reply(refused.status, str(refused))

    def _write(self, pending: Pending) -> tuple[bytes, int | None]:
        """The reply's body, and the length of its JSON where bytes follow it."""
        if pending.wanted is None:
            return predict.write(pending.tickets[0].result), None
        results = [(method, ticket.result) for method, ticket in zip(pending.methods, pending.tickets, strict=True)]
        return v2.write(results, pending.wanted, self.signature)

    def _timeout(self, headers: Mapping[bytes, bytes]) -> float:
        text = headers.get(b"x-request-timeout-ms")
        if text is None:
            return self._timeout_seconds
        try:
            milliseconds = float(text)
        except ValueError:
            milliseconds = math.nan
        if not milliseconds > 0:
            raise Refused(400, f"X-Request-Timeout-Ms is {_header_text(text)}; expected milliseconds above 0")
        return min(self._timeout_seconds, milliseconds / 1000)

    def _failed(self, pending: Pending, error: errors.BatcherError) -> Reply:
        status, outcome = status_of(error)
        self._close(pending, outcome, status, error.reason)
        retry_after = None
        if isinstance(error, errors.QueueFull):
            retry_after = max(1, math.ceil(error.retry_after_seconds))
        elif status in (429, 503):
            retry_after = 1
        return error_reply(status, str(error), retry_after)

    def _close(
        self, pending: Pending, outcome: Outcome, status: int, reason: str | None, stages: Stages | None = None
    ) -> None:
        """Takes the request out of flight and records it; only the first call for a request counts."""
        if self._in_flight.pop(id(pending), None) is None:
            return
        queue, model, batch_rows = stages or _stages(pending.tickets)
        seconds = self._clock() - pending.started
        self._record(
            RequestRecord(
                pending.route,
                outcome,
                status,
                seconds,
                reason,
                pending.rows,
                queue,
                model,
                batch_rows,
                pending.traceparent,
            )
        )


def _stages(tickets: Sequence[Ticket]) -> Stages:
    """(queue seconds, model seconds, batch rows) of a request, the largest of its tickets' each."""
    if len(tickets) == 1:  # nearly always
        ticket = tickets[0]
        return ticket.queue_seconds, ticket.model_seconds, ticket.batch_rows
    return (
        max((ticket.queue_seconds for ticket in tickets), default=0.0),
        max((ticket.model_seconds for ticket in tickets), default=0.0),
        max((ticket.batch_rows for ticket in tickets), default=0),
    )


def status_of(error: errors.BatcherError) -> tuple[int, Outcome]:
    """Status and outcome of a core error; a subclass goes by its nearest listed base."""
    for kind in type(error).__mro__:
        if kind in STATUS_OF:
            return STATUS_OF[kind]
    return 500, "failed"


def error_reply(status: int, message: str, retry_after_seconds: int | None = None) -> Reply:
    """An error as the contract has it: {"error": "<one sentence>"}."""
    body = error_body(message)
    headers = b"content-type: %b\r\ncontent-length: %d\r\n" % (_JSON_TYPE, len(body))
    if retry_after_seconds is not None:
        headers += b"retry-after: %d\r\n" % retry_after_seconds
    return Reply(status, headers, body)


def error_body(message: str) -> bytes:
    """The body of every error of the service."""
    return orjson.dumps({"error": message})


def too_many_bytes(limits: Limits, length: int | None = None) -> Refused:
    """413; `length` is known where the request said it."""
    has = "more bytes than are read" if length is None else f"{length} bytes"
    return Refused(413, f"the body has {has}; expected at most {limits.bytes} bytes (SERVICE_MAX_REQUEST_BYTES)")


def unknown_model(name: str, signature: Signature) -> Refused:
    """404 for a model that is not served."""
    return Refused(404, f"model {shown(name)} is not served here; this service serves {signature.name!r}")


def _check_content(headers: Mapping[bytes, bytes], binary_allowed: bool) -> None:
    encoding = headers.get(b"content-encoding")
    if encoding is not None and encoding.lower() != b"identity":
        raise Refused(415, f"Content-Encoding is {_header_text(encoding)}; expected a body that is not compressed")
    stated = headers.get(b"content-type")
    if stated is None or stated == b"application/json":
        return
    media = stated.split(b";", 1)[0].strip().lower()
    if media == b"application/json" or (media.startswith(b"application/") and media.endswith(b"+json")) or not media:
        return
    if binary_allowed and media == b"application/octet-stream":
        return
    expected = "application/json" + (" or application/octet-stream" if binary_allowed else "")
    raise Refused(415, f"Content-Type is {_header_text(media)}; expected {expected}")


def _header_length(headers: Mapping[bytes, bytes]) -> int | None:
    text = headers.get(b"inference-header-content-length")
    if text is None:
        return None
    if not (text.isdigit() and len(text) < 12):
        raise Refused(400, f"{v2.HEADER_LENGTH} is {_header_text(text)}; expected the length of the JSON in bytes")
    return int(text)


def _header_text(value: bytes) -> str:
    return shown(value.decode("latin-1"))
