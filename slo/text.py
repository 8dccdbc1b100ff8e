"""Numbers as people read them, in alert texts and on dashboards."""


def percent(share: float) -> str:
    """0.01 -> "1%", 0.0005 -> "0.05%"."""
    return f"{round(share * 100, 8):g}%"


def seconds(value: float) -> str:
    """0.05 -> "50 ms", 1.5 -> "1.5 s"."""
    return f"{value:g} s" if value >= 1 else f"{round(value * 1000, 6):g} ms"
