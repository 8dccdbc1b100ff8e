"""Requests of 512 rows as binary tensors of the v2 protocol, against the bare runtime on 512 rows, in turns."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from bench.forest import FEATURES, FILES
from bench.latency import servers
from bench.options import Options
from bench.rig import Rig, start_seconds
from bench.servers import OURS, Runtime
from bench.wrk import Request

ROWS: Final = 512
CONNECTIONS: Final = (2, 4)
QUEUE_ROWS: Final = 2048  # all of them may wait at once; the default of 1024 would turn the third away
BARE_SECONDS: Final = 0.5
SERVED_SECONDS: Final = 1
_DATATYPE: Final = ("FP32", "<f4")  # what forests compute in, in either runtime


@dataclass(slots=True)
class Large:
    """Rows a second, one of each per repeat; a run with an error is no rate."""

    runtime: Runtime
    setting: str
    served: dict[int, list[float]] = field(default_factory=dict)  # by connections
    bare: list[float] = field(default_factory=list)
    errors: int = 0

    @property
    def best(self) -> tuple[int, float] | None:
        """(connections, rows a second) at the better number of connections."""
        rates = [(connections, statistics.median(values)) for connections, values in self.served.items() if values]
        return max(rates, key=lambda pair: pair[1], default=None)

    @property
    def share(self) -> float | None:
        """Of the bare runtime's rows a second."""
        best = self.best
        return best[1] / statistics.median(self.bare) if best and self.bare else None


def request() -> Request:
    """One request of ROWS rows, its JSON first and the tensor's bytes behind it."""
    name, code = _DATATYPE
    data = np.random.default_rng(0).normal(size=(ROWS, FEATURES)).astype(code).tobytes()
    tensor = {
        "name": "input",
        "shape": [ROWS, FEATURES],
        "datatype": name,
        "parameters": {"binary_data_size": len(data)},
    }
    output = {"name": "predict_proba", "parameters": {"binary_data": True}}
    head = json.dumps({"inputs": [tensor], "outputs": [output]}).encode()
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
    return Request("/v2/models/forest/infer", head + data, headers)


def estimate(options: Options) -> float:
    return len(servers(options.quick)) * _each_seconds(options)


def better(found: Sequence[Large], runtime: Runtime) -> Large | None:
    """The setting that reaches most."""
    known = [large for large in found if large.runtime == runtime and large.share is not None]
    return max(known, key=lambda large: large.share or 0.0, default=None)


def measure(rig: Rig, found: list[Large]) -> None:
    for server in servers(rig.options.quick):
        large = Large(server.runtime, server.setting)
        found.append(large)
        workers = server.setting.partition(" ")[0]
        model = str(rig.forest / FILES[server.runtime])
        limits = {"max_batch_rows": str(ROWS), "queue_capacity_rows": str(QUEUE_ROWS)}
        with rig.ours(model, request(), model_workers=workers, **limits) as served:
            rig.load(served, CONNECTIONS[0], SERVED_SECONDS)  # warm
            for _ in range(rig.options.repeats):
                rig.calibrate(f"large {server.key}")
                large.bare.append(rig.yardstick.rows_per_second(server.runtime, ROWS, BARE_SECONDS))
                for connections in CONNECTIONS:
                    reading = rig.load(served, connections, SERVED_SECONDS)
                    large.errors += reading.errors
                    if not reading.errors:
                        large.served.setdefault(connections, []).append(ROWS * reading.good_per_second)
        shown = "no run without errors" if large.share is None else f"{large.share:.2f} of the bare runtime's rows/s"
        rig.progress.done(_each_seconds(rig.options), f"{ROWS} rows {server.runtime:<7} {server.setting:<10} {shown}")


def _each_seconds(options: Options) -> float:
    return start_seconds(OURS, options) + options.repeats * (BARE_SECONDS + len(CONNECTIONS) * SERVED_SECONDS)
