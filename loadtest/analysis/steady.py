"""Whether the measured part of a run was steady: no backlog that grows, no warm-up that goes on in it.

Only for arrivals at a constant rate, even or Poisson: with the others latency and backlog change on purpose. Both
tests look at spans of equal length, at a nominal false alarm rate of 1%; on queues at 50 to 90% load a simulation found
1% for a backlog that rises, none for one that grows as the verdict means it, and 2 to 5% for the warm-up, a mere note.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from loadtest.analysis.intervals import student_t
from loadtest.analysis.samples import DROPPED, Floats, Samples

SPANS: Final = 20
LEAST_ARRIVALS: Final = 10 * SPANS
MATERIAL_GROWTH: Final = 0.02  # of the offered arrivals: so many were not served in their time
MATERIAL_WARMTH: Final = 1.2  # times the later mean latency

_FALSE_ALARMS: Final = 0.01
_LOOKS: Final = 10  # at the backlog, in each span
_MOST_CORRELATED: Final = 0.9


@dataclass(frozen=True, slots=True)
class Steadiness:
    """What was seen, in words without a full stop."""

    grows: bool  # significantly, and so much that served is clearly less than offered
    backlog_first: float  # mean requests in flight in the first span
    backlog_last: float
    backlog: str  # what the backlog did
    warming: bool  # the first span is slower than the later ones
    notes: tuple[str, ...] = ()  # whole sentences

    def as_dict(self) -> dict[str, Any]:
        """As it stands in result.json."""
        return {
            "grows": self.grows,
            "backlog_first": self.backlog_first,
            "backlog_last": self.backlog_last,
            "backlog": self.backlog,
            "warming": self.warming,
        }


def steadiness(samples: Samples, start: float, end: float) -> Steadiness | None:
    """What the arrivals due from `start` up to `end` show; None when they are too few to say.

    `samples` is the whole run: what was under way at `start` belongs to the backlog.
    """
    measured = samples.between(start, end)
    if len(measured) < LEAST_ARRIVALS or end <= start:
        return None
    levels = _backlog(samples, start, end)
    significant = _rises(levels)
    first, last = float(levels[0]), float(levels[-1])
    unserved = last - first
    grows = significant and unserved >= MATERIAL_GROWTH * len(measured)
    rose = f"from {first:.3g} to {last:.3g} requests in flight in {end - start:.3g} s"
    notes = []
    if grows:
        backlog = (
            f"the backlog grew {rose}: {unserved / len(measured):.1%} of {len(measured):,} arrivals were not served in "
            "their time, so the service cannot keep up with this rate"
        )
    elif significant:
        backlog = f"the backlog rose {rose}, which is too little to say that the service cannot keep up"
        notes.append(f"{backlog[0].upper()}{backlog[1:]}; a longer run would tell.")
    else:
        backlog = f"the backlog did not grow: {first:.3g} requests in flight at first, {last:.3g} at last"
    warm = _warming(measured, start, end)
    return Steadiness(grows, first, last, backlog, bool(warm), (*notes, *warm))


def _backlog(samples: Samples, start: float, end: float) -> Floats:
    """Mean requests in flight in each span."""
    looks = start + (np.arange(SPANS * _LOOKS) + 0.5) * (end - start) / (SPANS * _LOOKS)
    taken = ~np.isin(samples.ends, DROPPED)
    came = np.searchsorted(samples.scheduled[taken], looks, side="right")
    done = np.sort(samples.rows["done"][taken])  # NaN, still in flight, comes last
    went = np.searchsorted(done, looks, side="right")
    levels: Floats = (came - went).reshape(SPANS, _LOOKS).mean(axis=1)
    return levels


def _rises(levels: Floats) -> bool:
    """Whether the levels rise significantly.

    Least squares; the slope's variance is corrected for the lag-1 correlation of what the line leaves over.
    """
    steps = np.arange(len(levels)) - (len(levels) - 1) / 2
    squares = float(steps @ steps)
    slope = float(steps @ levels) / squares
    rest = levels - levels.mean() - slope * steps
    rest_squares = float(rest @ rest)
    if rest_squares <= 1e-12 * float(levels @ levels):
        return slope > 0
    lag = float(rest[1:] @ rest[:-1]) / rest_squares
    lag = min(max(lag + (1 + 3 * lag) / len(levels), 0.0), _MOST_CORRELATED)
    degrees = len(levels) - 2
    error = math.sqrt(rest_squares / degrees / squares * (1 + lag) / (1 - lag))
    return slope / error > student_t(1 - _FALSE_ALARMS, degrees)


def _warming(measured: Samples, start: float, end: float) -> tuple[str, ...]:
    """A note if answers in the first span were slower than in the second half; logarithms, as latencies are skewed."""
    edges = np.linspace(start, end, SPANS + 1)
    means = []
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        answered = measured.between(first, last).success_seconds
        if not len(answered) or float(answered.mean()) <= 0:
            return ()
        means.append(float(answered.mean()))
    later = np.log(means[SPANS // 2 :])
    usual = float(np.exp(later.mean()))
    spread = float(later.std(ddof=1)) * math.sqrt(1 + 1 / len(later))
    limit = student_t(1 - _FALSE_ALARMS, len(later) - 1) * spread
    if math.log(means[0] / usual) <= max(limit, math.log(MATERIAL_WARMTH)):
        return ()
    slow = next((place for place, mean in enumerate(means) if mean <= usual * math.exp(spread)), SPANS // 2)
    seconds = slow * (end - start) / SPANS
    return (
        f"The warm-up was too short: answers in the first {(end - start) / SPANS:.3g} s measured took "
        f"{1000 * means[0]:.3g} ms on average and {1000 * usual:.3g} ms later; {seconds:.3g} s more would do.",
    )
