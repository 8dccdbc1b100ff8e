"""How a run stands, read from its samples while generators write them. No clock of its own; nothing is written."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from loadtest.analysis.order import quantiles
from loadtest.analysis.samples import DROPPED, FAILED, SAMPLE, End, Rows
from loadtest.sample_file import SUFFIX, read_rows

RECENT_SECONDS: Final = 5.0
_QUANTILES: Final = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Standing:
    """A run at one moment. Counts are of the whole run; what is recent is of the last `recent_seconds`."""

    elapsed_seconds: float  # of the load's own time; NaN before it began
    offered: int
    completed: int
    failed: int
    dropped: int
    in_flight: int
    oldest_seconds: float
    recent_seconds: float
    recent_offered: int
    recent_completed: int  # that ended in that time
    recent_good: int  # due in that time and answered 2xx within the threshold
    recent_bad: int  # due in that time and known not to be: failed, dropped, late, or waiting for too long already
    p50: float
    p95: float
    p99: float  # of those due in that time, +∞ where there is no answer; in flight count by their age; NaN without any
    lateness_p99: float

    @property
    def started(self) -> bool:
        """Whether the load's time has begun."""
        return not math.isnan(self.elapsed_seconds)


class _File:
    """One generator's file, read on from where everything before has its outcome."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.began = math.nan
        self.closed = 0  # rows before this one have their outcome and are counted
        self.counts = np.zeros(len(End), dtype=np.int64)
        self._recent = 0  # rows before this one are no longer recent

    def look(self, since: float) -> tuple[Rows, Rows]:
        """Copies: the rows that were open at the last look and those that came; and the rows due since that instant."""
        self.began, rows = read_rows(self.path)
        while self._recent < len(rows):
            # In steps: a column of a memory map cannot be searched without reading all of it.
            step = rows["scheduled"][self._recent : self._recent + 4096]
            old = int(np.searchsorted(step, since))
            self._recent += old
            if old < len(step):
                break
        news = np.array(rows[self.closed :])
        recent = np.array(rows[self._recent :])
        open_rows = np.flatnonzero(news["end"] == End.IN_FLIGHT)
        ended = int(open_rows[0]) if len(open_rows) else len(news)
        self.counts += np.bincount(news["end"][:ended], minlength=len(End))
        self.closed += ended
        return news[ended:], recent


class Watch:
    """All sample files of a folder, looked at again and again at little cost."""

    def __init__(self, folder: Path, threshold_seconds: float, recent_seconds: float = RECENT_SECONDS) -> None:
        self._folder = folder
        self._threshold = threshold_seconds
        self._recent_seconds = recent_seconds
        self._files: dict[Path, _File] = {}

    def look(self, now: float) -> Standing:
        """How the run stands at `now`, an instant of the clock that the generators use; SampleFileError."""
        for path in sorted(self._folder.glob("*" + SUFFIX)):
            self._files.setdefault(path, _File(path))
        looks = [file.look(now - self._recent_seconds) for file in self._files.values()]
        open_rows = np.concatenate([np.zeros(0, SAMPLE), *(each for each, _ in looks)])
        recent = np.concatenate([np.zeros(0, SAMPLE), *(each for _, each in looks)])
        counts = sum((file.counts for file in self._files.values()), np.zeros(len(End), dtype=np.int64))
        counts = counts + np.bincount(open_rows["end"], minlength=len(End))
        # The last to begin is the last to end.
        began = max((file.began for file in self._files.values() if not math.isnan(file.began)), default=math.nan)
        waiting = open_rows[open_rows["end"] == End.IN_FLIGHT]["scheduled"]
        ok, in_flight = recent["end"] == End.OK, recent["end"] == End.IN_FLIGHT
        ages = np.where(in_flight, now - recent["scheduled"], math.inf)
        totals = np.where(ok, recent["done"] - recent["scheduled"], ages)
        lateness = np.where(recent["end"] == End.DROPPED, recent["done"], recent["sent"]) - recent["scheduled"]
        lateness = lateness[~np.isnan(lateness)]
        p50, p95, p99 = quantiles(totals, _QUANTILES) if len(totals) else (math.nan,) * 3
        return Standing(
            elapsed_seconds=now - began,
            offered=int(counts.sum()),
            completed=int(counts[End.OK]),
            failed=int(sum(counts[end] for end in FAILED)),
            dropped=int(sum(counts[end] for end in DROPPED)),
            in_flight=int(counts[End.IN_FLIGHT]),
            oldest_seconds=float(now - waiting.min()) if len(waiting) else 0.0,
            recent_seconds=self._recent_seconds if math.isnan(began) else min(self._recent_seconds, now - began),
            recent_offered=len(recent),
            recent_completed=int(ok.sum()),
            recent_good=int((ok & (totals <= self._threshold)).sum()),
            recent_bad=int((totals > self._threshold).sum()),
            p50=p50,
            p95=p95,
            p99=p99,
            lateness_p99=quantiles(lateness, (0.99,))[0] if len(lateness) else math.nan,
        )
