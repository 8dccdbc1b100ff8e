"""What a person sees while a run goes on: one line, rewritten on a terminal, now and then elsewhere."""

import math
from typing import Final, TextIO

from loadtest.analysis.words import latency_text, rate_text, seconds_text
from loadtest.run.watch import Standing

QUIET_SECONDS: Final = 5.0  # between lines where they cannot be rewritten
_CLEAR: Final = "\r\x1b[K"


def line(standing: Standing, seconds: float, warmup_seconds: float, rate: float, threshold_seconds: float) -> str:
    """How the run stands; `rate` is the planned one of this moment, NaN in a closed loop."""
    left = max(0.0, seconds - standing.elapsed_seconds)
    warm = "warm-up, " if standing.elapsed_seconds < warmup_seconds else ""
    answered = standing.recent_completed / standing.recent_seconds if standing.recent_seconds > 0 else 0.0
    asked = "closed loop" if math.isnan(rate) else f"{rate_text(rate)} asked"
    held = "" if math.isnan(standing.p99) else (" ✓" if standing.p99 <= threshold_seconds else " ✗")
    oldest = f", oldest {_time(standing.oldest_seconds)}" if standing.in_flight else ""
    parts = [
        f"{warm}{left:.0f} s left",
        f"{asked}, {rate_text(answered)} answered",
        f"p50 {_time(standing.p50)} p99 {_time(standing.p99)} (SLO {seconds_text(threshold_seconds)}{held})",
        f"{standing.in_flight} in flight{oldest}",
        f"{standing.failed} failed, {standing.dropped} dropped",
        f"late {_time(standing.lateness_p99)}",
    ]
    return " · ".join(parts)


def _time(seconds: float) -> str:
    return "–" if math.isnan(seconds) else latency_text(None if math.isinf(seconds) else seconds)


class Progress:
    """Shows lines on a stream."""

    def __init__(self, stream: TextIO, columns: int) -> None:
        self._stream = stream
        self._columns = columns
        self._rewrites = stream.isatty()
        self._shown_at = -math.inf

    def show(self, text: str, now: float) -> None:
        """The latest line; where it cannot be rewritten, one every few seconds."""
        if self._rewrites:
            self._stream.write(_CLEAR + text[: self._columns - 1])
        elif now - self._shown_at >= QUIET_SECONDS:
            self._shown_at = now
            self._stream.write(text + "\n")
        self._stream.flush()

    def say(self, text: str) -> None:
        """A line that stays."""
        self._stream.write((_CLEAR if self._rewrites else "") + text + "\n")
        self._stream.flush()

    def end(self) -> None:
        """No more lines."""
        if self._rewrites:
            self._stream.write(_CLEAR)
            self._stream.flush()
