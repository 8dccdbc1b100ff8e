"""What a tighter or a looser SLO costs or gives, read off the lines through the trials."""

import math
from dataclasses import dataclass, replace
from typing import Final

from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.frontier import Frontier
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.standing import TIE

THRESHOLDS_SECONDS: Final = tuple(step * 10.0**power for power in range(-4, 2) for step in (1, 2, 5))
TIGHTEST, LOOSEST = 0.09, 4.1  # of the SLO's threshold: beyond, the search has looked at too little


@dataclass(frozen=True, slots=True)
class Price:
    """The largest rate inside a threshold, of whichever setting is best for it."""

    threshold_seconds: float
    rate: float | None  # None: no trial was that fast
    share: float | None  # of the rate under the SLO itself
    knobs: Knobs | None
    at_least: bool = False  # nothing that was measured bounds it from above


def prices(found: Found) -> list[Price]:
    """Under the SLO's threshold and the round ones around it, ascending; empty if nothing held the SLO itself.

    Shares are read off the lines through the trials; rates are those shares of the rate that was found, so that the
    SLO's own line says what the answer says.
    """
    threshold = found.slo.threshold_seconds
    own = _best(found, threshold)
    if own is None or found.rate is None or found.knobs is None:
        return []
    near = [t for t in THRESHOLDS_SECONDS if TIGHTEST <= t / threshold <= LOOSEST and not math.isclose(t, threshold)]
    priced: list[Price] = []
    for each in sorted([*near, threshold]):
        if each == threshold:
            price = Price(threshold, found.rate, 1.0, found.knobs)
        else:
            price = _price(found, each, found.rate / own[0])
        if priced and (priced[-1].share or 0) > (price.share or 0):  # what holds a threshold holds a looser one
            price = replace(priced[-1], threshold_seconds=each, at_least=True)
        priced.append(price)
    return priced


def _price(found: Found, threshold_seconds: float, confirmed: float) -> Price:
    """With rates `confirmed` times what the lines say."""
    own, best = _best(found, found.slo.threshold_seconds), _best(found, threshold_seconds)
    if best is None or own is None:
        return Price(threshold_seconds, None, None, None)
    rate, knobs, at_least = best
    looser = threshold_seconds > found.slo.threshold_seconds  # settings that would gain there were given up before
    return Price(threshold_seconds, rate * confirmed, rate / own[0], knobs, at_least or looser)


def _best(found: Found, threshold_seconds: float) -> tuple[float, Knobs, bool] | None:
    """The smallest setting within a tie of the best, as the search chooses."""
    rates = [
        (crossing[0], frontier.knobs, crossing[1])
        for frontier in found.frontiers
        if (crossing := _crossing(frontier, threshold_seconds)) is not None
    ]
    most = max((rate for rate, _, _ in rates), default=0.0)
    near = [each for each in rates if each[0] >= most * (1 - TIE)]
    return min(near, key=lambda each: (each[1].size, -each[0]), default=None)


def _crossing(frontier: Frontier, threshold_seconds: float) -> tuple[float, bool] | None:
    """Where the line through the trials leaves the threshold, and whether all that is known is that it is no lower.

    Straight in ln(rate) and 1/p99, in which a queue's tail is nearly straight (see `tuner.capacity`). Of a trial that
    was ended early the percentile is too high, so no line is drawn to one.
    """
    tried = frontier.tried()
    slacks = [sum(trial.slack(threshold_seconds)[0] for trial in trials) / len(trials) for _, trials in tried]
    inside = [place for place, slack in enumerate(slacks) if slack >= 1]
    if not inside:
        return None
    last = inside[-1]
    if last == len(tried) - 1:
        return tried[last][0], True
    rate, next_rate = tried[last][0], tried[last + 1][0]
    if threshold_seconds > frontier.threshold_seconds and any(trial.ended_early for trial in tried[last + 1][1]):
        return rate, True
    share = (slacks[last] - 1) / (slacks[last] - slacks[last + 1])
    return rate * (next_rate / rate) ** share, False
