"""The rate search of one setting: a geometric bracket, then trials where the slack is expected to be 1."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Final

from loadtest.analysis.tuner.capacity import USUAL_SLOPE
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.proposer import GeneratorLimit, Proposer, Steps
from loadtest.analysis.tuner.standing import TRUSTED

STEPS: Final = (2.0, 3.0)  # by which a rate is raised or lowered, the last again and again
SMALL_STEPS: Final = (1.15, 1.3, 2.0)  # where a good guess is at hand
COARSE: Final = 1.25  # bracket (high/low) at which short trials have done their part
LIMIT_COARSE: Final = 1.35  # the same below a rate that the generator cannot hold
SAME: Final = 1.03  # no trial for less than this
LEAST_RATE: Final = 0.05  # requests per second; nothing is searched below
REFINED_TRIALS: Final = 3  # at most, near the objective, of one setting
LENGTHENED: Final = 1.5  # each such trial over the one before
REFINE_SEED: Final = 100


def bracket(
    proposer: Proposer, knobs: Knobs, guess: float, *, coarse: float = COARSE, steps: Sequence[float] = STEPS
) -> Steps:
    """Short trials until `knobs` has a passed and a failed rate within a factor of `coarse`, starting at `guess`.

    Where the generator gives up first it ends with a pass at what the generator is trusted with instead of a failed
    rate; without a passed one below `LEAST_RATE`.
    """
    factors = chain(steps, repeat(steps[-1]))
    while True:
        rate = _next_rate(proposer, knobs, guess, coarse, factors)
        if rate is None:
            return
        try:
            yield from proposer.trial(knobs, rate, "bracket", proposer.seed)
        except GeneratorLimit as limit:
            if limit.rate <= LEAST_RATE:
                return


def _next_rate(proposer: Proposer, knobs: Knobs, guess: float, coarse: float, steps: Iterator[float]) -> float | None:
    known, limit = proposer.standing.of(knobs), proposer.standing.limit_of(knobs)
    low, high = known.passed_rate, known.failed_rate
    if low and high and high <= limit:
        return known.between() if high > coarse * low else None
    if low:
        if limit < math.inf:
            trusted = TRUSTED * limit
            if limit > LIMIT_COARSE * low:
                return math.sqrt(low * limit)
            return trusted if trusted > SAME * low else None
        return max(low * next(steps), guess)
    if high or limit < math.inf:
        rate = min(high or math.inf, limit) / next(steps)
        return rate if rate >= LEAST_RATE else None
    return guess


def refine(
    proposer: Proposer, knobs: Knobs, error: float, usual_slope: float = USUAL_SLOPE, most: int = REFINED_TRIALS
) -> Steps:
    """Trials near the objective, each longer, until its rate is known within the standard error `error` of ln(rate)."""
    done = sum(trial.ask.purpose == "bisect" for trial in proposer.standing.of(knobs).valid())
    while done < most:
        capacity = proposer.standing.of(knobs).capacity(usual_slope)
        if capacity is None or (done >= 2 and capacity.error <= error):
            return
        if capacity.rate >= TRUSTED * proposer.standing.limit_of(knobs):
            return  # as far as can be seen it carries what the generator can send
        seconds = proposer.budget.length_seconds("bisect", capacity.rate) * LENGTHENED**done
        try:
            yield from proposer.trial(
                knobs, capacity.rate, "bisect", proposer.seed + REFINE_SEED + done, seconds=seconds
            )
        except GeneratorLimit:
            return
        done += 1
