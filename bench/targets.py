"""Each target, what was found, and whether it is met. Pure. What was not measured is never called met."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bench.reading import Cell, best
from bench.servers import OURS, Runtime

SLO_SECONDS: Final = 0.05
TIGHT_SECONDS: Final = 0.01

# (runtime, peer's family, p99 bound in seconds, least ratio of our rate to the peer's)
RATIOS: Final[tuple[tuple[Runtime, str, float, float], ...]] = (
    ("sklearn", "mosec", SLO_SECONDS, 1.8),
    ("sklearn", "mosec_lean", SLO_SECONDS, 1.2),
    ("sklearn", "triton", SLO_SECONDS, 5.0),
    ("sklearn", "litserve", SLO_SECONDS, 10.0),
    ("sklearn", "bentoml", SLO_SECONDS, 10.0),
    ("sklearn", "ray", SLO_SECONDS, 10.0),
    ("onnx", "mosec_onnx", SLO_SECONDS, 1.4),
    ("onnx", "mosec_onnx", TIGHT_SECONDS, 2.0),
)
MOST_ADDED_SECONDS: Final[dict[Runtime, float]] = {"sklearn": 0.0005, "onnx": 0.0003}
LEAST_LARGE_SHARE: Final = 0.9
MOST_METRICS_COST: Final = 0.05
LEAST_OVERLOAD_SHARE: Final = 0.95
LEAST_OPEN_LOOP_RATIO: Final = 1.3
MOST_LATENESS_SECONDS: Final = 0.002
MOST_P99_ERROR: Final = 0.02
MOST_GROWTH_BYTES: Final = 5e6  # flat, but for what an allocator keeps

Met = Literal["yes", "no", "undecided", "not measured"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row of the table of targets, in words; `value` and `bound` are the same as numbers."""

    what: str
    target: str
    found: str
    met: Met
    margin: str = ""
    value: float | None = None
    bound: float | None = None


def at_least(what: str, value: float | None, bound: float, shown: Callable[[float], str]) -> Verdict:
    """A target that wants `value` to reach `bound`; `shown` writes both."""
    target = f"≥ {shown(bound)}"
    if value is None:
        return Verdict(what, target, "-", "not measured", bound=bound)
    return Verdict(what, target, shown(value), _met(value >= bound), f"{value / bound - 1:+.1%}", value, bound)


def at_most(what: str, value: float | None, bound: float, shown: Callable[[float], str]) -> Verdict:
    """A target that wants `value` to stay at or below `bound`."""
    target = f"≤ {shown(bound)}"
    if value is None:
        return Verdict(what, target, "-", "not measured", bound=bound)
    margin = f"{shown(bound - value)} to spare" if value <= bound else f"{shown(value - bound)} too much"
    return Verdict(what, target, shown(value), _met(value <= bound), margin, value, bound)


def ratio(
    runtime: Runtime, family: str, p99_bound_seconds: float, least: float, ours: Sequence[Cell], theirs: Sequence[Cell]
) -> Verdict:
    """Our best rate over the peer's, both with p99 inside the bound and each in its better setting."""
    what = f"requests/s at p99 ≤ {1000 * p99_bound_seconds:g} ms, {runtime}, against {family}"
    target = f"≥ {least:.1f} ×"
    mine, other = best(ours, p99_bound_seconds), best(theirs, p99_bound_seconds)
    if not any(cell.counts for cell in ours) or not any(cell.counts for cell in theirs):
        missing = OURS if not any(cell.counts for cell in ours) else family
        return Verdict(what, target, f"{missing} was not measured", "not measured", bound=least)
    if mine is None:
        return Verdict(what, target, "ours never keeps that p99", "no", bound=least)
    if other is None and min(cell.connections for cell in theirs if cell.counts) > 1:
        found = f"{family} never kept that p99, but was not tried with one connection"
        return Verdict(what, target, found, "undecided", bound=least)
    if other is None:
        return Verdict(what, target, f"{family} never keeps that p99, ours does", "yes", bound=least)
    value = mine.rate / other.rate
    found = f"{value:.2f} × ({mine.rate:,.0f}/s against {other.rate:,.0f}/s)"
    return Verdict(what, target, found, _met(value >= least), f"{value / least - 1:+.1%}", value, least)


def _met(true: bool) -> Met:
    return "yes" if true else "no"
