"""hey, another project's closed-loop generator, as an outside witness: its command line, and what it reports."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.wrk import Request

_RATE: Final = re.compile(r"^\s*Requests/sec:\s*([0-9.]+)", re.MULTILINE)
_P99: Final = re.compile(r"^\s*99%+ in ([0-9.]+) secs", re.MULTILINE)
_STATUS: Final = re.compile(r"^\s*\[([0-9]+)\]\s+([0-9]+) responses", re.MULTILINE)


class HeyError(Exception):
    """hey did not measure; one sentence."""


@dataclass(frozen=True, slots=True)
class HeyReading:
    """What hey says of its own run."""

    requests_per_second: float
    p99_seconds: float | None  # of the replies that it got
    not_2xx: int


def command(program: Path, request: Request, url: str, connections: int, seconds: float) -> list[str]:
    """hey takes a body as an argument, and as many CPUs as it is told."""
    content_type = request.headers.get("Content-Type", "application/json")
    return [
        *(str(program), "-z", f"{seconds:g}s", "-c", str(connections), "-cpus", "1", "-m", "POST"),
        *("-T", content_type, "-d", request.body.decode(), url),
    ]


def parse(text: str) -> HeyReading:
    """hey's report; HeyError if it is none."""
    rate = _RATE.search(text)
    if rate is None:
        said = " ".join(text.split())[:200] or "nothing"
        raise HeyError(f"hey gave no report but said: {said}")
    p99 = _P99.search(text)
    not_2xx = sum(int(count) for status, count in _STATUS.findall(text) if not status.startswith("2"))
    return HeyReading(float(rate[1]), float(p99[1]) if p99 else None, not_2xx)
