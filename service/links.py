"""Where the other parts of the stack are, for the page at `/`: their ports, on the host that the visitor used."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Link:
    """One part of the stack; `variable` is the environment variable that moves its port."""

    name: str
    purpose: str
    variable: str
    port: int
    path: str = "/"

    def address(self, host: str) -> str:
        """Its URL as seen by a visitor who reached this service at `host` (with or without a port)."""
        name, colon, port = host.rpartition(":")
        bare = name if colon and port.isdigit() else host
        return f"http://{bare}:{self.port}{self.path}"


PARTS: Final = (
    Link("Live page", "p95, p99 and throughput, live", "LIVE_PORT", 8050),
    Link("Locust", "start load, edit its rate while it runs", "LOCUST_PORT", 8089),
    Link("Alert inbox", "what would have paged somebody", "INBOX_PORT", 8060),
    Link("Slowest requests", "of the last minutes, with stage times", "SERVICE_ADMIN_PORT", 8001, "/admin/slowest"),
    Link("Metrics", "what Prometheus scrapes here", "SERVICE_ADMIN_PORT", 8001, "/metrics"),
    Link("Prometheus", "any other question", "PROMETHEUS_PORT", 9090),
    Link("Alertmanager", "silences and grouping", "ALERTMANAGER_PORT", 9093),
    Link("Grafana", "the same dashboards, if it runs", "GRAFANA_PORT", 3000),
    Link("Client metrics", "what the load generator saw", "LOCUST_METRICS_PORT", 9646, "/metrics"),
)


def from_environment(environment: Mapping[str, str]) -> tuple[Link, ...]:
    """The links with their ports moved as the environment says; what is no port is left at its default."""
    return tuple(
        Link(part.name, part.purpose, part.variable, int(text), part.path)
        if (text := environment.get(part.variable, "")).isdigit()
        else part
        for part in PARTS
    )
