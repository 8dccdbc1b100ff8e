"""What a search says about trades: the knee, the price of another SLO, replicas for a rate, what batching gives."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.frontier import Frontier
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Measured

THRESHOLDS_SECONDS: Final = tuple(step * 10.0**power for power in range(-4, 2) for step in (1, 2, 5))
TIGHTEST, LOOSEST = 0.1, 4.0  # of the SLO's threshold: beyond, the search has looked at too little
HEADROOMS: Final = (0.0, 0.2, 0.4)
TIE: Final = 1.05  # a factor between rates below which the search prefers the smaller batch


def knee(frontier: Frontier) -> Measured | None:
    """The trial with the most throughput per latency, rate/p99: below it load is nearly free, above it the tail pays.

    Kleinrock's power with the tail in place of the mean (L. Kleinrock, "Power and deterministic rules of thumb for
    probabilistic problems in computer communications", ICC 1979). None with fewer than three rates: no bend is seen.
    """
    if len(frontier.tried()) < 3:
        return None
    trials = [trial for trial in frontier.valid() if trial.verdict == "PASS" and 0 < trial.p99 < math.inf]
    return max(trials, key=lambda trial: trial.rate / trial.p99, default=None)


@dataclass(frozen=True, slots=True)
class Price:
    """The largest rate inside a threshold, of whichever setting is best for it."""

    threshold_seconds: float
    rate: float | None  # None: no trial was that fast
    share: float | None  # of the rate under the SLO itself
    knobs: Knobs | None
    at_least: bool = False  # no slower trial bounds it from above


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
            price = replace(priced[-1], threshold_seconds=each)
        priced.append(price)
    return priced


def _price(found: Found, threshold_seconds: float, confirmed: float) -> Price:
    """With rates `confirmed` times what the lines say."""
    own, best = _best(found, found.slo.threshold_seconds), _best(found, threshold_seconds)
    if best is None or own is None:
        return Price(threshold_seconds, None, None, None)
    rate, knobs, at_least = best
    return Price(threshold_seconds, rate * confirmed, rate / own[0], knobs, at_least)


def _best(found: Found, threshold_seconds: float) -> tuple[float, Knobs, bool] | None:
    """The smallest setting within a tie of the best, as the search chooses."""
    rates = [
        (crossing[0], frontier.knobs, crossing[1])
        for frontier in found.frontiers
        if (crossing := _crossing(frontier, threshold_seconds)) is not None
    ]
    most = max((rate for rate, _, _ in rates), default=0.0)
    near = [each for each in rates if each[0] >= most / TIE]
    return min(near, key=lambda each: (each[1].size, -each[0]), default=None)


def _crossing(frontier: Frontier, threshold_seconds: float) -> tuple[float, bool] | None:
    """Where the line through the trials leaves the threshold, and whether it never does.

    Straight in ln(rate) and 1/p99, in which a queue's tail is nearly straight (see `tuner.capacity`).
    """
    points = [
        (math.log(rate), sum(trial.slack(threshold_seconds)[0] for trial in trials) / len(trials))
        for rate, trials in frontier.tried()
    ]
    inside = [place for place, (_, slack) in enumerate(points) if slack >= 1]
    if not inside:
        return None
    last = inside[-1]
    if last == len(points) - 1:
        return math.exp(points[last][0]), True
    (x, slack), (next_x, next_slack) = points[last], points[last + 1]
    return math.exp(x + (next_x - x) * (slack - 1) / (slack - next_slack)), False


@dataclass(frozen=True, slots=True)
class Replicas:
    """How many services like this one carry a rate."""

    rate: float
    counts: tuple[int, ...]  # for each of HEADROOMS
    spare: int  # so that the rate is carried while one of them is gone


def replicas(rate_each: float, target_rate: float) -> Replicas:
    """For `target_rate`, each of them carrying `rate_each` at most."""
    counts = tuple(math.ceil(round(target_rate / (rate_each * (1 - headroom)), 9)) for headroom in HEADROOMS)
    return Replicas(target_rate, counts, counts[0] + 1)


def usual_targets(rate_each: float, count: int = 4) -> list[float]:
    """Round rates above that of one replica."""
    ladder = [step * 10.0**power for power in range(-2, 8) for step in (1, 2, 5)]
    return [rate for rate in ladder if rate > rate_each][:count]


@dataclass(frozen=True, slots=True)
class Batching:
    """What batches carry and what single rows do, requests per second; None where nothing was tried."""

    batched_rate: float | None
    single_rate: float | None  # where single rows only failed, the smallest rate at which they did
    single_failed: bool
    fixed_seconds: float | None  # of a run of the model, as the service has learned it
    per_row_seconds: float | None

    @property
    def gain(self) -> float | None:
        return self.batched_rate / self.single_rate if self.batched_rate and self.single_rate else None

    @property
    def helps(self) -> bool | None:
        return None if self.gain is None else self.gain >= TIE


def batching(found: Found) -> Batching | None:
    """None if nothing held the SLO."""
    if found.rate is None or found.knobs is None:
        return None
    trials = found.confirmations or found.trials
    fixed, per_row = (_learned(trials, name) for name in ("cost_fixed", "cost_per_row"))
    single = [frontier for frontier in found.frontiers if frontier.knobs.max_batch_rows == 1]
    batched = [frontier for frontier in found.frontiers if frontier.knobs.max_batch_rows > 1]
    single_rate, batched_rate = _passed(single), _passed(batched)
    if found.knobs.max_batch_rows == 1:
        single_rate = found.rate
    else:
        batched_rate = found.rate
    if single_rate is not None:
        return Batching(batched_rate, single_rate, False, fixed, per_row)
    failed = min((each.failed_rate for each in single if each.failed_rate), default=None)
    return Batching(batched_rate, failed, failed is not None, fixed, per_row)


def _passed(frontiers: Sequence[Frontier]) -> float | None:
    return max((each.passed_rate for each in frontiers if each.passed_rate), default=None)


def _learned(trials: Sequence[Measured], name: str) -> float | None:
    return next((trial.stages[name] for trial in reversed(trials) if name in trial.stages), None)
