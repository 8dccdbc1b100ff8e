"""BentoML with the forest: one worker, adaptive batches of up to 128 rows, as `bentoml serve bentoml_app:Forest`."""

import os
from pathlib import Path

import bentoml
import joblib
import numpy as np


@bentoml.service(workers=1, traffic={"timeout": 30})
class Forest:
    def __init__(self):
        self.model = joblib.load(Path(os.environ["FOREST"]) / "forest.joblib")

    @bentoml.api(batchable=True, max_batch_size=128, max_latency_ms=1000)
    def predict(self, instances: np.ndarray) -> np.ndarray:
        return self.model.predict_proba(instances)
