"""Where a setting's percentile meets the objective: the rate at which the slack is 1, from all that was measured.

The slack is threshold/p99. In a queue it falls almost linearly with the rate, as latency is the reciprocal of the spare
capacity (M/M/1: p99 = ln 100/(μ−λ), exactly linear); so a straight line through the trials near the objective uses what
each of them says, where a plain pass or fail would keep one bit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loadtest.analysis.tuner.trial import Measured

WINDOW: Final = 0.25  # in ln(rate): how far from the objective a trial may be and still belong to the line
LARGEST_SLACK: Final = 2.5  # beyond, the line is known to bend: latency stops falling at the bare service time
USUAL_SLOPE: Final = 7.0  # of the slack per ln(rate): a load of some 88% of what the service can do
LEAST_SLOPE: Final = 0.7
LARGEST_SLOPE: Final = 60.0
LEAST_ERROR: Final = 0.015  # of a slack: no trial is believed to be better than that
TAIL: Final = 0.22  # 1/ln 100: how much of p99 the tail grows by when e times as many arrivals are beyond it
CUT_SHORT_ERROR: Final = 0.1  # of a slack that was told from how soon a trial could no longer pass


@dataclass(frozen=True, slots=True)
class Capacity:
    """The rate at which the objective is just met, an estimate."""

    rate: float
    error: float  # its standard error, in ln(rate)
    slope: float  # how fast the slack falls there, per ln(rate); positive
    trials: int  # that it rests on

    def slack(self, rate: float) -> float:
        """What is expected at another rate nearby."""
        return 1 - self.slope * math.log(rate / self.rate)


def slack(trial: Measured, threshold_seconds: float) -> tuple[float, float]:
    """Slack of a trial and its error.

    The mean of a reciprocal is above the reciprocal of the mean, by the square of the relative error: that is taken
    off. A trial that was cut short has no percentile of its own: having used up what may be bad in the share f of its
    time, it was on the way to 1/f as much, so with an exponential tail p99 would have been 1 + ln(1/f)/ln 100
    thresholds.
    """
    if trial.ended_early and trial.verdict == "FAIL":
        share = max(trial.offered / trial.ask.expected_arrivals, 0.01)
        return 1 / (1 + TAIL * (math.log(1 / share) + 0.2)), CUT_SHORT_ERROR / math.sqrt(share)
    point, error = trial.slack(threshold_seconds)
    return point - error**2 / max(point, 0.5), math.hypot(error, LEAST_ERROR)


def variance_seconds(trials: Sequence[Measured], threshold_seconds: float) -> float:
    """Variance of the slack times the length of a trial, which does not depend on the length; 0 without trials.

    A trial that by luck met no burst has both a good percentile and a narrow interval, and would weigh most: so what
    all trials near the objective say together is the least that each of them is doubted by.
    """
    whole = [trial for trial in trials if trial.verdict != "INVALID" and not trial.ended_early and trial.p99 < math.inf]
    if not whole:
        return 0.0
    return sum(trial.slack(threshold_seconds)[1] ** 2 * trial.ask.seconds for trial in whole) / len(whole)


def estimate(
    trials: Sequence[Measured], threshold_seconds: float, around: float, usual_slope: float = USUAL_SLOPE
) -> Capacity | None:
    """From the trials within the window of the rate `around`; None without any.

    A Bayesian straight line: the slope starts from `usual_slope`, give or take as much, so that one trial already gives
    an answer, and each further trial corrects it.
    """
    centre = math.log(around)
    found = None
    for _ in range(3):
        near = [
            trial for trial in trials if trial.verdict != "INVALID" and abs(math.log(trial.rate) - centre) <= WINDOW
        ]
        common = variance_seconds(near, threshold_seconds)
        points = []
        for trial in near:
            point, error = slack(trial, threshold_seconds)
            error = max(error, math.sqrt(common / trial.ask.seconds))
            points.append((math.log(trial.rate) - centre, point, error))
        points = [point for point in points if point[1] <= LARGEST_SLACK]
        if not points:
            return found
        found = _line(points, centre, usual_slope)
        nearer = min(max(math.log(found.rate), centre - WINDOW / 2), centre + WINDOW / 2)
        if abs(nearer - centre) < 1e-3:
            break
        centre = nearer
    return found


def _line(points: Sequence[tuple[float, float, float]], centre: float, usual_slope: float) -> Capacity:
    """Weighted least squares of slack = level − slope·x, with a prior on the slope alone."""
    weights = [1 / error**2 for _, _, error in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _, _) in zip(weights, points, strict=True)) / total
    level = sum(w * y for w, (_, y, _) in zip(weights, points, strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _, _) in zip(weights, points, strict=True))
    joint = sum(w * (x - mean_x) * (y - level) for w, (x, y, _) in zip(weights, points, strict=True))
    prior = 1 / usual_slope**2
    slope = (prior * usual_slope - joint) / (prior + spread)
    slope = min(max(slope, LEAST_SLOPE), LARGEST_SLOPE)
    away = (level - 1) / slope
    slope_error = 1 / math.sqrt(prior + spread)
    error = math.hypot(1 / math.sqrt(total), away * slope_error) / slope
    return Capacity(math.exp(centre + mean_x + away), error, slope, len(points))
