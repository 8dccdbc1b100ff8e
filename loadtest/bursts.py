"""Makes a recording of arrivals such as an interactive service sees: little, then a lot at once. Pure but for main.

python -m loadtest.bursts > loadtest/data/bursty.csv
"""

import random
from collections.abc import Iterator
from typing import Final

SEED: Final = 4
SECONDS: Final = 60.0
_QUIET_RATE: Final = 5.0  # arrivals per second between bursts, and beside them
_BURST_EVERY_SECONDS: Final = 5.0  # on average; when one begins knows nothing of the others
_BURST_MEAN_SIZE: Final = 40.0
_BURST_RATE: Final = 250.0


def arrivals(seed: int = SEED, seconds: float = SECONDS) -> list[float]:
    """Instants from 0 to `seconds`, in milliseconds' steps: Poisson arrivals, and bursts of exponential size."""
    draw = random.Random(f"{seed}/bursts")
    instants = list(_poisson(draw, _QUIET_RATE, seconds))
    for begin in _poisson(draw, 1 / _BURST_EVERY_SECONDS, seconds):
        lasts = draw.expovariate(_BURST_RATE / _BURST_MEAN_SIZE)
        instants += [begin + instant for instant in _poisson(draw, _BURST_RATE, lasts)]
    ordered = sorted(instant for instant in instants if instant < seconds)
    return [round(instant - ordered[0], 3) for instant in ordered]


def _poisson(draw: random.Random, rate: float, seconds: float) -> Iterator[float]:
    instant = draw.expovariate(rate)
    while instant < seconds:
        yield instant
        instant += draw.expovariate(rate)


def as_csv(instants: list[float]) -> str:
    """The file, with a word on where it comes from."""
    said = (
        "# Made by loadtest/bursts.py, nobody's data: Poisson arrivals at "
        f"{_QUIET_RATE:g}/s and, every {_BURST_EVERY_SECONDS:g} s on average, a burst at {_BURST_RATE:g}/s.\n"
    )
    return said + "seconds\n" + "".join(f"{instant:.3f}\n" for instant in instants)


if __name__ == "__main__":
    print(as_csv(arrivals()), end="")
