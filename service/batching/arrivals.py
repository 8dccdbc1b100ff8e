"""How soon the next request tends to come, learned at the moments when holding a batch is weighed.

Each such moment is one sample: with k requests waiting, did another come while holding could still have paid? That is
seen whether the batch was held or not, so nothing is ever held only to learn. Kept per size class of k, since callers
that come in a flock of 32 are followed closely up to the 32nd and by nobody after it.
"""

from typing import Final

from service.batching.policy import Expectation

WEIGHT: Final = 1 / 8  # of the newest sample: about the last dozen moments count
NEEDED: Final = 3  # samples of a class before it says anything


class _Class:
    __slots__ = ("probability", "samples", "seconds")

    def __init__(self) -> None:
        self.samples = 0
        self.probability = 0.0
        self.seconds = 0.0


class ArrivalEstimator:
    """Exponentially weighted odds and waiting time of the next arrival, by the number of requests that wait."""

    def __init__(self) -> None:
        self._classes: dict[int, _Class] = {}

    def observe(self, requests: int, gap_seconds: float, patience_seconds: float) -> None:
        """The next request came `gap_seconds` after the moment; holding could have paid for `patience_seconds`."""
        known = self._classes.setdefault(requests.bit_length(), _Class())
        known.samples += 1
        weight = max(WEIGHT, 1 / known.samples)  # a plain mean at first
        came = 1.0 if gap_seconds < patience_seconds else 0.0
        known.probability += weight * (came - known.probability)
        known.seconds += weight * (min(gap_seconds, patience_seconds) - known.seconds)

    def expect(self, requests: int) -> Expectation | None:
        known = self._classes.get(requests.bit_length())
        if known is None or known.samples < NEEDED:
            return None
        return Expectation(known.probability, known.seconds)
