"""What is kept of one HTTP request: metrics and `/admin/slowest` read this record and nothing else."""

import re
from typing import Final, Literal, NamedTuple

Outcome = Literal["ok", "client_error", "shed", "failed"]

_TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


class RequestRecord(NamedTuple):
    """One answered (or abandoned) request. Durations in seconds."""

    route: str  # the URL rule, or `other`
    outcome: Outcome
    status: int  # 499 where the client was gone and nothing could be sent
    seconds: float  # from the first byte of the request to the reply
    reason: str | None = None  # of inference_rejected_total
    rows: int = 0
    queue_seconds: float = 0.0
    model_seconds: float = 0.0
    batch_rows: int = 0
    traceparent: bytes | None = None

    @property
    def trace_id(self) -> str | None:
        """The trace id of a well-formed W3C `traceparent` header."""
        match = _TRACEPARENT.fullmatch(self.traceparent) if self.traceparent else None
        return match.group(1).decode() if match else None
