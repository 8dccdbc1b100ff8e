"""The rate search of one setting: a geometric bracket, then trials where the slack is expected to be 1."""

import math
from typing import Final

from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.proposer import GeneratorLimit, Proposer, Steps

STEPS: Final = (2.0, 3.0, 4.0)  # by which a rate that passed is raised, the last again and again
COARSE: Final = 1.3  # bracket (high/low) at which short trials have done their part
LEAST_RATE: Final = 0.05  # requests per second; nothing is searched below
REFINED_TRIALS: Final = 6  # at most, near the objective, of one setting


def bracket(proposer: Proposer, knobs: Knobs, guess: float, coarse: float = COARSE) -> Steps:
    """Short trials until `knobs` has a passed and a failed rate within a factor of `coarse`, starting at `guess`.

    Ends without a failed rate where the generator gives up first, and without a passed one below `LEAST_RATE`.
    """
    steps = iter(STEPS)
    step = next(steps)
    while True:
        known = proposer.frontier(knobs)
        low, high = known.passed_rate, known.failed_rate
        limit = proposer.generator_limit
        if low and high:
            if high <= coarse * low:
                return
            rate = known.between()
        elif low:
            if limit is not None:
                if limit <= coarse * low:
                    return
                rate = math.sqrt(low * limit)
            else:
                rate = low * step
                step = next(steps, STEPS[-1])
        elif high:
            rate = high / step
            step = next(steps, STEPS[-1])
            if rate < LEAST_RATE:
                return
        else:
            rate = guess if limit is None or guess < limit else limit / 2
        try:
            yield from proposer.trial(knobs, rate, "bracket", proposer.seed)
        except GeneratorLimit:
            if not low and rate <= LEAST_RATE:
                return


def refine(proposer: Proposer, knobs: Knobs, error: float, most: int = REFINED_TRIALS) -> Steps:
    """Longer trials near the objective until its rate is known within the standard error `error`, in ln(rate)."""
    done = sum(trial.ask.purpose == "bisect" for trial in proposer.frontier(knobs).valid())
    while done < most:
        capacity = proposer.frontier(knobs).capacity()
        if capacity is None or (done >= 2 and capacity.error <= error):
            return
        rate = capacity.rate
        if proposer.generator_limit is not None and rate >= proposer.generator_limit:
            return
        yield from proposer.trial(knobs, rate, "bisect", proposer.seed + 100 + done)
        done += 1
