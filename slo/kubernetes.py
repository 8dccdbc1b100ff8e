"""slo.yaml as a cluster takes it: a ServiceMonitor and a PrometheusRule for the Prometheus operator, and for each
overlay of deploy/kubernetes an SLO file with the overlay's own profile.

The rules are those of prometheus/rules, except for what `rule_groups` lists.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from slo.config import SCRAPE_SECONDS, BurnRate, Profile, Service, SloError, SloFile, check_profile
from slo.durations import duration_text
from slo.expressions import selector
from slo.rules import STACK_FILE, rule_files

OVERLAYS: Final = ("local", "production")  # each takes the profile of its name
LOADGEN: Final = "loadgen"
# Prometheus's `job` is the value of this label of a Service; the Service's port with this name is scraped.
JOB_LABEL: Final = "app.kubernetes.io/component"
METRICS_PORT: Final = "metrics"
# As patient as the startup probe: a pod that still loads its model answers no scrape, and every scale-up would page.
DOWN_FOR_SECONDS: Final = 180

_API: Final = "monitoring.coreos.com/v1"
_NAME: Final = "tailboard"
_INTERVAL: Final = duration_text(SCRAPE_SECONDS)


def for_overlay(slo: SloFile, name: str) -> SloFile:
    """The SLO file with the profile called `name` for each service.

    A service keeps its own profile where none has that name, or where it would ask for the impossible, which `load`
    refuses: a burn rate that can never fire for the objective, or over more than the SLO's window.
    """
    named = next((profile for profile in slo.profiles if profile.name == name), None)
    services = slo.services if named is None else tuple(_with(named, service) for service in slo.services)
    return dataclasses.replace(slo, services=services)


def slo_document(slo: SloFile) -> dict[str, Any]:
    """The content of an SLO file that `load` reads as `slo`."""
    services = [
        {
            "job": service.job,
            "objective": service.objective,
            "threshold_seconds": service.threshold_seconds,
            "window_days": service.window_days,
            "profile": service.profile.name,
        }
        for service in slo.services
    ]
    return {"services": services, "profiles": {profile.name: _profile_document(profile) for profile in slo.profiles}}


def service_monitor(slo: SloFile) -> dict[str, Any]:
    """Has the services and the load generator scraped as often as the rules assume."""
    jobs = [*(service.job for service in slo.services), LOADGEN]
    relabelings = [
        # A pod has an address while its image is still being pulled; nothing can answer there.
        {"sourceLabels": ["__meta_kubernetes_pod_phase"], "regex": "Running", "action": "keep"},
        # Alerts and dashboards tell replicas apart by `instance`.
        {"sourceLabels": ["__meta_kubernetes_pod_name"], "targetLabel": "instance"},
    ]
    endpoint = {
        "port": METRICS_PORT,
        "interval": _INTERVAL,
        "scrapeTimeout": duration_text(SCRAPE_SECONDS - 1),
        "relabelings": relabelings,
    }
    chosen = {"matchExpressions": [{"key": JOB_LABEL, "operator": "In", "values": jobs}]}
    return _object("ServiceMonitor", {"jobLabel": JOB_LABEL, "selector": chosen, "endpoints": [endpoint]})


def prometheus_rule(slo: SloFile) -> dict[str, Any]:
    """All rule groups as the operator reads them."""
    return _object("PrometheusRule", {"groups": rule_groups(slo)})


def rule_groups(slo: SloFile) -> list[dict[str, Any]]:
    """The groups of `slo.rules`, with four differences.

    - Each group says how often it is evaluated: what the operator sets otherwise (30 s) is six times too rare.
    - TargetDown of a service waits as long as a pod may take to start.
    - TargetDown of everything else is about the load generator alone. A cluster's Prometheus scrapes much that is not
      Tailboard's, and has no HAProxy, inbox or Alertmanager of ours.
    - Watchdog is left out: the path of alerts is the cluster's, and so is the proof that it works.
    """
    return [
        {"name": group["name"], "interval": group.get("interval", _INTERVAL), "rules": list(_rules(group, name))}
        for name, content in rule_files(slo).items()
        for group in content["groups"]
    ]


def _rules(group: dict[str, Any], file: str) -> Iterator[dict[str, Any]]:
    for rule in group["rules"]:
        match rule.get("alert"):
            case "Watchdog":
                continue
            case "TargetDown" if file == STACK_FILE:
                yield rule | {"expr": f"{selector('up', job=LOADGEN)} == 0"}
            case "TargetDown":
                down_for = duration_text(DOWN_FOR_SECONDS)
                texts = rule["annotations"]
                said = texts["description"].replace(f"for {rule['for']}", f"for {down_for}")
                yield rule | {"for": down_for, "annotations": texts | {"description": said}}
            case _:
                yield rule


def _with(profile: Profile, service: Service) -> Service:
    """The service with that profile, or as it is where they do not fit."""
    changed = dataclasses.replace(service, profile=profile)
    try:
        check_profile(changed, service.job)
    except SloError:
        return service
    return changed


def _profile_document(profile: Profile) -> dict[str, Any]:
    document: dict[str, Any] = {
        "min_requests": profile.min_requests,
        "burn_rates": [_burn_rate_document(burn) for burn in profile.burn_rates],
    }
    if profile.for_seconds:
        document["for"] = duration_text(profile.for_seconds)
    if profile.keep_firing_for_seconds:
        document["keep_firing_for"] = duration_text(profile.keep_firing_for_seconds)
    return document


def _burn_rate_document(burn: BurnRate) -> dict[str, Any]:
    return {
        "factor": burn.factor,
        "long": duration_text(burn.long_seconds),
        "short": duration_text(burn.short_seconds),
        "severity": burn.severity,
    }


def _object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": _NAME}, "spec": spec}
