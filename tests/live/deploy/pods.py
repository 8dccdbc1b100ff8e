"""pods.py DEPLOYMENTS WORK : runs the containers of deploy/kubernetes as the kubelet would, and says what happened.

Expects a network and a mount namespace of its own (`unshare --net --mount`), so that ports are the manifests' and the
names of their Services lead to them. DEPLOYMENTS is a JSON file, {name: {"container", "environment", "files"}}; one
line of JSON on stdout is the outcome. The process ends what it started.
"""

import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import requests

SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
CONFIGURATION = "/etc/tailboard"  # where the pods find their SLO file; here it is below WORK


def isolate(work: Path, names: list[str]) -> None:
    """Loopback up, and the Services' names on it."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    (work / "hosts").write_text(f"127.0.0.1 localhost {' '.join(names)}\n")
    subprocess.run(["mount", "--bind", work / "hosts", "/etc/hosts"], check=True)


class Pod:
    """One container as a process."""

    def __init__(self, name: str, told: dict[str, Any], work: Path) -> None:
        self.name = name
        self.container = told["container"]
        for file, text in told["files"].items():
            place = work / file.removeprefix("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        programs = Path(sys.executable).parent
        environment = {
            variable: value.replace(CONFIGURATION, f"{work}{CONFIGURATION}")
            for variable, value in told["environment"].items()
        }
        self._log = (work / f"{name}.log").open("w")
        self.process = subprocess.Popen(
            [*self.container["command"], *self.container.get("args", [])],
            env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(work), "PYTHONUNBUFFERED": "1", **environment},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self.started = time.monotonic()

    def probe(self, kind: str) -> int:
        """Status of a probe; 0 when nothing answers."""
        asked = self.container[kind]["httpGet"]
        port = next(port["containerPort"] for port in self.container["ports"] if port["name"] == asked["port"])
        try:
            return requests.get(f"http://127.0.0.1:{port}{asked['path']}", timeout=3).status_code
        except requests.RequestException:
            return 0

    def wait_until_ready(self) -> float:
        """Seconds until startup and readiness probe succeeded; as patient as the startup probe."""
        startup = self.container["startupProbe"]
        until = self.started + startup["periodSeconds"] * startup["failureThreshold"]
        while not (self.probe("startupProbe") == self.probe("readinessProbe") == 200):
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{self.name} does not become ready:\n{Path(self._log.name).read_text()[-2000:]}")
            time.sleep(0.1)
        return time.monotonic() - self.started

    def end(self) -> int:
        """Exit status after SIGTERM; the negative signal if it had to be killed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(10)


def load(web: str) -> dict[str, Any]:
    said: dict[str, Any] = requests.get(f"{web}/load", timeout=10).json()
    return said


def until(web: str, answered: int) -> dict[str, Any]:
    """The account once so many requests were answered."""
    end = time.monotonic() + 60
    while (account := load(web)).get("completed", 0) < answered:
        if time.monotonic() > end:
            raise SystemExit(f"{answered} answers expected within 60 s: {account}")
        time.sleep(0.2)
    return account


def main(deployments: dict[str, dict[str, Any]], work: Path) -> dict[str, Any]:
    isolate(work, ["inference", "locust"])
    with contextlib.ExitStack() as stack:
        pods = {}
        for name in ("locust-worker", "locust", "inference"):  # what others need comes last: a cluster keeps no order
            pods[name] = Pod(name, deployments[name], work)
            stack.callback(pods[name].end)
        ready = {name: pods[name].wait_until_ready() for name in ("inference", "locust")}
        web = "http://127.0.0.1:8089"
        end = time.monotonic() + 60
        while requests.get(f"{web}/stats/requests", timeout=10).json().get("worker_count") != 1:
            if time.monotonic() > end:
                raise SystemExit("the worker does not find its master within 60 s")
            time.sleep(0.1)
        said = requests.post(f"{web}/swarm", data={"arrivals": "constant", "rate": 50}, timeout=10).json()
        until(web, answered=100)
        scraped = {
            name: requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text
            for name, port in (("inference", 8001), ("locust", 9646))
        }

        inference = pods["inference"]
        before = load(web)["completed"]
        inference.process.send_signal(signal.SIGTERM)
        told = time.monotonic()
        while (not_ready := inference.probe("readinessProbe")) == 200 and time.monotonic() < told + 5:
            time.sleep(0.05)
        alive = inference.probe("livenessProbe")
        until(web, answered=before + 100)  # 2 s: the nodes have not heard of it yet and go on sending
        requests.post(f"{web}/stop", timeout=30)
        account = load(web)
        status = inference.process.wait(30)
        drained = time.monotonic() - told
        ends = {name: pod.end() for name, pod in pods.items() if name != "inference"}
    return {
        "ready_seconds": ready,
        "swarm": said["success"],
        "scraped": scraped,
        "draining": {"ready": not_ready, "alive": alive, "status": status, "seconds": drained},
        "load": account,
        "ends": ends,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]).resolve())))
    sys.stdout.flush()
    os._exit(0)
