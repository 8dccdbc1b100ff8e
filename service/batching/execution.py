"""One batch through the model: put in, cut up by request, and halved when it fails until the culprit stands alone."""

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from service.batching.errors import BatcherError, ModelFailed, WrongResultLength
from service.batching.queue import Part
from service.batching.records import Rows, Runner

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of the model. Either `results` has the rows of each part, or `error` says why there are none."""

    parts: Sequence[Part]
    rows: int
    seconds: float  # the model's own; for a failed attempt, how long it took in all
    results: Sequence[Rows] = ()
    error: BatcherError | None = None
    final: bool = True  # False: the parts of this failed attempt are tried again in halves


def execute(runner: Runner, key: Hashable, parts: Sequence[Part], clock: Callable[[], float]) -> Iterator[Attempt]:
    """Attempts until each part has its final one. Parts that were answered meanwhile (deadline, client gone) drop out.

    A dead worker is not tried again with the same rows (its replacement might follow it), and neither is a model that
    miscounts its rows (no part of its answer can be trusted).
    """
    pending = [parts]
    while pending:
        batch = [part for part in pending.pop() if not part[0].answered]
        if not batch:
            continue
        rows = sum(stop - start for _, start, stop in batch)
        started = clock()
        try:
            results, seconds = _call(runner, key, batch, rows)
        except BatcherError as error:
            halve = len(batch) > 1 and isinstance(error, ModelFailed) and not isinstance(error, WrongResultLength)
            yield Attempt(batch, rows, clock() - started, error=error, final=not halve)
            if halve:
                middle = len(batch) // 2
                pending += [batch[middle:], batch[:middle]]  # the older half comes off first
        else:
            yield Attempt(batch, rows, seconds, results)


def _call(runner: Runner, key: Hashable, parts: Sequence[Part], rows: int) -> tuple[list[Rows], float]:
    """The model's rows cut up by part, and its own seconds. Whatever goes wrong comes out as a BatcherError."""
    try:
        inputs = [
            entry.ticket.rows if stop - start == entry.rows else entry.ticket.rows[start:stop]
            for entry, start, stop in parts
        ]
        result, seconds = runner.run(key, inputs)
        if len(result) != rows:
            raise WrongResultLength(f"the model returned {len(result)} rows for {rows}; expected one for each")
        cuts: list[Rows] = []
        at = 0
        for _, start, stop in parts:
            cuts.append(result[at : at + stop - start])
            at += stop - start
        return cuts, seconds
    except BatcherError:
        raise
    except Exception as fault:
        log.exception("a batch could not be put together, run or cut up")
        raise ModelFailed(f"the model failed: {type(fault).__name__}: {fault}") from fault
