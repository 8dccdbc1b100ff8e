"""When a run may end early: the objective has been broken for as long as was asked. Pure."""

import math
from typing import Final

from loadtest.run.watch import Standing

_LEAST_BUDGET: Final = 2  # bad arrivals that a window must be allowed, so that a few do not decide


def window_seconds(objective: float, for_seconds: float, rate: float) -> float:
    """The window to judge in: short beside the time that a breach has to last, and with arrivals enough in it."""
    return max(min(5.0, for_seconds / 2), _LEAST_BUDGET / ((1 - objective) * rate))


class Breach:
    """Whether the share of bad arrivals has been over the budget without a pause, judged at every look."""

    def __init__(self, objective: float, for_seconds: float, warmup_seconds: float) -> None:
        self._budget = 1 - objective
        self._for_seconds = for_seconds
        self._warmup = warmup_seconds
        self._since = math.nan  # when it began, in the load's own time

    def lasts(self, standing: Standing) -> bool:
        """Whether it has lasted long enough. The warm-up does not count: until it is over nothing is a breach."""
        judged = standing.recent_good + standing.recent_bad
        measured = standing.elapsed_seconds - standing.recent_seconds >= self._warmup
        if not (measured and standing.recent_bad > self._budget * judged):
            self._since = math.nan
            return False
        if math.isnan(self._since):
            self._since = standing.elapsed_seconds
        return standing.elapsed_seconds - self._since >= self._for_seconds
