"""How figures are written for people: in verdicts, in reports, on the terminal and on the live tab."""

import math
from collections.abc import Mapping
from typing import Any

NOTHING = "–"
INFINITE = "∞"


def seconds_text(seconds: float | None) -> str:
    """A time in three digits: 84.3 µs, 8.43 ms, 843 ms, 1.24 s; a dash when there is none."""
    if seconds is None:
        return NOTHING
    if math.isinf(seconds):
        return INFINITE
    if not seconds:
        return "0 s"
    for unit, name in ((1e-6, "µs"), (1e-3, "ms")):
        if abs(seconds) < 999.5 * unit:
            return f"{_three_digits(seconds / unit)} {name}"
    return f"{_three_digits(seconds)} s"


def setting_text(seconds: float) -> str:
    """A time that somebody chose, without digits that nobody gave: 50 ms, 1.5 s."""
    number, space, unit = seconds_text(seconds).partition(" ")
    return (number.rstrip("0").rstrip(".") if "." in number else number) + space + unit


def latency_text(seconds: float | None) -> str:
    """A latency over all arrivals, of which `None` is +∞."""
    return INFINITE if seconds is None else seconds_text(seconds)


def span_text(seconds: float) -> str:
    """How long something took: 30 s, 4.5 s, 12 min 5 s, 2 h."""
    if seconds < 119.5:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    parts = ((whole // 3600, "h"), (whole // 60 % 60, "min"), (whole % 60, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def share_text(share: float) -> str:
    """A share as a percentage, with as many digits as its distance from 0% or 100% deserves: 61%, 1.2%, 99.94%."""
    percent = share * 100
    rest = min(percent, 100 - percent)
    if rest <= 0:
        return f"{percent:.0f}%"
    decimals = max(1 - math.floor(math.log10(rest)), 0)
    text = f"{percent:.{decimals}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "%"


def rate_text(per_second: float | None) -> str:
    """A rate without its unit: 5,120 · 312 · 12.5 · 0.25; a dash when there is none."""
    if per_second is None:
        return NOTHING
    return f"{per_second:,.0f}" if per_second >= 99.95 else f"{per_second:.3g}"


def count_text(count: int) -> str:
    return f"{count:,}"


def interval_text(low: float | None, high: float | None) -> str:
    """An interval with its unit once where both ends share it: 764–888 ms, 0.9–1.2 s, 48 ms–∞."""
    ends = latency_text(low), latency_text(high)
    first, second = (end.rpartition(" ") for end in ends)
    return f"{first[0]}–{ends[1]}" if first[2] == second[2] and first[0] else f"{ends[0]}–{ends[1]}"


def value_text(name: str, value: Any) -> str:
    """A setting or a fact of the host, by the unit in its name."""
    match value:
        case None | "":
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case int() if name.endswith("bytes"):
            return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"
        case float():
            return f"{value:g}"
        case Mapping():
            return ", ".join(f"{key} {value_text(key, each)}" for key, each in value.items())
        case list() | tuple():
            return ", ".join(value_text(name, each) for each in value) or NOTHING
        case _:
            return str(value)


def name_text(name: str) -> str:
    """A field's name for people: rows_per_request is "rows per request"; a unit of bytes is told by the value."""
    return name.removesuffix("_bytes").replace("_", " ")


def _three_digits(number: float) -> str:
    size = abs(number)
    return f"{number:.2f}" if size < 9.995 else f"{number:.1f}" if size < 99.95 else f"{number:,.0f}"
