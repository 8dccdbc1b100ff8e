"""The highest rung that holds, of a ladder of rates with equal ratios between them. Pure: who climbs is told to it."""

from collections.abc import Callable, Sequence


def rungs(lowest: float, highest: float, ratio: float) -> list[float]:
    """Whole rates from `lowest` to `highest` at most, each `ratio` times the one before."""
    found = [lowest]
    while (rate := lowest * ratio ** len(found)) <= highest:
        found.append(rate)
    return [float(round(rate)) for rate in found]


def highest(rates: Sequence[float], holds: Callable[[float], bool]) -> float | None:
    """By bisection, which takes it that what holds at a rate holds at every lower one; None when none holds.

    Asks for no rate twice, and for about log2(len(rates)) of them.
    """
    low, high = -1, len(rates)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(rates[middle]):
            low = middle
        else:
            high = middle
    return rates[low] if low >= 0 else None
