"""LitServe with the forest: one worker, batches of up to 128 requests, MAX_WAIT_MS for company."""

import os
from pathlib import Path

import joblib
import litserve
import numpy as np


class Forest(litserve.LitAPI):
    def setup(self, device):
        self.model = joblib.load(Path(os.environ["FOREST"]) / "forest.joblib")

    def decode_request(self, request):
        return request["instances"][0]

    def batch(self, inputs):
        return np.array(inputs)

    def predict(self, rows):
        return self.model.predict_proba(rows)

    def unbatch(self, output):
        return output.tolist()

    def encode_response(self, output):
        return {"predictions": [output]}


if __name__ == "__main__":
    api = Forest(max_batch_size=128, batch_timeout=int(os.environ["MAX_WAIT_MS"]) / 1000)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=int(os.environ["PORT"]), generate_client_file=False)
