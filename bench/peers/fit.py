"""Fits the forest that every server serves and saves it in each server's format: fit.py DIRECTORY."""

import sys
from pathlib import Path

import joblib
import numpy as np
import skops.io
from skl2onnx import to_onnx
from sklearn.ensemble import RandomForestClassifier

TREES = 100
FEATURES = 20


def main(directory: Path) -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(2000, FEATURES))
    classes = (rows[:, 0] + rows[:, 1] > 0).astype(int)
    forest = RandomForestClassifier(n_estimators=TREES, random_state=0, n_jobs=1).fit(rows, classes)
    joblib.dump(forest, directory / "forest.joblib")
    skops.io.dump(forest, directory / "forest.skops")
    onnx = to_onnx(forest, rows[:1].astype(np.float32), options={"zipmap": False})
    (directory / "forest.onnx").write_bytes(onnx.SerializeToString())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
