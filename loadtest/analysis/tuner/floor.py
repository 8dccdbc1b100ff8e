"""The first question: does the objective hold at all, at a rate so low that nothing waits?"""

import math
from collections.abc import Generator
from enum import Enum, auto
from typing import Final

from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.proposer import GeneratorLimit, Proposer
from loadtest.analysis.tuner.trial import Ask, Measured

BELOW: Final = 8.0  # the first guess by so much
STEP: Final = 6.0  # down when it fails, up when the samples would take too long
SHARE: Final = 0.04  # of the budget: a floor trial that takes longer is put off until the rate's scale is known
STILL: Final = 0.85  # a percentile that falls by less when the rate falls by STEP has reached its floor
LEAST_ARRIVALS: Final = 15.0  # in a trial that is to fail: ten bad ones settle p99
LEAST_RATE: Final = 0.05  # requests per second
LEAST_PLAN_SEARCHING: Final = 3  # trials besides the confirmations without which nothing is found


class Ground(Enum):
    """What the floor trials showed."""

    HOLDS = auto()  # the objective held at some rate
    UNMET = auto()  # it failed, and a lower rate was no faster
    SLOW = auto()  # too few samples within the budget at any rate that the service can take
    GENERATOR = auto()  # the generator could not hold even the lowest rate


def ground(proposer: Proposer, knobs: Knobs, confirmations: int) -> Generator[Ask, Measured, Ground]:
    """Trials of `knobs` at low rates until one passes or none can."""
    budget = proposer.budget
    rate = proposer.first_rate / BELOW
    if budget.least_seconds(rate) > SHARE * budget.seconds:
        rate = min(proposer.first_rate, budget.least_seconds(1.0) / (SHARE * budget.seconds))
    unproven: float | None = None  # the largest rate that looked good on too few samples
    before = math.inf
    while True:
        short = max(SHARE * budget.seconds, LEAST_ARRIVALS / rate)
        seconds = min(budget.length_seconds("floor", rate), short)
        if seconds > budget.left_seconds:
            return Ground.SLOW
        try:
            measured = yield from proposer.trial(knobs, rate, "floor", proposer.seed, seconds=seconds, explore=True)
        except GeneratorLimit:
            if rate / STEP < LEAST_RATE:
                return Ground.GENERATOR
            rate /= STEP
            continue
        if measured.verdict == "PASS":
            return Ground.HOLDS
        if measured.verdict == "INVALID":  # on too few samples, that is
            failed = proposer.standing.of(knobs).failed_rate
            if measured.p99 <= budget.slo.threshold_seconds:
                unproven = measured.rate
            if failed is None:
                rate *= STEP
                continue
            if budget.least_plan_seconds(failed, confirmations, LEAST_PLAN_SEARCHING) > budget.left_seconds:
                return Ground.SLOW
            measured = yield from proposer.trial(knobs, rate, "floor", proposer.seed)  # in full
            return Ground.HOLDS if measured.verdict == "PASS" else Ground.UNMET
        if unproven is not None:
            if budget.least_plan_seconds(measured.rate, confirmations, LEAST_PLAN_SEARCHING) > budget.left_seconds:
                return Ground.SLOW
            measured = yield from proposer.trial(knobs, unproven, "floor", proposer.seed)
            return Ground.HOLDS if measured.verdict == "PASS" else Ground.UNMET
        if rate / STEP < LEAST_RATE or (before < math.inf and measured.p99 > STILL * before):
            return Ground.UNMET
        before = measured.p99
        rate /= STEP
