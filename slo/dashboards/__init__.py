"""Grafana dashboards as JSON, from slo.yaml. The live page reads the same files."""

from typing import Any

from slo.config import SloFile
from slo.dashboards.batcher import batcher_dashboard
from slo.dashboards.health import health_dashboard
from slo.dashboards.latency import latency_dashboard
from slo.dashboards.objective import objective_dashboard


def dashboards(slo: SloFile) -> dict[str, dict[str, Any]]:
    """File name -> dashboard. Several services get one each of those about a service; the first keeps the plain uid."""
    built = []
    for index, service in enumerate(slo.services):
        suffix = f"-{service.job}" if index else ""
        built += [
            latency_dashboard(service, f"latency-vs-throughput{suffix}"),
            batcher_dashboard(service, f"batcher{suffix}"),
            objective_dashboard(service, f"slo{suffix}"),
        ]
    built.append(health_dashboard(slo))
    return {f"{dashboard['uid']}.json": dashboard for dashboard in built}
