"""Says what was just measured and how long the rest will take."""

import time
from collections.abc import Callable
from typing import Final

_SCALE_AFTER_SECONDS: Final = 20.0  # of measuring, before what it took corrects what was estimated


class Progress:
    """`planned_seconds` is the estimate for the whole run; each step says how much of it is now behind us."""

    def __init__(
        self, planned_seconds: float, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._planned = planned_seconds
        self._done = 0.0
        self._say = say
        self._clock = clock
        self._began = clock()

    def left_seconds(self) -> float:
        """What is left of the estimate, scaled by how long the part that is done really took."""
        took = self._clock() - self._began
        scale = took / self._done if self._done > 0 and took > _SCALE_AFTER_SECONDS else 1.0
        return max(0.0, self._planned - self._done) * scale

    def skip(self, seconds: float) -> None:
        """A part that will not happen."""
        self._planned = max(self._done, self._planned - seconds)

    def done(self, seconds: float, text: str) -> None:
        """A step that was estimated at `seconds` is over; `text` says what came of it."""
        self._done += seconds
        self._say(f"{text}  [{minutes(self.left_seconds())} left]")

    def say(self, text: str) -> None:
        """A line without the time."""
        self._say(text)


def minutes(seconds: float) -> str:
    """Such as 45 s or 6 min 20 s."""
    whole = round(seconds / 5) * 5 if seconds > 10 else round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
