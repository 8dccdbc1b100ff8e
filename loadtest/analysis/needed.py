"""How many arrivals a percentile needs before it says anything, and how long they take."""

import math
from typing import Final

from loadtest.analysis.order import percentile_name

BEYOND: Final = 10  # samples that must lie beyond a quantile, so that one odd request does not make it
_DIGITS: Final = 6  # 10 / (1 - 0.99) is 999.9999999999991 in binary


def samples_needed(q: float) -> int:
    """The fewest samples for the quantile `q`: ten beyond it, so 1,000 for p99.

    With independent samples that is also more than the ln 0.025 / ln q (368 for p99) below which not even the largest
    of them bounds the quantile from above with 97.5% confidence (the binomial order-statistic interval).
    """
    if not 0 < q < 1:
        raise ValueError(f"quantile {q} is not between 0 and 1")
    return math.ceil(round(BEYOND / (1 - q), _DIGITS))


def seconds_needed(q: float, rate: float) -> float:
    """How long the samples for the quantile `q` take at `rate` arrivals per second; +inf at rate 0."""
    return samples_needed(q) / rate if rate > 0 else math.inf


def told(q: float, rate: float) -> str:
    """ "1,000 samples are needed for p99; at 10/s that is 100 s"."""
    text = f"{samples_needed(q):,} samples are needed for {percentile_name(q)}"
    return text if rate <= 0 else f"{text}; at {rate:.3g}/s that is {math.ceil(seconds_needed(q, rate)):,} s"
