"""wrk: the closed-loop generator. A script for it from a request, its command line, and its report as a Reading."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.reading import Reading

_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = r"([0-9]+(?:\.[0-9]+)?)(us|ms|s|m|h)"
_QUANTILE: Final = re.compile(rf"^\s+(50|99)%\s+{_DURATION}\s*$", re.MULTILINE)
_TOTAL: Final = re.compile(rf"^\s*([0-9]+) requests in {_DURATION},", re.MULTILINE)
_NOT_2XX: Final = re.compile(r"^\s*Non-2xx or 3xx responses: ([0-9]+)\s*$", re.MULTILINE)
_SOCKET_ERRORS: Final = re.compile(
    r"^\s*Socket errors: connect ([0-9]+), read ([0-9]+), write ([0-9]+), timeout ([0-9]+)\s*$", re.MULTILINE
)


class WrkError(Exception):
    """wrk did not measure; one sentence."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is posted, again and again."""

    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


def script(request: Request) -> str:
    """Lua for wrk. The body goes in as decimal escapes, so that any byte may be in it."""
    lines = ['wrk.method = "POST"']
    lines += [f'wrk.headers["{name}"] = "{value}"' for name, value in request.headers.items()]
    lines.append('wrk.body = "' + "".join(f"\\{byte:03d}" for byte in request.body) + '"')
    return "\n".join(lines) + "\n"


def command(program: Path, script_file: Path, url: str, connections: int, seconds: float) -> list[str]:
    """wrk takes whole seconds."""
    return [
        str(program),
        "-t1",
        f"-c{connections}",
        f"-d{max(1, round(seconds))}s",
        "--latency",
        "-s",
        str(script_file),
        url,
    ]


def parse(text: str) -> Reading:
    """wrk's report; WrkError if it is none."""
    total = _TOTAL.search(text)
    if total is None:
        said = " ".join(text.split())[:200] or "nothing"
        raise WrkError(f"wrk gave no report but said: {said}")
    quantiles = {match[1]: float(match[2]) * _UNITS[match[3]] for match in _QUANTILE.finditer(text)}
    not_2xx = _NOT_2XX.search(text)
    socket_errors = _SOCKET_ERRORS.search(text)
    requests = int(total[1])
    return Reading(
        requests=requests,
        seconds=float(total[2]) * _UNITS[total[3]],
        not_2xx=int(not_2xx[1]) if not_2xx else 0,
        socket_errors=sum(map(int, socket_errors.groups())) if socket_errors else 0,
        p50_seconds=quantiles.get("50") if requests else None,  # without a reply wrk prints 0.00us
        p99_seconds=quantiles.get("99") if requests else None,
    )
