"""Ray Serve with the forest: one replica, batches of up to 128 requests, MAX_WAIT_MS for company."""

import os
import signal
from pathlib import Path

import joblib
import numpy as np
import ray
from ray import serve
from starlette.requests import Request

MODEL = str(Path(os.environ["FOREST"]) / "forest.joblib")
MAX_WAIT_SECONDS = int(os.environ["MAX_WAIT_MS"]) / 1000


@serve.deployment(num_replicas=1, max_ongoing_requests=1000)
class Forest:
    def __init__(self, path):
        self.model = joblib.load(path)

    @serve.batch(max_batch_size=128, batch_wait_timeout_s=MAX_WAIT_SECONDS)
    async def run(self, rows):
        return self.model.predict_proba(np.array(rows)).tolist()

    async def __call__(self, request: Request):
        body = await request.json()
        return {"predictions": [await self.run(body["instances"][0])]}


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    serve.start(http_options={"host": "127.0.0.1", "port": int(os.environ["PORT"])})
    serve.run(Forest.bind(MODEL))
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    ray.shutdown()
