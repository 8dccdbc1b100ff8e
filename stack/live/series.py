"""What Prometheus's HTTP API answers, as series; and what to call each of them. Pure."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stack.live.intervals import Window

_LEGEND_LABEL: Final = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}", re.ASCII)


class BadResult(ValueError):
    """The answer is not what Prometheus's API gives."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series: samples in time order, times in unix seconds. NaN is a sample without a meaning (0/0)."""

    labels: Mapping[str, str]
    times: tuple[float, ...]
    values: tuple[float, ...]

    def last(self) -> tuple[float, float] | None:
        """(time, value) of the last sample that is not NaN."""
        for time, value in zip(reversed(self.times), reversed(self.values), strict=True):
            if not math.isnan(value):
                return time, value
        return None

    @property
    def has_value(self) -> bool:
        return any(not math.isnan(value) for value in self.values)


def parse_result(data: Any) -> tuple[Series, ...]:
    """The `data` of an answer to `query` or `query_range`: a matrix, a vector or a scalar."""
    if not isinstance(data, Mapping):
        raise BadResult("the answer has no data")
    kind: Any = data.get("resultType")
    result: Any = data.get("result")
    try:
        if kind == "matrix":
            return tuple(_series(item["metric"], item["values"]) for item in result)
        if kind == "vector":
            return tuple(_series(item["metric"], [item["value"]]) for item in result)
        if kind == "scalar":
            return (_series({}, [result]),)
    except (KeyError, TypeError, ValueError) as error:
        raise BadResult(f"the answer is no {kind}: {error}") from error
    raise BadResult(f"the answer holds a {kind}; expected a matrix, a vector or a scalar")


def _series(metric: Mapping[str, str], samples: Sequence[Sequence[Any]]) -> Series:
    # float() reads Prometheus's NaN, +Inf and -Inf as they stand.
    return Series(dict(metric), tuple(float(at) for at, _ in samples), tuple(float(value) for _, value in samples))


def series_name(labels: Mapping[str, str], legend: str, expr: str, only: bool) -> str:
    """A series's name as Grafana gives it: by the legend's format, else by its labels, else by the query."""
    if legend and legend != "__auto":
        return _LEGEND_LABEL.sub(lambda match: labels.get(match[1], ""), legend).strip() or expr
    rest = {key: value for key, value in labels.items() if key != "__name__"}
    if not rest:
        return labels.get("__name__") or expr
    if legend == "__auto" and only and len(rest) == 1:
        return next(iter(rest.values()))
    inner = ", ".join(f'{key}="{value}"' for key, value in sorted(rest.items()))
    return f"{labels.get('__name__', '')}{{{inner}}}"


def on_grid(series: Series, window: Window, step: float) -> list[float | None]:
    """Values at every step of the window, None where there is no sample or no number: a gap, never a joined line."""
    count = round(window.seconds / step) + 1
    values: list[float | None] = [None] * count
    for time, value in zip(series.times, series.values, strict=True):
        index = round((time - window.start) / step)
        if 0 <= index < count and math.isfinite(value):
            values[index] = value
    return values


def grid_times(window: Window, step: float) -> list[float]:
    """The instants of `on_grid`, unix seconds."""
    return [window.start + index * step for index in range(round(window.seconds / step) + 1)]


def reduce(values: Sequence[float | None], calc: str) -> float | None:
    """One number for a series, by Grafana's name of the calculation; None when there is nothing to reduce."""
    numbers = [value for value in values if value is not None and not math.isnan(value)]
    if calc in ("last", "first"):
        edge = values[-1 if calc == "last" else 0] if values else None
        return None if edge is None or math.isnan(edge) else edge
    if calc in ("count", "countAll"):
        return float(len(numbers) if calc == "count" else len(values))
    if not numbers:
        return None
    if calc == "mean":
        return sum(numbers) / len(numbers)
    if calc == "median":
        ordered = sorted(numbers)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    if calc == "max":
        return max(numbers)
    if calc == "min":
        return min(numbers)
    if calc in ("sum", "total"):
        return sum(numbers)
    if calc == "range":
        return max(numbers) - min(numbers)
    if calc in ("diff", "delta"):
        return numbers[-1] - numbers[0]
    if calc == "firstNotNull":
        return numbers[0]
    return numbers[-1]  # lastNotNull, and whatever is not known here


CALC_NAMES: Final = {
    "lastNotNull": "last", "last": "last", "mean": "mean", "max": "max", "min": "min", "sum": "total", "total": "total",
    "median": "median", "firstNotNull": "first", "first": "first", "count": "count", "range": "range", "diff": "diff",
}  # fmt: skip
