"""NVIDIA Triton, through pytriton, with the forest: batches of up to 128 rows, MAX_WAIT_MS for company."""

import os
from pathlib import Path

import joblib
import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

MODEL = joblib.load(Path(os.environ["FOREST"]) / "forest.joblib")
PORT = int(os.environ["PORT"])
MORE_PORTS = [int(port) for port in os.environ["MORE_PORTS"].split(",")]


@batch
def infer(x):
    return {"y": MODEL.predict_proba(x).astype(np.float32)}


if __name__ == "__main__":
    wait = int(os.environ["MAX_WAIT_MS"]) * 1000
    config = ModelConfig(max_batch_size=128, batcher=DynamicBatcher(max_queue_delay_microseconds=wait))
    addresses = {"http_address": "127.0.0.1", "grpc_address": "127.0.0.1", "metrics_address": "127.0.0.1"}
    ports = {"http_port": PORT, "grpc_port": MORE_PORTS[0], "metrics_port": MORE_PORTS[1]}
    with Triton(config=TritonConfig(**addresses, **ports)) as triton:
        triton.bind(
            model_name="forest",
            infer_func=infer,
            config=config,
            inputs=[Tensor(name="x", dtype=np.float64, shape=(20,))],
            outputs=[Tensor(name="y", dtype=np.float32, shape=(2,))],
        )
        triton.serve()
