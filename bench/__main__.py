"""`make bench`: ours beside peers under the same load, and what of the targets is met.

Exit code 0 if all that was asked for was measured, whatever came of it; 1 if something could not be, 130 after Ctrl-C.
"""

import dataclasses
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from bench import (
    confirm,
    forest,
    large,
    latency,
    loadgen_run,
    machine,
    metrics_cost,
    options,
    overload,
    report,
    rig,
    servers,
    throughput,
)
from bench.environments import PeerEnvironmentError, prepare
from bench.found import Found
from bench.programs import ProgramFailed, adopt_orphans
from bench.progress import Progress, minutes
from bench.rig import NotMeasured, Rig
from bench.throughput import Throughput
from bench.yardstick import Yardstick
from stack.binaries import DEFAULT_BIN_DIR, BinariesError, obtain_wrk

INTERRUPTED: Final = 130


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    asked = options.read(sys.argv[1:])
    signal.signal(signal.SIGTERM, _interrupt)
    adopt_orphans()
    runtimes = tuple(runtime for runtime in ("sklearn", "onnx") if runtime in asked.parts)
    found = Found(asked, Throughput(servers.lineup(runtimes, asked.peers), asked.connections))
    described = machine.describe()
    try:
        measure(found)
    except KeyboardInterrupt:
        found.interrupted = True
    except (BinariesError, PeerEnvironmentError, ProgramFailed) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    text = report.text(found, described)
    say("\n" + text)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "report.md").write_text(text)
    (asked.out / "result.json").write_text(json.dumps(as_json(found, described), indent=1) + "\n")
    say(f"written to {asked.out / 'report.md'} and result.json")
    if found.interrupted:
        return INTERRUPTED
    return 0 if found.complete else 1


def measure(found: Found) -> None:
    """All parts, one after the other; what they find is in `found` from the moment that it is known."""
    asked = found.options
    wrk = obtain_wrk(Path(os.environ.get("TAILBOARD_BIN_DIR") or DEFAULT_BIN_DIR), say)
    logs = asked.out / "logs"
    generator_cpus, server_cpus = rig.cpus(asked.pin)
    files = forest.obtain(logs, say)
    prepare_peers(found, logs)
    parts = plan(found)
    progress = Progress(sum(seconds for _, seconds, _ in parts), say)
    say(f"measuring for about {minutes(progress.left_seconds())}; Ctrl-C stops and shows what there is")
    with Yardstick(files, logs / "bare.log", server_cpus) as yardstick:
        tools = Rig(asked, wrk, files, yardstick, progress, generator_cpus, server_cpus, found.calibrations)
        for name, seconds, run in parts:
            try:
                run(tools)
            except NotMeasured as error:
                found.failures[name] = str(error)
                progress.skip(seconds)
                progress.say(f"{name} was not measured: {error}")


def prepare_peers(found: Found, logs: Path) -> None:
    """Environments of all peers, before the clock of the measurements runs; a peer without one is left out."""
    for peer in found.options.peers:
        try:
            prepare(peer, logs, say)
        except PeerEnvironmentError as error:
            say(f"{peer} will not be measured: {error}")
            for server in found.throughput.servers:
                if server.peer == peer:
                    found.throughput.failures[server.key] = str(error)


def plan(found: Found) -> list[tuple[str, float, Callable[[Rig], None]]]:
    """(part, estimated seconds, what to do), those that were asked for."""
    asked = found.options
    lineup = found.throughput.servers
    runtimes = len({server.runtime for server in lineup})
    possible: dict[str, tuple[bool, float, Callable[[Rig], None]]] = {
        "throughput": (
            bool(lineup),
            throughput.estimate(lineup, asked),
            lambda rig: throughput.measure(rig, found.throughput),
        ),
        "open loop": (
            bool(lineup),
            confirm.estimate(runtimes, asked),
            lambda rig: confirm.measure(rig, found.throughput, found.confirmations),
        ),
        "latency": (
            "latency" in asked.parts,
            latency.estimate(asked),
            lambda rig: latency.measure(rig, found.latencies),
        ),
        "large": ("large" in asked.parts, large.estimate(asked), lambda rig: large.measure(rig, found.larges)),
        "metrics": (
            "metrics" in asked.parts,
            metrics_cost.estimate(asked),
            lambda rig: metrics_cost.measure(rig, found.metrics_cost),
        ),
        "overload": (
            "overload" in asked.parts,
            overload.estimate(asked),
            lambda rig: overload.measure(rig, found.overloads),
        ),
        "loadgen": (
            "loadgen" in asked.parts,
            loadgen_run.estimate(asked),
            lambda rig: loadgen_run.measure(rig, found.loadgen),
        ),
        "memory": (
            "memory" in asked.parts,
            loadgen_run.memory_estimate(asked),
            lambda rig: loadgen_run.measure_memory(rig, found.loadgen),
        ),
    }
    return [(name, seconds, run) for name, (wanted, seconds, run) in possible.items() if wanted]


def as_json(found: Found, described: str) -> dict[str, Any]:
    """Everything, the readings of each round included."""
    return {
        "machine": described,
        "options": {**dataclasses.asdict(found.options), "out": str(found.options.out)},
        "interrupted": found.interrupted,
        "throughput": [
            {
                **dataclasses.asdict(server),
                "connections": cell.connections,
                "requests_per_second": cell.rate,
                "p50_seconds": cell.p50_seconds,
                "p99_seconds": cell.p99_seconds,
                "counts": cell.counts,
                "readings": [dataclasses.asdict(reading) for reading in cell.readings],
            }
            for server in found.throughput.servers
            for cell in found.throughput.cells(server)
        ],
        "open_loop": [
            {**dataclasses.asdict(one), "holds": one.holds, "client_late": one.client_late}
            for one in found.confirmations
        ],
        "latency": [{**dataclasses.asdict(one), "added_seconds": one.added_seconds} for one in found.latencies],
        "large": [{**dataclasses.asdict(one), "share": one.share} for one in found.larges],
        "metrics": {**dataclasses.asdict(found.metrics_cost), "cost": found.metrics_cost.cost},
        "overload": [{**dataclasses.asdict(one), "share": one.share} for one in found.overloads],
        "loadgen": dataclasses.asdict(found.loadgen),
        "targets": [dataclasses.asdict(verdict) for verdict in found.verdicts()],
        "calibrations": [
            {"before": before, **dataclasses.asdict(calibration)} for before, calibration in found.calibrations
        ],
        "failures": {**found.throughput.failures, **found.failures},
    }


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
