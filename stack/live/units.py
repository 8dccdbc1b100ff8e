"""Grafana's unit names as text for a value and as a scale for an axis. Pure.

Only families that dashboards of services use are known here; an unknown unit shows the plain number, and Grafana's
own `suffix:` and `prefix:` units give any other text.
"""

import math
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Scale:
    """How numbers of a unit are shown: `value * factor` between `prefix` and `suffix`."""

    factor: float = 1.0
    suffix: str = ""
    prefix: str = ""


# unit -> (how many base units one of it is worth, steps of (base units, suffix) from small to large)
_SECONDS: Final = (
    (1e-9, " ns"),
    (1e-6, " µs"),
    (1e-3, " ms"),
    (1.0, " s"),
    (60.0, " min"),
    (3600.0, " h"),
    (86_400.0, " d"),
)
_BINARY: Final = ((1.0, " B"), (1024.0, " KiB"), (1024.0**2, " MiB"), (1024.0**3, " GiB"), (1024.0**4, " TiB"))
_DECIMAL: Final = ((1.0, " B"), (1e3, " kB"), (1e6, " MB"), (1e9, " GB"), (1e12, " TB"))
_SHORT: Final = ((1.0, ""), (1e3, " K"), (1e6, " Mil"), (1e9, " Bil"))
_LADDERS: Final = {
    "s": (1.0, _SECONDS), "ms": (1e-3, _SECONDS), "µs": (1e-6, _SECONDS), "ns": (1e-9, _SECONDS),
    "m": (60.0, _SECONDS), "h": (3600.0, _SECONDS), "d": (86_400.0, _SECONDS),
    "dtdurations": (1.0, _SECONDS), "dtdurationms": (1e-3, _SECONDS),
    "bytes": (1.0, _BINARY), "decbytes": (1.0, _DECIMAL),
    "Bps": (1.0, tuple((size, f"{suffix}/s") for size, suffix in _DECIMAL)),
    "binBps": (1.0, tuple((size, f"{suffix}/s") for size, suffix in _BINARY)),
    "short": (1.0, _SHORT),
}  # fmt: skip
_PLAIN: Final = {
    "reqps": " req/s", "rps": " reads/s", "wps": " writes/s", "ops": " ops/s", "cps": " c/s", "iops": " io/s",
    "eps": " events/s", "mps": " msg/s", "pps": " p/s", "rowsps": " rows/s", "percent": "%",
    "reqpm": " req/min", "opm": " ops/min", "hertz": " Hz", "celsius": " °C",
}  # fmt: skip


def scale_for(unit: str, largest: float) -> Scale:
    """One scale for a whole axis, chosen by the largest magnitude on it: seconds up to 0.08 are shown in ms."""
    if unit == "percentunit":
        return Scale(100.0, "%")
    if unit in _PLAIN:
        return Scale(1.0, _PLAIN[unit])
    for custom in ("suffix:", "si:", "short:"):
        if unit.startswith(custom):
            return Scale(1.0, f" {unit.removeprefix(custom).strip()}")
    if unit.startswith("prefix:"):
        return Scale(1.0, "", unit.removeprefix("prefix:"))
    if unit.startswith("currency"):
        return Scale(1.0, "", {"currencyUSD": "$", "currencyEUR": "€", "currencyGBP": "£"}.get(unit, ""))
    if unit in _LADDERS:
        worth, ladder = _LADDERS[unit]
        base = abs(largest) * worth
        size, suffix = ladder[0] if base and math.isfinite(base) else next(step for step in ladder if step[0] >= worth)
        for step, name in ladder:
            # Just below the next unit reads better in it: 0.9999999 s is 1 s, not 1000 ms.
            if base and math.isfinite(base) and base >= step * 0.9995:
                size, suffix = step, name
        return Scale(worth / size, suffix)
    return Scale()


def number_text(value: float, decimals: int | None = None) -> str:
    """A number as a person reads it: three significant digits unless `decimals` says otherwise, thousands apart."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if decimals is None:
        magnitude = abs(value)
        decimals = 0 if magnitude >= 100 or value == 0 else max(0, 2 - math.floor(math.log10(magnitude)))
        text = f"{value:,.{min(decimals, 9)}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{value:,.{max(0, min(decimals, 9))}f}"
    return text.replace("-", "−") if text.strip("-0.,") else text.removeprefix("-")


def value_text(value: float, unit: str, decimals: int | None = None) -> tuple[str, str]:
    """(number with any prefix, suffix): "49.8", " ms". Dates are ISO 8601 in UTC and booleans words."""
    if unit in ("bool", "bool_yes_no", "bool_on_off"):
        words = {"bool": ("True", "False"), "bool_yes_no": ("Yes", "No"), "bool_on_off": ("On", "Off")}[unit]
        return (words[0] if value else words[1]), ""
    if not math.isfinite(value):
        return number_text(value), ""
    scale = scale_for(unit, value)
    return f"{scale.prefix}{number_text(value * scale.factor, decimals)}", scale.suffix


def plain_text(value: float, unit: str, decimals: int | None = None) -> str:
    """Number and unit in one text."""
    return "".join(value_text(value, unit, decimals))


def tidy_ceiling(value: float) -> float:
    """The next number that makes a good end of an axis, so that the axis does not move with every sample."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * power >= value * 0.999999)
