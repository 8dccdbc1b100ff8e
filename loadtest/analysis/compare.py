"""Two results side by side: what differs, by how much, and whether it is more than chance."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from loadtest.analysis.intervals import student_t, variance_of_correlated

Result = Mapping[str, Any]

_FIGURES: Final[Mapping[str, str]] = {
    "p50": "p50 over all arrivals",
    "p95": "p95 over all arrivals",
    "p99": "p99 over all arrivals",
    "mean": "mean of successes",
    "throughput": "answered 2xx per second",
    "good": "share of good arrivals",
}
_SECONDS: Final = ("p50", "p95", "p99", "mean")
_OBJECTIVE: Final = "SLO "  # what the names of its settings begin with
_NO_LOAD: Final = (
    "target",  # what one compares
    "seed",  # other arrivals of the same kind, which the intervals allow for
    "duration_seconds",
    "warmup_seconds",
)
_TINY: Final = 1e-9  # seconds; below it a logarithm says nothing


@dataclass(frozen=True, slots=True)
class _Estimate:
    """A figure with its 95% interval; +inf where nothing bounds it."""

    value: float
    low: float
    high: float


def compared(a: Result, b: Result, names: tuple[str, str] = ("A", "B")) -> dict[str, Any]:
    """What `told` says, as data (JSON; None for +∞ and for what cannot be told).

    `figures` has for each of p50, p95, p99, mean, throughput and good: `a`, `b`, `change` (b / a − 1; for good b − a),
    `change_ci95` and `real`: whether the interval leaves out 0. `settings` lists what was set differently, `cautions`
    are whole sentences, with the `names` of the two, on what stands in the way of a comparison.
    """
    return {
        "names": list(names),
        "figures": [_figure(name, a, b) for name in _FIGURES],
        "settings": [{"name": name, "a": mine, "b": theirs} for name, mine, theirs in _settings(a, b)],
        "cautions": _cautions(a, b, names),
    }


def told(a: Result, b: Result, names: tuple[str, str] = ("A", "B")) -> str:
    """The comparison as a text table for a terminal, with what to think of it below."""
    comparison = compared(a, b, names)
    rows = [("", *names, f"{names[1]} against {names[0]} (95% interval)", "")]
    rows += [
        (
            _FIGURES[each["name"]],
            _shown(each["name"], each["a"]),
            _shown(each["name"], each["b"]),
            _change(each),
            {True: "real", False: "may be chance", None: "cannot be told"}[each["real"]],
        )
        for each in comparison["figures"]
    ]
    rows.insert(1, ("verdict", a["verdict"], b["verdict"], "", ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column in (0, 4) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    if comparison["settings"]:
        lines += ["", "Set differently:"]
        lines += [f"  {each['name']}: {each['a']} against {each['b']}" for each in comparison["settings"]]
    if comparison["cautions"]:
        lines += ["", *comparison["cautions"]]
    return "\n".join(lines) + "\n"


def _figure(name: str, a: Result, b: Result) -> dict[str, Any]:
    mine, theirs = _estimate(name, a), _estimate(name, b)
    found: dict[str, Any] = {"name": name, "what": _FIGURES[name], "a": None, "b": None}
    if mine is not None:
        found["a"] = _finite(mine.value)
    if theirs is not None:
        found["b"] = _finite(theirs.value)
    if mine is None or theirs is None or mine.low == theirs.low == math.inf:
        return found | {"change": None, "change_ci95": [None, None], "real": None}
    if name == "good":
        low, high = _difference(mine, theirs)
        change = theirs.value - mine.value
    else:
        low, high = (math.expm1(end) for end in _difference(_logarithm(mine), _logarithm(theirs)))
        change = theirs.value / mine.value - 1 if mine.value > 0 and mine.value < math.inf else math.nan
    real = None if math.isnan(low) or math.isnan(high) else low > 0 or high < 0
    return found | {"change": _finite(change), "change_ci95": [_finite(low), _finite(high)], "real": real}


def _estimate(name: str, result: Result) -> _Estimate | None:
    """The figure of one result; None when it has none."""
    if not result["measured"]["offered"]:
        return None
    if name in result["latency_ci95"]:
        low, high = result["latency_ci95"][name]
        return _Estimate(_endless(result["latency_seconds"][name]), _endless(low), _endless(high))
    batches = [batch for batch in result["batches"] if batch["offered"]]
    if name == "mean":
        values = [batch["mean"] for batch in batches if batch["mean"] is not None]
        return _by_batches(values, result["success_latency_seconds"]["mean"])
    if name == "throughput":
        values = [batch["completed"] / (batch["to_seconds"] - batch["from_seconds"]) for batch in result["batches"]]
        return _by_batches(values, result.get("throughput"))
    return _by_batches([batch["good"] / batch["offered"] for batch in batches], result["slo"]["ratio"])


def _by_batches(values: Sequence[float], value: float | None) -> _Estimate | None:
    """The figure `value` of the whole with an interval from those of its batches, which may be correlated."""
    if value is None or len(values) < 4:
        return None
    error = math.sqrt(variance_of_correlated(np.asarray(values, dtype=np.float64)))
    half = student_t(0.975, len(values) - 2) * error
    return _Estimate(value, max(value - half, 0.0), value + half)


def _logarithm(figure: _Estimate) -> _Estimate:
    return _Estimate(*(math.log(max(end, _TINY)) for end in (figure.value, figure.low, figure.high)))


def _difference(a: _Estimate, b: _Estimate) -> tuple[float, float]:
    """95% interval of b − a from the intervals of both: variance estimates recovered (Donner and Zou 2010).

    With a side at +inf only what the intervals' finite ends say is left: NaN where they say nothing.
    """
    if math.inf in (a.value, b.value):
        return b.low - a.high, b.high - a.low
    change = b.value - a.value
    return (
        change - math.hypot(b.value - b.low, a.high - a.value),
        change + math.hypot(b.high - b.value, a.value - a.low),
    )


def _settings(a: Result, b: Result) -> list[tuple[str, Any, Any]]:
    """(name, in a, in b) of what was set differently."""
    pairs = [
        *((name, a[name], b[name]) for name in ("target", "duration_seconds", "warmup_seconds")),
        (f"{_OBJECTIVE}threshold_seconds", a["slo"]["threshold_seconds"], b["slo"]["threshold_seconds"]),
        (f"{_OBJECTIVE}objective", a["slo"]["objective"], b["slo"]["objective"]),
        *((name, a[name], b[name]) for name in _load(a, b)),
        *((name, a["settings"].get(name), b["settings"].get(name)) for name in {**a["settings"], **b["settings"]}),
    ]
    seen: dict[str, tuple[str, Any, Any]] = {}
    for name, mine, theirs in pairs:
        if mine != theirs:
            seen.setdefault(name, (name, mine, theirs))
    return list(seen.values())


def _load(a: Result, b: Result) -> list[str]:
    """Names of what makes the load, as far as the settings do not hold it."""
    held = {"planned_rate" if name == "rate" else name for name in {**a["settings"], **b["settings"]}}
    return [name for name in ("arrivals", "seed", "planned_rate") if name not in held]


def _cautions(a: Result, b: Result, names: tuple[str, str]) -> list[str]:
    found = []
    for name, result in zip(names, (a, b), strict=True):
        if result["verdict"] == "INVALID":
            found.append(f"{name} is INVALID: {result['reasons'][0]}")
        if result["ended"] != "complete":
            found.append(f"{name} was {result['ended']}, so it has seen less than was planned.")
    closed = [name for name, result in zip(names, (a, b), strict=True) if result["arrivals"] == "closed"]
    if len(closed) == 1:
        found.append(f"{closed[0]} was a closed loop, which hides stalls; its latencies are no match for the other's.")
    differing = [name for name, *_ in _settings(a, b)]
    load = [name for name in differing if name not in _NO_LOAD and not name.startswith(_OBJECTIVE)]
    if load:
        found.append(
            f"The loads were not the same ({', '.join(load)}), so what differs in the figures may come from that."
        )
    if any(name.startswith(_OBJECTIVE) for name in differing):
        found.append("The objectives were not the same: neither verdicts nor shares of good arrivals are comparable.")
    if a["host"] != b["host"]:
        found.append("The two were measured from different hosts.")
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _endless(value: float | None) -> float:
    return math.inf if value is None else float(value)


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "∞" if name in _SECONDS[:3] else "–"
    if name in _SECONDS:
        return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"
    return f"{100 * value:.2f}%" if name == "good" else f"{value:.4g}/s"


def _change(figure: Mapping[str, Any]) -> str:
    points = " points" if figure["name"] == "good" else "%"
    decimals = 2 if figure["name"] == "good" else 1

    def signed(share: float | None, endless: str) -> str:
        return endless if share is None else f"{100 * share:+.{decimals}f}"

    if figure["real"] is None:
        return "–"
    if figure["change"] is None and figure["real"]:
        return "no answer on one side"
    low, high = figure["change_ci95"]
    change = "" if figure["change"] is None else f"{signed(figure['change'], '')}{points} "
    return f"{change}({signed(low, '−∞')} to {signed(high, '∞')})"
