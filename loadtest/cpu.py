"""How much of a core this process uses: a generator that has none left over cannot be punctual."""

from collections.abc import Callable
from typing import Final

WINDOW_SECONDS: Final = 1.0


class CpuShare:
    """Share of one core, from two clocks in seconds: the wall's and the process's own CPU time."""

    def __init__(self, clock: Callable[[], float], cpu_clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._began = self._looked = (clock(), cpu_clock())
        self._recent = 0.0

    def begin(self) -> None:
        """A run starts."""
        self._began = self._looked = (self._clock(), self._cpu_clock())
        self._recent = 0.0

    def recent(self) -> float:
        """Share over the last second or more; looks that come sooner see the same figure."""
        at = (self._clock(), self._cpu_clock())
        if at[0] - self._looked[0] >= WINDOW_SECONDS:
            self._recent, self._looked = _share(self._looked, at), at
        return self._recent

    def of_run(self) -> float:
        """Share since the run started."""
        return _share(self._began, (self._clock(), self._cpu_clock()))


def _share(start: tuple[float, float], end: tuple[float, float]) -> float:
    return (end[1] - start[1]) / (end[0] - start[0]) if end[0] > start[0] else 0.0
