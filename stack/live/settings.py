"""Settings of the live page: environment variables, checked once, one sentence for a bad value."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from slo.config import SCRAPE_SECONDS


class SettingsError(ValueError):
    """A setting cannot be used; the message names the variable, its value and what was expected."""


# variable -> (default port, name of the part as a person reads it, path of its page)
_PARTS: Final = {
    "LOCUST_PORT": (8089, "Locust", "/"),
    "PROMETHEUS_PORT": (9090, "Prometheus", "/"),
    "ALERTMANAGER_PORT": (9093, "Alertmanager", "/"),
    "INBOX_PORT": (8060, "Alert inbox", "/"),
    "SERVICE_PORT": (8000, "Service", "/"),
}


@dataclass(frozen=True, slots=True)
class PartLink:
    """Another part of the stack, on the host that the viewer already uses."""

    name: str
    port: int
    path: str


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """Everything that can be set; every default is here."""

    host: str = "127.0.0.1"
    port: int = 8050
    prometheus_url: str = "http://127.0.0.1:9090"
    dashboards_dir: Path = Path("grafana/dashboards")
    home_uid: str = "latency-vs-throughput"  # the dashboard that opens first, where there is one
    query_timeout_seconds: float = 4.0  # one query
    page_timeout_seconds: float = 6.0  # all queries of a page together
    refresh_seconds: float = 5.0
    scrape_seconds: float = float(SCRAPE_SECONDS)
    links: tuple[PartLink, ...] = field(
        default_factory=lambda: tuple(PartLink(name, port, path) for port, name, path in _PARTS.values())
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "LiveSettings":
        """LIVE_HOST, LIVE_PORT, PROMETHEUS_URL, DASHBOARDS_DIR, LIVE_QUERY_TIMEOUT_SECONDS and the ports of the other
        parts; an empty value is the default."""
        default = cls()
        ports = {variable: _port(environment, variable, usual) for variable, (usual, _, _) in _PARTS.items()}
        query_timeout = _seconds(environment, "LIVE_QUERY_TIMEOUT_SECONDS", default.query_timeout_seconds)
        return cls(
            host=environment.get("LIVE_HOST") or default.host,
            port=_port(environment, "LIVE_PORT", default.port),
            prometheus_url=_url(environment, "PROMETHEUS_URL", f"http://127.0.0.1:{ports['PROMETHEUS_PORT']}"),
            dashboards_dir=_directory(environment, "DASHBOARDS_DIR", default.dashboards_dir),
            query_timeout_seconds=query_timeout,
            page_timeout_seconds=query_timeout * 1.5,
            links=tuple(PartLink(name, ports[variable], path) for variable, (_, name, path) in _PARTS.items()),
        )


def _port(environment: Mapping[str, str], variable: str, default: int) -> int:
    text = environment.get(variable) or str(default)
    if not re.fullmatch(r"\d{1,5}", text, re.ASCII) or int(text) > 65_535:
        raise SettingsError(f"{variable} is {text!r}; expected a port from 0 to 65535")
    return int(text)


def _seconds(environment: Mapping[str, str], variable: str, default: float) -> float:
    text = environment.get(variable) or str(default)
    if not re.fullmatch(r"\d{1,3}(\.\d+)?", text, re.ASCII) or not 0 < float(text) <= 60:
        raise SettingsError(f"{variable} is {text!r}; expected seconds above 0, at most 60")
    return float(text)


def _url(environment: Mapping[str, str], variable: str, default: str) -> str:
    text = environment.get(variable) or default
    expected = "expected an address such as http://127.0.0.1:9090"
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise SettingsError(f"{variable} is {text!r}; {expected}")
    return text


def _directory(environment: Mapping[str, str], variable: str, default: Path) -> Path:
    path = Path(environment.get(variable) or default)
    if not path.is_dir():
        raise SettingsError(f"{variable} is {str(path)!r}; expected a directory of Grafana dashboards (*.json)")
    return path
