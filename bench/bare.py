"""The bare model in a process like a model worker: the same runtime function, called in a loop with nothing around it.

`python -m bench.bare SKLEARN_MODEL ONNX_MODEL` reads one JSON order a line and answers each with one line:
{"time": "sklearn", "rows": 1, "seconds": 1.0} → {"calls", "seconds", "p50_seconds"}
{"calibrate": true} → {"python_seconds", "model_seconds"}: the same work each time, so that a slow moment shows.
"""

import gc
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from service.models import Model, load, parse_model
from service.models.model import PREDICT_PROBA

_PYTHON_STEPS: Final = 100_000  # about 5 ms
_MODEL_CALLS: Final = 10
_MOST_CALLS: Final = 1_000_000


def timed(model: Model, rows: int, seconds: float) -> dict[str, Any]:
    """Calls for that long; the median of one call, and how many there were."""
    batch = np.random.default_rng(0).normal(size=(rows, model.info.features or 1)).astype(model.info.input_dtype)
    for _ in range(3):
        model.run(PREDICT_PROBA, batch)
    times: list[float] = []
    began = now = time.perf_counter()
    while now - began < seconds and len(times) < _MOST_CALLS:
        started = now
        model.run(PREDICT_PROBA, batch)
        now = time.perf_counter()
        times.append(now - started)
    return {"calls": len(times), "seconds": now - began, "p50_seconds": statistics.median(times)}


def calibrate(model: Model) -> dict[str, float]:
    """Seconds of a fixed loop of plain Python, and of one call of the model on one row."""
    started = time.perf_counter()
    total = 0
    for number in range(_PYTHON_STEPS):
        total += number & 7
    python_seconds = time.perf_counter() - started
    batch = np.zeros((1, model.info.features or 1), dtype=model.info.input_dtype)
    times = []
    for _ in range(_MODEL_CALLS):
        started = time.perf_counter()
        model.run(PREDICT_PROBA, batch)
        times.append(time.perf_counter() - started)
    return {"python_seconds": python_seconds, "model_seconds": statistics.median(times)}


def main() -> int:
    paths = dict(zip(("sklearn", "onnx"), sys.argv[1:], strict=True))
    models = {name: load(parse_model(path), Path("."), allow_pickle=False) for name, path in paths.items()}
    for model in models.values():
        model.warm_up()
    gc.collect()
    gc.freeze()  # as the worker does
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if "time" in order:
            answer: dict[str, Any] = timed(models[order["time"]], order["rows"], order["seconds"])
        else:
            answer = calibrate(models["sklearn"])
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
