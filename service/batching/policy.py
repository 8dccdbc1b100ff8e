"""When a batch goes: pure functions of what waits, the time, the knobs and the learned cost of a model call.

Nothing here holds a lock, reads a clock or remembers anything; times are seconds on the batcher's clock.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

from service.batching.cost import CostModel
from service.batching.records import Trigger

Policy = Literal["adaptive", "fixed"]
POLICIES: Final = get_args(Policy)

# A batch that must go for its nearest deadline leaves this many expected model times before it: one for the model
# itself and one for being wrong about it.
DEADLINE_MODEL_TIMES: Final = 2.0

# A request is taken if its answer is expected within this share of the time it has. Nothing is lost by turning away
# those beyond: while so many wait, the model has enough to do, and answers that come just too late are for nothing.
ADMITTED_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True)
class Knobs:
    """What a person may turn while the service runs."""

    policy: Policy
    max_batch_rows: int
    max_wait_seconds: float  # counted from a request's enqueue

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"policy is {self.policy!r}; expected {' or '.join(POLICIES)}")
        rows, wait = self.max_batch_rows, self.max_wait_seconds
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise ValueError(f"max_batch_rows is {rows!r}; expected a whole number of at least 1")
        if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait <= 60:
            raise ValueError(f"max_wait_seconds is {wait!r}; expected a number from 0 to 60")


@dataclass(frozen=True, slots=True)
class Expectation:
    """Do so many more requests come while holding may pay, and how much of that time passes until then?"""

    probability: float
    seconds: float
    requests: int = 1


@dataclass(frozen=True, slots=True)
class Waiting:
    """One group's queue as a free worker finds it."""

    rows: int
    requests: int
    oldest_at: float
    nearest_deadline: float
    news_at: float  # the last arrival, or the moment the worker became free if that was later
    expected: tuple[Expectation, ...] = ()  # what is known of who comes next; empty: nothing yet
    idle_seconds: float = 0.0  # how long the service had nothing to do when the first of these arrived
    other_worker_free: bool = False
    draining: bool = False


def patience_seconds(requests: int, rows: int, cost: CostModel, more: int = 1) -> float:
    """How long a batch of `requests` may be held for `more` of them before the hold costs more than it can gain.

    Let t be the time until they come and r the rows of each. Sent apart, they wait for the batch before them and pay
    the fixed cost b again; merged, each is answered b - t sooner, and each of the `requests` that wait, t + a·r·more
    later. With a·r·requests = a·rows the sum is more·(b - a·rows) - (requests + more)·t, positive up to the t returned
    here. So a hold that brings nobody costs all that wait, summed, at most `more` fixed costs.
    """
    return max(0.0, more * (cost.fixed_seconds - cost.per_row_seconds * rows) / (requests + more))


def _hold_until(waiting: Waiting, cost: CostModel | None) -> float:
    """Until when holding pays under `adaptive`; -inf where it does not pay at all."""
    if cost is None or waiting.other_worker_free:
        return -math.inf  # no evidence, or the next request would be served at once by the other worker
    if waiting.idle_seconds >= cost.fixed_seconds:
        return -math.inf  # a lone request on an idle service: nothing that came before says more will follow
    until = -math.inf
    saved = cost.fixed_seconds - cost.per_row_seconds * waiting.rows
    for expected in waiting.expected:
        gain = expected.probability * expected.requests * saved
        if gain > (waiting.requests + expected.requests) * expected.seconds:
            patience = patience_seconds(waiting.requests, waiting.rows, cost, expected.requests)
            until = max(until, waiting.news_at + patience)
    return until


def must_go_at(waiting: Waiting, knobs: Knobs, cost: CostModel | None) -> float:
    """The latest instant for this group under any policy: max_wait from the oldest, or the nearest deadline."""
    model_seconds = cost.seconds(min(waiting.rows, knobs.max_batch_rows)) if cost else 0.0
    by_deadline = waiting.nearest_deadline - DEADLINE_MODEL_TIMES * model_seconds
    return min(waiting.oldest_at + knobs.max_wait_seconds, by_deadline)


def decide(waiting: Waiting, now: float, knobs: Knobs, cost: CostModel | None) -> Trigger | float:
    """The trigger by which the batch goes now, or the instant at which to look again if nothing else happens."""
    if waiting.draining:
        return "drain"
    if waiting.rows >= knobs.max_batch_rows:
        return "full"
    if now >= waiting.oldest_at + knobs.max_wait_seconds:
        return "wait"
    latest = must_go_at(waiting, knobs, cost)
    if now >= latest:
        return "deadline"
    if knobs.policy == "fixed":
        return latest
    hold = _hold_until(waiting, cost)
    return "idle" if now >= hold else min(latest, hold)


def expected_answer_at(
    now: float, free_at: float, rows_ahead: int, rows: int, workers: int, knobs: Knobs, cost: CostModel
) -> float:
    """When a request of `rows` submitted now can be expected to be answered, `rows_ahead` being queued before it.

    `free_at` is when the first worker becomes free. Nobody is held, and batches are full wherever there are rows for
    them; where a whole batch waits already, its own will have filled up, too, by the time it goes.
    """
    batch = knobs.max_batch_rows
    turns_ahead = (rows_ahead // batch) // workers  # whole rounds of full batches before its own
    own = rows_ahead % batch + rows
    further_turns = (math.ceil(own / batch) - 1) // workers  # a split request needs several batches
    full_seconds = cost.seconds(batch)
    own_seconds = full_seconds if rows_ahead >= batch else cost.seconds(min(own, batch))
    return max(now, free_at) + (turns_ahead + further_turns) * full_seconds + own_seconds


def latest_answer_after(rows_ahead: int, rows: int, knobs: Knobs, cost: CostModel) -> float:
    """Seconds within which `expected_answer_at` falls, however many workers there are and whatever they run."""
    full_batches = (rows_ahead + rows) // knobs.max_batch_rows + 3  # the running one, a part on either side
    return full_batches * cost.seconds(knobs.max_batch_rows)
