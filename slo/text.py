"""Numbers as people read them, in alert texts and on dashboards."""

from itertools import pairwise


def percent(share: float) -> str:
    """0.01 -> "1%", 0.0005 -> "0.05%"."""
    return f"{round(share * 100, 8):g}%"


def duration_words(length_seconds: float) -> str:
    """The two largest units, rounded: 25,920 s -> "7 h 12 min", 75 -> "1 min 15 s", 0.4 -> "0.4 s"."""
    if 0 < length_seconds < 10:
        return f"{round(length_seconds, 1):g} s"
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    for (unit, size), (below, part) in pairwise(units):
        if length_seconds >= size:
            count, rest = divmod(round(length_seconds / part), size // part)
            return f"{count} {unit} {rest} {below}" if rest else f"{count} {unit}"
    return f"{round(length_seconds)} s"


def seconds(value: float) -> str:
    """0.05 -> "50 ms", 1.5 -> "1.5 s"."""
    return f"{value:g} s" if value >= 1 else f"{round(value * 1000, 6):g} ms"
