"""The cost of one model call, a·rows + b, learned from the time batches spend *in the model* and nothing else.

Queueing never enters, so load cannot make the model look slow. Samples are kept per size class (powers of two), an
upper quantile of each class makes one point, and the line goes through the points.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

KEPT_PER_CLASS: Final = 32
NEEDED_PER_CLASS: Final = 8
FORGET_AFTER: Final = 256  # samples; a class that has not been seen for so long says nothing about today
REFIT_EVERY: Final = 8  # samples
QUANTILE: Final = 0.75  # above the median, as deadlines depend on it; below the tail, which is scheduling noise


@dataclass(frozen=True, slots=True)
class CostModel:
    """Expected seconds of one model call: fixed_seconds + per_row_seconds · rows."""

    fixed_seconds: float
    per_row_seconds: float

    def seconds(self, rows: int) -> float:
        return self.fixed_seconds + self.per_row_seconds * rows


def upper_quantile(values: list[float], q: float) -> float:
    """The smallest value with at least the share `q` of all values at or below it."""
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]


def fit_line(points: list[tuple[float, float]]) -> CostModel:
    """Least squares of *relative* errors through (rows, seconds), with neither cost below zero.

    A call of 512 rows takes many times one of a single row; absolute errors would let it drown the fixed cost.
    """
    weights = [1.0 / max(seconds, 1e-9) ** 2 for _, seconds in points]
    total = sum(weights)
    mean_rows = sum(w * rows for w, (rows, _) in zip(weights, points, strict=True)) / total
    mean_seconds = sum(w * seconds for w, (_, seconds) in zip(weights, points, strict=True)) / total
    spread = sum(w * (rows - mean_rows) ** 2 for w, (rows, _) in zip(weights, points, strict=True))
    joint = sum(w * (rows - mean_rows) * (s - mean_seconds) for w, (rows, s) in zip(weights, points, strict=True))
    slope = joint / spread if spread > 0 else 0.0
    if slope <= 0:
        return CostModel(mean_seconds, 0.0)
    fixed = mean_seconds - slope * mean_rows
    if fixed >= 0:
        return CostModel(fixed, slope)
    through_zero = sum(w * rows * s for w, (rows, s) in zip(weights, points, strict=True))
    return CostModel(0.0, through_zero / sum(w * rows**2 for w, (rows, _) in zip(weights, points, strict=True)))


def _through(point: tuple[float, float], line: CostModel) -> CostModel:
    """The line scaled so that it passes through the point."""
    rows, seconds = point
    expected = line.fixed_seconds + line.per_row_seconds * rows
    scale = seconds / expected if expected > 0 else 1.0
    return CostModel(line.fixed_seconds * scale, line.per_row_seconds * scale)


class CostEstimator:
    """Learns a CostModel. `current` is None until two size classes are known.

    While only one is known, or the others contradict it, it moves the whole line up or down and leaves its shape: how
    the cost splits into fixed and per row cannot be told from one size.
    """

    def __init__(self) -> None:
        self.current: CostModel | None = None
        self._classes: dict[int, deque[tuple[int, int, float]]] = {}  # size class -> (sample number, rows, seconds)
        self._seen = 0

    def observe(self, rows: int, model_seconds: float) -> None:
        self._seen += 1
        samples = self._classes.setdefault(rows.bit_length(), deque(maxlen=KEPT_PER_CLASS))
        samples.append((self._seen, rows, model_seconds))
        if self._seen % REFIT_EVERY == 0 or self.current is None:
            self._refit(dict(self._points()), newest=rows.bit_length())

    def _refit(self, points: dict[int, tuple[float, float]], newest: int) -> None:
        if len(points) >= 2:
            fit = fit_line(list(points.values()))
            if fit.per_row_seconds > 0 or self.current is None:
                self.current = fit
                return
            # Larger batches that seem no slower: most likely their samples are from before the model slowed down.
        if newest in points and self.current is not None:
            self.current = _through(points[newest], self.current)

    def _points(self) -> Iterator[tuple[int, tuple[float, float]]]:
        for size_class, samples in self._classes.items():
            while samples and samples[0][0] <= self._seen - FORGET_AFTER:
                samples.popleft()
            if len(samples) >= NEEDED_PER_CLASS:
                rows = sum(n for _, n, _ in samples) / len(samples)
                yield size_class, (rows, upper_quantile([seconds for _, _, seconds in samples], QUANTILE))
