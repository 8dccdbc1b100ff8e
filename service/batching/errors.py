"""What can go wrong between `submit` and a reply, in the order of the data path.

    submit ──▶ queue ──▶ batch ──▶ model ──▶ rows handed back
      │          │                   │            │
      │          │                   │            └ WrongResultLength   the model returned another number of rows
      │          │                   ├ ModelDown    its worker died or hung; it is being replaced
      │          │                   └ ModelFailed  the model itself raised
      │          ├ DeadlinePassed  waited too long
      │          └ ClientGone      nobody is left to answer
      ├ QueueFull    capacity in rows is reached
      ├ Unlikely     could not make its deadline
      └ Draining     the service is shutting down

`reason` is the value of the `reason` label of `inference_rejected_total`; None where it is no rejection.
The core knows no HTTP: the web adapter maps these to status codes.
"""

from typing import ClassVar


class BatcherError(Exception):
    """Base of everything that the batcher tells a caller instead of a result."""

    reason: ClassVar[str | None] = None


class QueueFull(BatcherError):
    """The queue has no room for these rows; `retry_after_seconds` says when it may have."""

    reason = "queue_full"

    def __init__(self, message: str, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Unlikely(BatcherError):
    """By the expected model time the request cannot make its deadline."""

    reason = "unlikely"


class Draining(BatcherError):
    """The service is shutting down and takes no more."""

    reason = "draining"


class DeadlinePassed(BatcherError):
    """The deadline came before a result; rows still queued never reach the model."""

    reason = "deadline"


class ClientGone(BatcherError):
    """The client disconnected before a result."""

    reason = "client_gone"


class ModelDown(BatcherError):
    """The model worker that held the batch died or hung."""

    reason = "model_down"


class ModelFailed(BatcherError):
    """The model raised on these rows."""


class WrongResultLength(ModelFailed):
    """The model returned another number of rows than it was given: never sliced, never shifted."""
