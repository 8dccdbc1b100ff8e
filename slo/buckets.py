"""Histogram edges, the same on both sides of the wire, so that client and server percentiles can be compared.

Ten edges a decade from 1 ms to 8 s keep an interpolated p99 within about 6% of the truth. The SLO threshold is always
an exact edge, so that the share of good requests is counted rather than interpolated.
"""

from decimal import Decimal
from typing import Final

_STEPS: Final = ("1", "1.25", "1.6", "2", "2.5", "3.2", "4", "5", "6.4", "8")
_DECADES: Final = ("0.001", "0.01", "0.1", "1")
# Written as decimals: 1.6 * 0.1 in binary is 0.16000000000000003, and `le` is compared as text.
_STANDARD: Final = (*(float(Decimal(s) * Decimal(d)) for d in _DECADES for s in _STEPS), 10.0)


def duration_edges(*thresholds_seconds: float) -> tuple[float, ...]:
    """Upper edges in seconds, ascending, without +Inf; every given threshold is one of them."""
    return tuple(sorted({*_STANDARD, *thresholds_seconds}))


def batch_row_edges(max_rows: int) -> tuple[float, ...]:
    """Powers of two from 1 up to `max_rows`, which is always the last edge."""
    if max_rows < 1:
        raise ValueError(f"max_rows is {max_rows}; expected at least 1")
    powers = [float(1 << k) for k in range(max_rows.bit_length()) if 1 << k < max_rows]
    return (*powers, float(max_rows))


def edge_text(edge_seconds: float) -> str:
    """An edge as the Prometheus client writes it in `le`."""
    return repr(float(edge_seconds))
