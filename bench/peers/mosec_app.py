"""mosec with the forest: predict_proba as its users would call it, its trees averaged directly, or onnxruntime.

RUNTIME is sklearn, lean or onnx; MAX_WAIT_MS the batcher's wait; FOREST the directory of the model's files.
"""

import os
from pathlib import Path

import numpy as np
from mosec import Server, Worker

FOREST = Path(os.environ["FOREST"])
RUNTIME = os.environ["RUNTIME"]
MAX_BATCH_ROWS = 128


class Forest(Worker):
    def __init__(self):
        super().__init__()
        if RUNTIME == "onnx":
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            options.inter_op_num_threads = 1
            session = onnxruntime.InferenceSession(str(FOREST / "forest.onnx"), options)
            name = session.get_inputs()[0].name
            self.run = lambda rows: session.run(["probabilities"], {name: rows.astype(np.float32)})[0]
            return
        import joblib

        model = joblib.load(FOREST / "forest.joblib")
        self.run = model.predict_proba if RUNTIME == "sklearn" else lambda rows: averaged(model, rows)

    def forward(self, data):
        rows = self.run(np.array([request["instances"][0] for request in data]))
        return [{"predictions": [row]} for row in rows.tolist()]


def averaged(model, rows):
    """What predict_proba returns, without its checks and its dispatch of jobs."""
    rows = rows.astype(np.float32)
    return sum(tree.predict_proba(rows, check_input=False) for tree in model.estimators_) / len(model.estimators_)


if __name__ == "__main__":
    server = Server()
    server.append_worker(Forest, num=1, max_batch_size=MAX_BATCH_ROWS, max_wait_time=int(os.environ["MAX_WAIT_MS"]))
    server.run()
