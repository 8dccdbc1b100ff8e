"""Queues with known answers, simulated fast enough for unit tests."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Queues:
    """Independent M/M/1 queues in their steady state, with one arrival per unit of time on average.

    `arrivals` and `sojourns` have a row for each queue and a column for each arrival.
    """

    load: float
    arrivals: Floats
    sojourns: Floats

    def quantile(self, q: float) -> float:
        """Of the sojourn time, which is exponential with the rate μ − λ."""
        return math.log(1 / (1 - q)) / (1 / self.load - 1)


@pytest.fixture(scope="session")
def queues() -> Callable[..., Queues]:
    """A function (load, queues, arrivals each, seed) → Queues."""

    def simulate(load: float, count: int, arrivals: int, seed: int) -> Queues:
        random = np.random.default_rng(seed)
        service = load * random.standard_exponential((count, arrivals))
        gaps = random.standard_exponential((count, arrivals))
        waits_at_all = random.random(count) < load
        first = np.where(waits_at_all, random.standard_exponential(count) / (1 / load - 1), 0.0)
        # Lindley: W[k+1] = max(0, W[k] + S[k] − A[k+1]), which is a walk less its lowest point so far (below −W[0]).
        walk = np.zeros((count, arrivals))
        np.cumsum(service[:, :-1] - gaps[:, 1:], axis=1, out=walk[:, 1:])
        lowest = np.minimum(np.minimum.accumulate(walk, axis=1), -first[:, None])
        return Queues(load, np.cumsum(gaps, axis=1), walk - lowest + service)

    return simulate
