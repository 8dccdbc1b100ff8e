"""The compose stack, measured: `python -m bench.compose`. Ends by itself after about twelve minutes; docs/compose.md.

Starts, sizes and memory; a replica that crashes under load; throughput at the SLO with one, two and three replicas.
Everything runs in a project of its own on free ports and is taken down at the end. The load comes from inside the
container network. Images, BUILD_NETWORK, DOCKER_HOST and so on are taken from the environment, as Compose does.
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import requests

from bench.ladder import highest, rungs
from bench.machine import describe
from bench.programs import ROOT
from bench.table import milliseconds, table

PROJECT: Final = "tailboard-measured"
PORTS: Final = (
    *("SERVICE_PORT", "SERVICE_ADMIN_PORT", "LOCUST_PORT", "LOCUST_METRICS_PORT", "PROMETHEUS_PORT"),
    *("ALERTMANAGER_PORT", "GRAFANA_PORT", "LIVE_PORT", "INBOX_PORT"),
)
PARTS: Final = ("start", "memory", "crash", "throughput")
STEP: Final = 1.25  # between the rates that are tried
RUN_SECONDS, WARM_UP_SECONDS = 6, 1
RUNS: Final = 3  # whose median counts
# Model → the seconds that p99 may be, and the rates between which the answer lies. A request that arrives at a busy
# synthetic model waits for one run (22 ms) and takes part in the next, which the SLO's 50 ms have no room for.
MODELS: Final = {
    "synthetic?fixed_seconds=0.02&per_row_seconds=0.002": (0.1, 20.0, 400.0),
    "digits": (0.05, 20.0, 600.0),
}
FIGURES: Final = {
    "served": ("latency-vs-throughput", "Throughput", "served", "{:.1f}/s"),
    "p99 at the service": ("latency-vs-throughput", "p99", "p99", "{:.3f} s"),
    "not good": ("latency-vs-throughput", "Not good", "not good", "{:.2%}"),
    "queue capacity, rows": ("batcher", "Queue depth", "capacity", "{:.0f}"),
}


class Failed(Exception):
    """A command that did not do what it was to: one sentence and what it said."""


@dataclass(frozen=True, slots=True)
class Stack:
    """One project of the shipped compose file."""

    program: tuple[str, ...]
    environment: dict[str, str]
    services: tuple[str, ...]

    def __call__(self, *arguments: str, timeout_seconds: float = 600.0, model: str | None = None) -> str:
        """Output of `docker compose ARGUMENTS`."""
        return _output(
            [*self.program, "-p", PROJECT, "--env-file", os.devnull, *arguments],
            self.environment | ({"SERVICE_MODEL": model} if model else {}),
            timeout_seconds,
        )

    def docker(self, *arguments: str) -> str:
        return _output(["docker", *arguments], self.environment, 60)

    def up(self, *arguments: str, replicas: int = 1, workers: int = 1, model: str | None = None) -> float:
        """Seconds until all are healthy."""
        began = time.monotonic()
        scale = ("--scale", f"service={replicas}", "--scale", f"locust-worker={workers}")
        self("up", "--detach", "--wait", *scale, *arguments, *self.services, model=model)
        return time.monotonic() - began

    def ids(self, service: str) -> list[str]:
        return self("ps", "--quiet", service).split()

    def prometheus(self, expression: str) -> float | None:
        url = f"http://127.0.0.1:{self.environment['PROMETHEUS_PORT']}/api/v1/query"
        found = requests.get(url, params={"query": expression}, timeout=10).json()["data"]["result"]
        return float(found[0]["value"][1]) if found else None

    def ready(self) -> int:
        """Replicas that HAProxy sends requests to."""
        text = self("exec", "-T", "haproxy", "wget", "-q", "-O", "-", "http://127.0.0.1:8405/metrics")
        up = 'state="UP"} 1'
        return sum(
            line.startswith('haproxy_server_status{proxy="service",') and line.endswith(up) for line in text.split("\n")
        )

    def load(self, rate: float, seconds: float, warm_up: float) -> dict[str, Any]:
        """result.json of a run from the first load worker, which does nothing else meanwhile."""
        out = "/tmp/measured"  # in the container, whose only place to write is memory
        command = (
            *("exec", "-T", "--index", "1", "locust-worker", "python", "-m", "loadtest", "run"),
            *("--target", "http://haproxy:8000", "--arrivals", "poisson", "--rate", f"{rate:g}", "--seed", "1"),
            *("--duration", f"{seconds:g}s", "--warmup", f"{warm_up:g}s", "--out", out),
        )
        with contextlib.suppress(Failed):  # FAIL and INVALID are exit codes; the file says which
            self(*command, timeout_seconds=seconds + 60)
        result: dict[str, Any] = json.loads(
            self("exec", "-T", "--index", "1", "locust-worker", "cat", f"{out}/result.json")
        )
        self("exec", "-T", "--index", "1", "locust-worker", "rm", "-rf", out)
        return result


def _output(command: Sequence[str], environment: dict[str, str], timeout_seconds: float) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_seconds, check=False
    )
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-1500:]}")
    return done.stdout


def free_ports(names: Sequence[str]) -> dict[str, str]:
    with contextlib.ExitStack() as held:
        found = {}
        for name in names:
            probe = held.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            found[name] = str(probe.getsockname()[1])
    return found


def say(text: str) -> None:
    print(text, flush=True)


# --- parts ---------------------------------------------------------------------------------------------------------


def start(stack: Stack) -> None:
    """Cold: base images are here, nothing is built. Then with the image, then with the volumes as well."""
    began = time.monotonic()
    stack("build", "--no-cache", "service", timeout_seconds=900)
    built = time.monotonic() - began
    first = stack.up()
    stack("down", "--timeout", "30")
    second = stack.up()
    rows = [
        ["the image built anew, from the Python image and PyPI", f"{built:.0f} s"],
        ["first `up` with it: token made, model trained, all healthy", f"{first:.0f} s"],
        ["`up` after `down`: all healthy", f"{second:.0f} s"],
    ]
    say("## Start\n\n" + table(["what", "takes"], rows) + "\n")
    say("    $ docker compose ps")
    columns = "table {{.Service}}\t{{.Status}}\t{{.Ports}}"
    say("\n".join(f"    {line}".rstrip() for line in stack("ps", "--format", columns).splitlines()) + "\n")
    own, base = (
        json.loads(stack.docker("image", "inspect", image))[0]["Size"] / 1e6
        for image in (stack.environment["TAILBOARD_IMAGE"], stack.environment.get("PYTHON_IMAGE", "python:3.13-slim"))
    )
    say(f"Tailboard's image is {own:.0f} MB, of which {base:.0f} MB are the Python image that it is made from.\n")


def memory(stack: Stack, rate: float = 100.0) -> None:
    """Three replicas and four workers, after some seconds of a load from Locust's page."""
    stack.up("--no-recreate", replicas=3, workers=4)
    form = {"user_count": 400, "spawn_rate": 400, "host": "http://haproxy:8000", "arrivals": "poisson", "rate": rate}
    locust = f"http://127.0.0.1:{stack.environment['LOCUST_PORT']}"
    requests.post(f"{locust}/swarm", data=form, timeout=20).raise_for_status()
    time.sleep(20)
    columns = "{{.Name}}\t{{.MemUsage}}\t{{.CPUPerc}}"
    lines = stack.docker("stats", "--no-stream", "--format", columns).splitlines()
    requests.post(f"{locust}/stop", timeout=90).raise_for_status()
    rows = sorted(
        [name.removeprefix(f"{PROJECT}-"), *rest]
        for name, *rest in (line.split("\t") for line in lines)
        if name.startswith(PROJECT)
    )
    say(f"## Memory under {rate:g} requests/s\n\n" + table(["container", "memory / limit", "CPU"], rows) + "\n")


def panels() -> dict[str, str]:
    """Name of a figure → the query of the shipped dashboard that shows it."""
    found = {}
    for name, (uid, title, legend, _) in FIGURES.items():
        dashboard = json.loads((ROOT / f"grafana/dashboards/{uid}.json").read_text())
        queries = (
            target["expr"]
            for panel in dashboard["panels"]
            for target in panel["targets"]
            if (panel["title"], target["legendFormat"]) == (title, legend)
        )
        found[name] = next(queries).replace("$__rate_interval", "20s")
    return found


def crash(stack: Stack, rate: float = 60.0) -> None:
    """The program in one of three replicas is killed while an open loop goes on; the engine starts it again."""
    stack.up("--no-recreate", replicas=3, workers=1)
    results: list[dict[str, Any]] = []
    load = threading.Thread(target=lambda: results.append(stack.load(rate, 65, 5)))
    load.start()
    queries = panels()
    table_rows: dict[str, list[str]] = {name: [] for name in queries}

    def look() -> None:
        for name, query in queries.items():
            value = stack.prometheus(query)
            table_rows[name].append("-" if value is None else FIGURES[name][3].format(value))

    time.sleep(30)
    look()
    killed = time.monotonic()
    program = "import os; os.kill(int(open('/proc/1/task/1/children').read().split()[0]), 9)"
    with contextlib.suppress(Failed):  # it may be cut off with its container
        stack.docker("exec", stack.ids("service")[0], "python", "-I", "-S", "-c", program)
    _wait(lambda: stack.ready() < 3)
    noticed = time.monotonic() - killed
    time.sleep(5)
    look()
    _wait(lambda: stack.ready() == 3)
    recovered = time.monotonic() - killed
    time.sleep(max(0.0, 25 - (time.monotonic() - killed)))
    look()
    load.join(120)
    (result,) = results
    say(f"## A replica of three crashes under {rate:g} requests/s\n")
    counts = {name: result[name] for name in ("offered", "completed", "failed", "dropped")}
    say(f"Clients: {', '.join(f'{count:,} {name}' for name, count in counts.items())}.")
    latency = result["latency_seconds"]
    say(
        f"Latency over all arrivals: p50 {milliseconds(latency['p50'])}, p99 {milliseconds(latency['p99'])}, "
        f"longest {milliseconds(latency['max'])}. HAProxy left it out within {noticed:.1f} s and had three ready "
        f"replicas again after {recovered:.1f} s.\n"
    )
    head = ["dashboards' figure", "before", "5 s after", "25 s after"]
    say(table(head, [[name, *values] for name, values in table_rows.items()]) + "\n")


def _wait(done: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise Failed(f"not within {seconds:g} s")
        time.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Point:
    """The highest rate that held, and what its runs were like."""

    rate: float | None
    p99: float | None  # median of the runs at that rate
    limit: str  # what the first rate that did not hold failed by


def p99(runs: Sequence[dict[str, Any]]) -> float:
    """Median over the runs, in seconds, of p99 over all arrivals; lost ones are endless."""
    return statistics.median(float("inf") if (own := run["latency_seconds"]["p99"]) is None else own for run in runs)


def fastest(stack: Stack, limit_seconds: float, rates: Sequence[float]) -> Point:
    """The highest of the rates at which p99 stays within the limit."""
    runs: dict[float, list[dict[str, Any]]] = {}

    def holds(rate: float, times: int = 1) -> bool:
        told = runs.setdefault(rate, [])
        while len(told) < times:
            told.append(stack.load(rate, RUN_SECONDS, WARM_UP_SECONDS))
        return p99(told) <= limit_seconds

    rate = highest(rates, holds)
    while rate is not None and not holds(rate, RUNS):
        rate = max((lower for lower in rates if lower < rate), default=None)
    broke = min((each for each in runs if rate is None or each > rate), default=None)
    limit = "nothing that was tried" if broke is None else _why(runs[broke][0])
    if rate is None:
        return Point(None, None, limit)
    return Point(rate, p99(runs[rate]), limit)


def _why(result: dict[str, Any]) -> str:
    generator = result["generator"]["cpu_share"]
    return (
        f"at {result['planned_rate']:.0f}/s p99 {milliseconds(result['latency_seconds']['p99'])}, dispatch p99 "
        f"{milliseconds(result['dispatch_lateness_seconds']['p99'])}, generator {generator:.0%} of a core"
    )


def throughput(stack: Stack) -> None:
    rows = []
    for model, (limit, low, high) in MODELS.items():
        first = None
        for replicas in (1, 2, 3):
            stack.up(replicas=replicas, workers=1, model=model)
            stack.load(low, 4, 1)  # what is new has to learn its costs
            ends = (low, high) if first is None else (0.6 * first, 1.6 * replicas * first)
            point = fastest(stack, limit, rungs(*ends, STEP))
            first = first or point.rate
            times = f"{point.rate / first:.1f} ×" if point.rate and first else "-"
            rate = "-" if point.rate is None else f"{point.rate:.0f}/s"
            rows.append([model, milliseconds(limit), str(replicas), rate, times, milliseconds(point.p99), point.limit])
            say(f"… {' '.join(rows[-1])}")
    head = ["model", "p99 may be", "replicas", "rate", "of one", "p99 (median of 3)", "the next step"]
    say(f"\n## Throughput within a p99, steps of {STEP:g} ×\n\n" + table(head, rows) + "\n")


# --- program -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def stack(without: Sequence[str]) -> Iterator[Stack]:
    """A project of its own, which leaves nothing."""
    beside = Path(sys.executable).with_name("docker-compose")
    program = (str(beside),) if beside.exists() else ("docker", "compose")
    if not shutil.which("docker"):
        raise Failed("the program 'docker' is not on PATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SERVICE_", "TAILBOARD_"))}
    environment = kept | free_ports(PORTS) | {"TAILBOARD_IMAGE": f"{PROJECT}:local"}
    known = _output([*program, "--env-file", os.devnull, "config", "--services"], environment, 60).split()
    made = Stack(program, environment, tuple(name for name in known if name not in without))
    try:
        yield made
    finally:
        made("down", "--volumes", "--timeout", "10")
        with contextlib.suppress(Failed):
            made.docker("image", "rm", f"{PROJECT}:local")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compose", description="The compose stack, measured.")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="these parts (default: all)")
    parser.add_argument("--without", nargs="+", default=(), metavar="SERVICE", help="such as grafana")
    given = parser.parse_args(arguments)
    say(f"{describe()}\n")
    measures = {"start": start, "memory": memory, "crash": crash, "throughput": throughput}
    try:
        with stack(given.without) as made:
            for part in PARTS:
                if part in given.only:
                    measures[part](made)
    except (Failed, subprocess.TimeoutExpired, requests.RequestException) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; the containers are taken down", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
