"""One connection, one row: what the service adds to the bare model call, the two measured in turns."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.options import Options
from bench.rig import NotMeasured, Rig, start_seconds
from bench.servers import OURS, Runtime, Server

BARE_SECONDS: Final = 0.3
SERVED_SECONDS: Final = 1


@dataclass(slots=True)
class Latency:
    """p50 in seconds, one of each per repeat."""

    runtime: Runtime
    setting: str
    served: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)

    @property
    def added_seconds(self) -> float | None:
        """The median of one less the median of the other; None before the first full repeat."""
        if not self.served or not self.bare:
            return None
        return statistics.median(self.served) - statistics.median(self.bare)


def servers(quick: bool) -> tuple[Server, ...]:
    """Ours in the default setting, and for onnxruntime, which lets go of the interpreter, also without a worker."""
    wanted = (
        Server(OURS, "sklearn", "1 worker"),
        Server(OURS, "onnx", "1 worker"),
        Server(OURS, "onnx", "0 workers"),
    )
    return (wanted[0], wanted[2]) if quick else wanted


def estimate(options: Options) -> float:
    return len(servers(options.quick)) * _each_seconds(options)


def better(found: Sequence[Latency], runtime: Runtime) -> Latency | None:
    """The setting that adds least."""
    known = [latency for latency in found if latency.runtime == runtime and latency.added_seconds is not None]
    return min(known, key=lambda latency: latency.added_seconds or 0.0, default=None)


def measure(rig: Rig, found: list[Latency]) -> None:
    for server in servers(rig.options.quick):
        latency = Latency(server.runtime, server.setting)
        found.append(latency)
        with rig.serving(server) as served:
            rig.load(served, 1, SERVED_SECONDS)  # warm
            for _ in range(rig.options.repeats):
                rig.calibrate(f"latency {server.key}")
                bare = rig.yardstick.p50_seconds(server.runtime, BARE_SECONDS)
                reading = rig.load(served, 1, SERVED_SECONDS)
                if reading.p50_seconds is None or reading.errors:
                    raise NotMeasured(f"ours ({server.runtime}) gave {reading.errors} errors on one connection")
                latency.bare.append(bare)
                latency.served.append(reading.p50_seconds)
        rig.progress.done(
            _each_seconds(rig.options),
            f"latency {server.runtime:<7} {server.setting:<10} {1000 * statistics.median(latency.served):.2f} ms, bare "
            f"{1000 * statistics.median(latency.bare):.2f} ms",
        )


def _each_seconds(options: Options) -> float:
    return start_seconds(OURS, options) + options.repeats * (BARE_SECONDS + SERVED_SECONDS)
