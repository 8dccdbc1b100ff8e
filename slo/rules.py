"""The rule files of prometheus/rules: one per service of slo.yaml, and one for everything around them."""

from collections.abc import Mapping
from typing import Any, Final

from slo.alerts import service_alerts, slo_alerts, stack_alerts
from slo.config import Service, SloFile
from slo.recording import loadgen_rules, slow_groups, window_rules

STACK_FILE: Final = "stack.yml"


def service_file(service: Service) -> str:
    """Name of the rule file of a service."""
    return f"{service.job}.yml"


def rule_files(slo: SloFile) -> dict[str, dict[str, Any]]:
    """File name -> rule file as Prometheus reads it."""
    files = {service_file(service): {"groups": service_groups(service)} for service in slo.services}
    files[STACK_FILE] = {"groups": _stack_groups(slo)}
    return files


def group_order(files: Mapping[str, dict[str, Any]]) -> list[str]:
    """Names of the groups of rule files, each after those whose recordings it reads."""
    return [group["name"] for content in files.values() for group in content["groups"]]


def service_groups(service: Service) -> list[dict[str, Any]]:
    """The rule groups of a service, each after those that it reads."""
    # Recordings and the alerts that read them share a group: it is evaluated in order and at one instant, so that an
    # alert never waits for the next evaluation of another group.
    alerts = [alert.rule() for alert in (*slo_alerts(service), *service_alerts(service))]
    return [*slow_groups(service), {"name": service.job, "rules": [*window_rules(service), *alerts]}]


def _stack_groups(slo: SloFile) -> list[dict[str, Any]]:
    return [{"name": "stack", "rules": [*loadgen_rules(), *(alert.rule() for alert in stack_alerts(slo.services))]}]
