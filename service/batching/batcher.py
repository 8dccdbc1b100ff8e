"""The micro-batcher: tickets in from any thread, one batch at a time to each model worker, tickets back once per batch.

One lock guards everything; the model runs and results are handed over outside it. Each runner has a thread that takes
a batch only when it is free to run it (late binding); one more thread answers deadlines while all of them are busy.
An entry is answered exactly once: whoever sets `answered` under the lock hands it over, and it leaves `_live` then.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

from service.batching.arrivals import ArrivalEstimator
from service.batching.cost import CostEstimator, CostModel
from service.batching.errors import BatcherError, DeadlinePassed, Draining, ModelFailed, QueueFull, Unlikely
from service.batching.execution import Attempt, execute
from service.batching.policy import (
    ADMITTED_SHARE,
    Expectation,
    Knobs,
    Waiting,
    decide,
    expected_answer_at,
    latest_answer_after,
    must_go_at,
    patience_seconds,
)
from service.batching.queue import Entry, Group, Part, RowQueue
from service.batching.records import BatchRecord, Deliver, Runner, Ticket, Trigger

log = logging.getLogger(__name__)

STALL_SECONDS: Final = 60.0  # a loop that shows no sign of life for so long is stuck: longer than any hang limit
_RATE_WEIGHT: Final = 1 / 8
_REST_AFTER_FAULT_SECONDS: Final = 0.1


class _Loop:
    """A runner's thread, and when it last showed life; `parked` while there is rightly nothing to do."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.thread: threading.Thread | None = None
        self.parked = False
        self.beat = -math.inf


class Batcher:
    """Every public method may be called from any thread."""

    def __init__(
        self,
        runners: Sequence[Runner],
        knobs: Knobs,
        queue_capacity_rows: int,
        deliver: Deliver,
        on_batch: Callable[[BatchRecord], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not runners:
            raise ValueError("a batcher needs at least one runner")
        if queue_capacity_rows < 1:
            raise ValueError(f"queue_capacity_rows is {queue_capacity_rows}; expected at least 1")
        self.capacity_rows = queue_capacity_rows
        self._deliver = deliver
        self._on_batch = on_batch
        self._clock = clock
        self._knobs = knobs
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)  # a batch may have become due: runner threads
        self._deadlines = threading.Condition(self._lock)  # an earlier deadline than known: the watchdog
        self._emptied = threading.Condition(self._lock)  # nothing is left to answer: drain
        self._queue = RowQueue()
        self._live: dict[Ticket, Entry] = {}  # accepted and not yet answered: queued, in a batch, or both
        self._running: dict[int, tuple[float, int]] = {}  # id of a busy runner -> (start, rows) of its batch
        self._costs = CostEstimator()
        self._arrivals = ArrivalEstimator()
        self._idle_since = -math.inf
        self._rows_per_second = 0.0  # of one worker while it works
        self._next_deadline = math.inf  # no live deadline is earlier
        self._wake_at = math.inf  # the earliest alarm of a parked runner thread
        self._free = 0  # parked runner threads
        self._draining = False
        self._closed = False
        self._loops = [_Loop(runner) for runner in runners]
        self._watchdog: threading.Thread | None = None
        self._watchdog_wakes_at = math.inf

    # --- what callers see ---------------------------------------------------------------------------------------

    @property
    def knobs(self) -> Knobs:
        return self._knobs

    @knobs.setter
    def knobs(self, knobs: Knobs) -> None:
        with self._lock:
            self._knobs = knobs
            self._work.notify_all()

    @property
    def depth_rows(self) -> int:
        """Rows that wait for a model worker."""
        return self._queue.rows

    @property
    def cost(self) -> CostModel | None:
        """The learned cost of a model call; None while too little was seen."""
        return self._costs.current

    def teach(self, samples: Iterable[tuple[int, float]]) -> None:
        """(rows, model seconds) measured elsewhere, such as at the start, so that callers need not pay for learning."""
        with self._lock:
            for rows, seconds in samples:
                self._costs.observe(rows, seconds)

    @property
    def healthy(self) -> bool:
        """False once a thread of the batcher has died, hangs, or sleeps through work that is due."""
        with self._lock:
            now = self._clock()
            if self._closed or self._watchdog is None or not self._watchdog.is_alive():
                return False
            if now > min(self._watchdog_wakes_at, self._next_deadline) + STALL_SECONDS:
                return False
            alive = all(loop.thread is not None and loop.thread.is_alive() for loop in self._loops)
            busy_too_long = any(not loop.parked and now - loop.beat > STALL_SECONDS for loop in self._loops)
            overslept = self._free > 0 and now > self._wake_at + STALL_SECONDS
            return alive and not busy_too_long and not overslept

    def start(self) -> None:
        for number, loop in enumerate(self._loops):
            loop.beat = self._clock()
            loop.thread = threading.Thread(target=self._serve, args=(loop,), name=f"batcher-{number}", daemon=True)
            loop.thread.start()
        self._watchdog = threading.Thread(target=self._watch, name="batcher-deadlines", daemon=True)
        self._watchdog.start()

    def submit(self, ticket: Ticket, wake: bool = True) -> None:
        """Takes a request or raises QueueFull, Unlikely or Draining; never blocks.

        A caller that is about to submit more in the same breath says `wake=False` and calls `wake` after the last;
        until then no batch takes them, so that they are not torn apart.
        """
        rows = len(ticket.rows)
        if rows < 1:
            raise ValueError("a request has no rows; expected at least one")
        with self._lock:
            now = self._clock()
            if ticket in self._live:
                raise ValueError("this ticket has been submitted already")
            self._admit(ticket, rows, now)
            ticket.enqueued_at = now
            entry = Entry(ticket, rows)
            idle_seconds = 0.0 if self._live else now - self._idle_since
            self._live[ticket] = entry
            if wake:
                self._queue.append(entry, idle_seconds)
            else:
                self._queue.stage(entry, idle_seconds)
            self._arrivals.arrived(now)
            if ticket.deadline < self._next_deadline:
                self._next_deadline = ticket.deadline
                self._deadlines.notify()
            if wake and self._free:
                self._wake_if_due(now)

    def wake(self) -> None:
        """Lets batches take what was submitted with `wake=False`, and looks whether one is due."""
        with self._lock:
            self._queue.release()
            if self._free and self._queue:
                self._wake_if_due(self._clock())

    def cancel(self, ticket: Ticket) -> bool:
        """The client has gone: rows that still wait are dropped, and the ticket will never be delivered.

        False if it has been answered already (or was never accepted).
        """
        with self._lock:
            entry = self._live.get(ticket)
            if entry is None:
                return False
            self._settle(entry)
            return True

    def run_once(self, runner: Runner) -> bool:
        """Runs the batch that is due, if any, in this thread; False if none was."""
        with self._lock:
            now = self._clock()
            due = self._due(now, others_free=self._free)
            if not isinstance(due, tuple):
                return False
            group, trigger = due
            cost = self._costs.current
            limit = self._knobs.max_batch_rows
            done_at = now + cost.seconds(min(group.rows, limit)) if cost else now
            parts, late = self._queue.take(group, limit, now, done_at)
            for entry in late:
                self._settle(entry)
            if parts:
                self._running[id(runner)] = (now, sum(stop - start for _, start, stop in parts))
            if self._free and self._queue:
                self._work.notify()  # the alarm for those left behind was this thread's
        # From here on the parts are this thread's to answer, whatever happens.
        try:
            self._refuse_late(late, now)
            if parts:
                waits = tuple(now - entry.ticket.enqueued_at for entry, _, _ in parts)
                for (entry, _, _), wait in zip(parts, waits, strict=True):
                    entry.ticket.queue_seconds = wait
                self._run(runner, group.key, parts, trigger, waits)
        except Exception as fault:
            log.exception("the batcher itself failed; the requests of this batch are answered with an error")
            self._fail(parts, ModelFailed(f"the batcher failed: {type(fault).__name__}: {fault}"))
        finally:
            with self._lock:
                self._running.pop(id(runner), None)
                if self._queue and (cost := self._costs.current):
                    self._arrivals.worker_became_free(self._clock(), horizon_seconds=cost.fixed_seconds)
        return True

    def expire(self) -> float:
        """Answers every request whose deadline has passed, queued or running; returns when to look again."""
        with self._lock:
            now = self._clock()
            if now < self._next_deadline:
                return self._next_deadline
            expired = [entry for entry in self._live.values() if entry.ticket.deadline <= now]
            for entry in expired:
                self._settle(entry)
            self._next_deadline = min((entry.ticket.deadline for entry in self._live.values()), default=math.inf)
            wake_at = self._next_deadline
        self._refuse_late(expired, now)
        return wake_at

    def drain(self, timeout_seconds: float) -> bool:
        """Accepts nothing more and flushes without waiting; True if all were answered within the time."""
        with self._lock:
            self._draining = True
            self._queue.release()
            self._work.notify_all()
            return self._emptied.wait_for(lambda: not self._live, timeout_seconds)

    def close(self) -> None:
        """Ends threads and runners; whoever still waits is answered with Draining. Idempotent."""
        with self._lock:
            self._draining = self._closed = True
            left = list(self._live.values())
            for entry in left:
                self._settle(entry)
            self._work.notify_all()
            self._deadlines.notify_all()
        self._answer_all(left, Draining("the service is shutting down; expected to be called again elsewhere"))
        for loop in self._loops:
            loop.runner.close()
        for thread in (*(loop.thread for loop in self._loops), self._watchdog):
            if thread is not None and thread is not threading.current_thread():
                thread.join(timeout=5)

    # --- admission ----------------------------------------------------------------------------------------------

    def _admit(self, ticket: Ticket, rows: int, now: float) -> None:
        if self._draining:
            raise Draining("the service is shutting down")
        if rows > self.capacity_rows - self._queue.rows + ticket.beside * rows:
            raise QueueFull(
                f"the queue holds {self._queue.rows} of {self.capacity_rows} rows; no room for {rows} more",
                self._retry_after_seconds(rows),
            )
        if ticket.deadline <= now:
            raise Unlikely("the deadline has passed already")
        cost = self._costs.current
        if cost is None or len(self._live) <= ticket.beside:
            return  # nothing to judge by, or nothing in its way: at least one is always served
        ahead = self._queue.rows
        answer_by = now + ADMITTED_SHARE * (ticket.deadline - now)
        if now + latest_answer_after(ahead, rows, self._knobs, cost) <= answer_by:
            return  # sure enough without looking closer
        workers = len(self._loops)
        free_at = now
        if len(self._running) >= workers:
            free_at = min(start + cost.seconds(running) for start, running in self._running.values())
        answer_at = expected_answer_at(now, free_at, ahead, rows, workers, self._knobs, cost)
        if answer_at > answer_by:
            raise Unlikely(
                f"an answer would take about {answer_at - now:.3f} s; the deadline leaves "
                f"{ticket.deadline - now:.3f} s, of which {1 - ADMITTED_SHARE:.0%} are kept in reserve"
            )

    def _retry_after_seconds(self, rows: int) -> float:
        """When so many rows will have left the queue, at the rate at which the workers have been working."""
        rate = self._rows_per_second * len(self._loops)
        if rate <= 0:
            return 1.0
        excess = self._queue.rows + rows - self.capacity_rows
        return min(60.0, max(0.001, excess / rate))

    # --- deciding (under the lock) ------------------------------------------------------------------------------

    def _due(self, now: float, others_free: int) -> tuple[Group, Trigger] | float:
        """The group whose batch goes now and why, or when to look again (inf: when something arrives)."""
        look_again = math.inf
        for group in self._queue.oldest_first():
            decision = decide(self._waiting(group, others_free), now, self._knobs, self._costs.current)
            if isinstance(decision, str):
                return group, decision
            look_again = min(look_again, decision)
        return look_again

    def _waiting(self, group: Group, others_free: int) -> Waiting:
        cost = self._costs.current
        expected: tuple[Expectation, ...] = ()
        if cost is not None and others_free == 0 and self._knobs.policy == "adaptive":
            self._arrivals.weigh(group.requests, patience_seconds(group.requests, group.rows, cost))
            expected = self._arrivals.expect(group.requests)
        return Waiting(
            rows=group.rows,
            requests=group.requests,
            oldest_at=group.oldest_at,
            nearest_deadline=group.nearest_deadline,
            news_at=self._arrivals.news_at,
            expected=expected,
            idle_seconds=group.idle_seconds,
            other_worker_free=others_free > 0,
            draining=self._draining,
        )

    def _wake_if_due(self, now: float) -> None:
        """After an arrival: wakes one parked thread if a batch is due, or if it would sleep too long.

        How long a hold pays shrinks with every arrival; waking the thread each time only to set its alarm a little
        earlier costs more than it brings, so it is woken when the alarm would come in less than half the time. What
        must not be late (max_wait, deadlines) is never left to that.
        """
        due = self._due(now, others_free=self._free - 1)
        if isinstance(due, tuple):
            self._work.notify()
        elif due < self._wake_at:
            cost = self._costs.current
            must_go = min(
                must_go_at(self._waiting(group, self._free - 1), self._knobs, cost)
                for group in self._queue.oldest_first()
            )
            if must_go < self._wake_at or due - now < (self._wake_at - now) / 2:
                self._work.notify()

    # --- running (no lock held) ---------------------------------------------------------------------------------

    def _run(
        self, runner: Runner, key: Hashable, parts: Sequence[Part], trigger: Trigger, waits: tuple[float, ...]
    ) -> None:
        started = self._clock()
        for attempt in execute(runner, key, parts, self._clock):
            self._record(BatchRecord(key, trigger, attempt.rows, waits, attempt.seconds, attempt.error))
            waits = ()  # each request's wait is told once
            if attempt.error is None:
                self._hand_over(runner, attempt, self._clock() - started)
            elif attempt.final:
                self._fail(attempt.parts, attempt.error)
            started = self._clock()

    def _hand_over(self, runner: Runner, attempt: Attempt, busy_seconds: float) -> None:
        finished: list[Entry] = []
        with self._lock:
            self._costs.observe(attempt.rows, attempt.seconds)
            weight = _RATE_WEIGHT if self._rows_per_second else 1.0
            self._rows_per_second += weight * (attempt.rows / max(busy_seconds, 1e-6) - self._rows_per_second)
            for (entry, start, stop), result in zip(attempt.parts, attempt.results, strict=True):
                if entry.answered:
                    continue  # its deadline passed or its client left while the model ran
                ticket = entry.ticket
                ticket.model_seconds += attempt.seconds
                ticket.batch_rows = max(ticket.batch_rows, attempt.rows)
                if entry.add(start, stop, result):
                    self._settle(entry)
                    finished.append(entry)
        for entry in finished:
            if entry.parts is not None:
                self._join(runner, entry)
        self._send([entry.ticket for entry in finished])

    def _join(self, runner: Runner, entry: Entry) -> None:
        try:
            entry.ticket.result = runner.join(entry.pieces())
        except Exception as fault:
            log.exception("the parts of a split request could not be put together")
            entry.ticket.error = ModelFailed(f"the results could not be joined: {type(fault).__name__}: {fault}")

    # --- answering ----------------------------------------------------------------------------------------------

    def _settle(self, entry: Entry) -> None:
        """Under the lock: from now on the entry is the caller's to answer, and nobody else's."""
        entry.answered = True
        del self._live[entry.ticket]
        if entry.taken < entry.rows:
            self._queue.remove(entry)
        if not self._live:
            self._idle_since = self._clock()
            self._emptied.notify_all()

    def _fail(self, parts: Iterable[Part], error: BatcherError) -> None:
        with self._lock:
            failed = list(dict.fromkeys(entry for entry, _, _ in parts if not entry.answered))
            for entry in failed:
                self._settle(entry)
        self._answer_all(failed, error)

    def _refuse_late(self, entries: Iterable[Entry], now: float) -> None:
        for entry in (late := list(entries)):
            ticket = entry.ticket
            if ticket.deadline <= now:
                ticket.error = DeadlinePassed(f"no answer within {ticket.deadline - ticket.enqueued_at:.3f} s")
            else:
                ticket.error = Unlikely(f"the deadline leaves {ticket.deadline - now:.3f} s, less than the model takes")
            if entry.rows_back == 0 and not ticket.queue_seconds:
                ticket.queue_seconds = now - ticket.enqueued_at
        self._send([entry.ticket for entry in late])

    def _answer_all(self, entries: Sequence[Entry], error: BatcherError) -> None:
        for entry in entries:
            entry.ticket.error = error
        self._send([entry.ticket for entry in entries])

    def _send(self, tickets: Sequence[Ticket]) -> None:
        if not tickets:
            return
        try:
            self._deliver(tickets)
        except Exception:
            log.exception("handing %d finished requests over failed", len(tickets))

    def _record(self, record: BatchRecord) -> None:
        try:
            self._on_batch(record)
        except Exception:
            log.exception("recording a batch failed")

    # --- threads ------------------------------------------------------------------------------------------------

    def _serve(self, loop: _Loop) -> None:
        while True:
            try:
                loop.beat = self._clock()
                loop.runner.ready()
                if not self._await_batch(loop):
                    return
                self.run_once(loop.runner)
            except Exception:
                log.exception("a batcher loop failed and goes on")
                time.sleep(_REST_AFTER_FAULT_SECONDS)

    def _await_batch(self, loop: _Loop) -> bool:
        """Parks the thread until a batch is due; False once the batcher is closed."""
        with self._lock:
            loop.parked = True
            self._free += 1
            try:
                while not self._closed:
                    now = self._clock()
                    due = self._due(now, others_free=self._free - 1)
                    if isinstance(due, tuple):
                        return True
                    self._wake_at = due
                    self._work.wait(None if due == math.inf else max(0.0, due - now))
                return False
            finally:
                self._free -= 1
                self._wake_at = math.inf  # that alarm is gone; the next arrival wakes whoever is still parked
                loop.parked = False
                loop.beat = self._clock()

    def _watch(self) -> None:
        while not self._closed:
            try:
                wake_at = self.expire()
                with self._lock:
                    if self._closed:
                        return
                    now = self._clock()
                    wake_at = min(wake_at, self._next_deadline)
                    self._watchdog_wakes_at = wake_at
                    if wake_at > now:
                        self._deadlines.wait(None if wake_at == math.inf else wake_at - now)
            except Exception:
                log.exception("the deadline watchdog failed and goes on")
                time.sleep(_REST_AFTER_FAULT_SECONDS)
