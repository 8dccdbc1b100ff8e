"""Durations as Prometheus writes them: "30s", "1h30m". Whole seconds; nothing here is finer."""

import re
from typing import Final

_UNITS: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)


def parse_duration(text: str) -> int:
    """Seconds of "30s", "2m", "1h30m" or "3d"; ValueError for anything else."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"{text!r} is no duration; expected one such as 30s, 2m, 1h30m or 3d")
    return sum(int(count or 0) * seconds for count, seconds in zip(match.groups(), _UNITS.values(), strict=True))


def duration_text(seconds: int) -> str:
    """The shortest way to write it: 90 is "1m30s", 86400 is "1d", 0 is "0s"."""
    parts = []
    for unit, size in _UNITS.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
