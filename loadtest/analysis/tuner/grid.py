"""The exhaustive search, for comparison: every setting has its rate searched alone, and the best is confirmed."""

from loadtest.analysis.tuner import climb
from loadtest.analysis.tuner.proposer import Steps
from loadtest.analysis.tuner.tuner import FINAL_ERROR, Tuner


class Grid(Tuner):
    """Takes the same arguments as the `Tuner`; its budget has to be much larger."""

    def _compare(self) -> Steps:
        for knobs in self.space:
            yield from climb.bracket(self, knobs, self.first_rate)
            yield from climb.refine(self, knobs, FINAL_ERROR)
