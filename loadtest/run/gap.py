"""Rows in the load's own time, and those that a lost worker did not write. Pure."""

import math
from typing import Final

import numpy as np

from loadtest.analysis.samples import SAMPLE, End, Rows
from loadtest.arrivals import Plan, Schedule

_ROUNDING_SECONDS: Final = 1e-6  # of an instant on a clock that has counted for a year
_MANY: Final = 100_000  # arrivals; drawing more than that again takes a while
_SURE: Final = 20  # so many are due on average and by chance none comes: not in the life of a machine


def since(began: float, rows: Rows) -> Rows:
    """A copy of the rows with their instants counted from `began`."""
    copied = np.array(rows)
    for column in ("scheduled", "sent", "done"):
        copied[column] -= began
    return copied


def gap(plan: Plan, last: float, until: float) -> Rows:
    """The arrivals of a lost worker's plan after `last`, the last that it made, and before `until`, as rows.

    Times are of the load; the worker took its plan up at `plan.begun`.
    """
    schedule = Schedule(plan, plan.begun)
    missed = []
    while schedule.next < until:
        instant = schedule.take()
        if instant > last + _ROUNDING_SECONDS:
            missed.append((instant, math.nan, math.nan, int(End.GAP), plan.share.index))
    return np.array(missed, dtype=SAMPLE)


def unmade(plan: Plan, last: float, until: float) -> Rows:
    """The same of a worker that nobody has missed: it hung too shortly before the end. None, as a rule, and then cheap.

    What is due within the clock's rounding of `until` may belong to either side of it.
    """
    if plan.trace is None and plan.curve.expected(until) > _MANY * plan.share.workers:
        due = plan.curve.expected(until) - plan.curve.expected(max(last, plan.begun))
        if due < _SURE * plan.share.workers:
            return np.empty(0, dtype=SAMPLE)
    return gap(plan, last, until - _ROUNDING_SECONDS)
