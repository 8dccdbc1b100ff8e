"""The bare model in a process of its own, kept for the whole run: what a call costs, how fast the machine is."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.forest import FILES
from bench.programs import ROOT, Program
from bench.servers import ONE_THREAD, Runtime

_ANSWER_SECONDS: Final = 120.0  # far beyond the import of scikit-learn and any order


@dataclass(frozen=True, slots=True)
class Calibration:
    """Seconds of the same two pieces of work, done between measurements."""

    python_seconds: float
    model_seconds: float


class Yardstick:
    """A context manager around `python -m bench.bare`."""

    def __init__(self, forest: Path, log: Path, cpus: Sequence[int]) -> None:
        argv = [sys.executable, "-m", "bench.bare", *(str(forest / name) for name in FILES.values())]
        self._program = Program(argv, {**os.environ, **ONE_THREAD}, ROOT, log, cpus, talks=True)

    def __enter__(self) -> "Yardstick":
        try:
            self._program.ask(None, _ANSWER_SECONDS)
        except BaseException:
            self._program.stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._program.stop()

    def calibrate(self) -> Calibration:
        return Calibration(**self._ask(calibrate=True))

    def p50_seconds(self, runtime: Runtime, seconds: float) -> float:
        """Median seconds of one call on one row."""
        return float(self._ask(time=runtime, rows=1, seconds=seconds)["p50_seconds"])

    def rows_per_second(self, runtime: Runtime, rows: int, seconds: float) -> float:
        """Rows a second in calls of that many rows."""
        answer = self._ask(time=runtime, rows=rows, seconds=seconds)
        return float(rows * answer["calls"] / answer["seconds"])

    def _ask(self, **order: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._program.ask(json.dumps(order), _ANSWER_SECONDS))
        return answer
