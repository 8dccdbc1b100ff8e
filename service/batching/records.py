"""What passes through the batcher: a ticket per request, and one record per finished batch.

Metrics, Server-Timing, logs and `/admin/slowest` all read these; nothing else is measured twice.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from service.batching.errors import BatcherError

Trigger = Literal["full", "wait", "idle", "deadline", "drain"]


class Rows(Protocol):
    """Anything with len() and slicing along its first axis: a numpy array, a list."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


@dataclass(slots=True, eq=False)
class Ticket:
    """One request on its way. Times are seconds on the batcher's monotonic clock.

    `context` belongs to the caller (an asyncio future, an event, a span). Exactly one of `result` and `error` is set
    when the ticket is handed to `deliver`, and it is handed over exactly once.
    """

    rows: Rows
    group: Hashable  # batches never mix groups: model, method, dtype, feature count, parameters
    deadline: float
    context: Any = None
    beside: int = 0  # tickets of the same request, of as many rows each, submitted before: they are not in its way
    enqueued_at: float = 0.0
    result: Rows | None = None
    error: BatcherError | None = None
    queue_seconds: float = 0.0  # enqueue to the start of its (last) batch
    model_seconds: float = 0.0  # time its batches spent in the model
    batch_rows: int = 0  # rows of the largest batch that carried it


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One run of the model."""

    group: Hashable
    trigger: Trigger
    rows: int
    queue_waits: tuple[float, ...] = field(default=())  # seconds, one per request in the batch
    model_seconds: float = 0.0  # inside the model only: no queueing, no hand-over
    error: BatcherError | None = None


class Runner(Protocol):
    """One model worker, used by one batcher thread at a time."""

    def run(self, group: Hashable, parts: Sequence[Rows]) -> tuple[Rows, float]:
        """Rows of `parts` put together and run once: (one result row per input row in order, model seconds).

        Raises ModelDown when the worker died or hung, ModelFailed when the model raised.
        """
        ...

    def join(self, results: Sequence[Rows]) -> Rows:
        """The results of the parts of one split request, in order, as one."""
        ...

    def ready(self) -> None:
        """Returns once the worker can take a batch: at once, except after it had to be replaced.

        Rows stay in the queue meanwhile. Raises nothing, and returns early when the runner is closed.
        """
        ...

    @property
    def up(self) -> bool:
        """Whether a worker runs, or one is at hand that would take over at once."""
        ...

    def close(self) -> None:
        """Ends the worker; idempotent."""
        ...


class Deliver(Protocol):
    """Hands finished tickets back, once per batch, from a batcher thread. Must not block or raise."""

    def __call__(self, tickets: Sequence[Ticket]) -> None: ...
