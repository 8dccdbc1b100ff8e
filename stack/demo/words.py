"""How figures are written for people: on the terminal, in verdicts and in the report."""

import math

from loadtest.analysis.histogram import Histogram

NOTHING = "–"


def seconds_text(seconds: float | None) -> str:
    """A latency: 8.4 ms, 143 ms, 1.24 s, ∞; a dash when there is none."""
    if seconds is None:
        return NOTHING
    if math.isinf(seconds):
        return "∞"
    if seconds < 0.00995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s"


def quantile_text(latency: Histogram, q: float) -> str:
    """A quantile over all arrivals; one that is no number says why: "> 10 s" or "∞ (61% lost)"."""
    value = latency.quantile(q)
    if value is None or math.isfinite(value):
        return seconds_text(value)
    if latency.beyond_last_edge(q):
        return f"> {latency.edges[-1]:g} s"
    return f"∞ ({share_text(latency.lost_share)} lost)"


def share_text(share: float) -> str:
    """A share as a percentage with as many digits as it deserves: 61%, 1.2%, 0.03%."""
    percent = share * 100
    if percent == 0 or percent >= 9.95:
        return f"{percent:.0f}%"
    return f"{percent:.1f}%" if percent >= 0.095 else f"{percent:.2g}%"


def rate_text(per_second: float | None) -> str:
    if per_second is None:
        return NOTHING
    return f"{per_second:,.0f}" if per_second >= 9.95 else f"{per_second:.1f}"


def rows_text(rows: float | None) -> str:
    if rows is None:
        return NOTHING
    return f"{rows:.1f}" if rows < 99.95 else f"{rows:.0f}"


def clock_text(seconds: float) -> str:
    """Time left or gone, as minutes and seconds: 4:07."""
    whole = max(round(seconds), 0)
    return f"{whole // 60}:{whole % 60:02d}"


def quantile_name(q: float) -> str:
    """p99 for 0.99, p99.9 for 0.999."""
    return f"p{q * 100:.10g}"


def rows_name(rows: int) -> str:
    """A batch size in words."""
    return "one row" if rows == 1 else f"{rows} rows"
