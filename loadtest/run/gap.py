"""Rows in the load's own time, those that a lost worker did not write, and those given up too soon to tell. Pure."""

import math
from typing import Final

import numpy as np

from loadtest.analysis.samples import SAMPLE, End, Rows, Samples
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


def decided_until(samples: Samples, seconds: float, given_up_at: float, threshold_seconds: float) -> float:
    """Up to when the arrivals of a run of `seconds` are good or bad for certain.

    Requests under way were given up at `given_up_at`. Those that were younger than the threshold then could still have
    been good; the measured part has to end before the first of them.
    """
    young = (samples.ends == End.IN_FLIGHT) & (samples.scheduled > given_up_at - threshold_seconds)
    instants = samples.scheduled[young]
    return min(seconds, float(instants[0])) if len(instants) else seconds
