"""The built-in model: a random forest on scikit-learn's handwritten digits, trained once and kept as a .skops file."""

import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import skops
import skops.io
from sklearn import __version__ as sklearn_version
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from service.models.files import load_skops
from service.models.spec import ModelError

log = logging.getLogger(__name__)

SEED = 0


def cache_path(trees: int, cache_dir: Path) -> Path:
    """One file for each number of trees and each set of versions that could change what is in it."""
    return cache_dir / f"digits-{trees}-sklearn{sklearn_version}-numpy{np.__version__}-skops{skops.__version__}.skops"


def load_digits_forest(trees: int, cache_dir: Path) -> Any:
    """The forest from the cache, else trained and put there. A cached file that cannot be read is made anew."""
    path = cache_path(trees, cache_dir)
    if path.exists():
        try:
            return load_skops(path)
        except ModelError as error:
            log.warning("training the digits forest anew: %s", error)
    forest = train(trees)
    try:
        _store(forest, path)
    except OSError as error:
        raise ModelError(
            f"the digits forest cannot be kept in {cache_dir}: {error.strerror or error}; expected a folder that "
            "can be written to (SERVICE_MODEL_CACHE_DIR)"
        ) from error
    return forest


def train(trees: int) -> Any:
    """The same forest on every machine with the same versions: seeded, and trees are independent of n_jobs."""
    rows, labels = load_digits(return_X_y=True)
    forest = RandomForestClassifier(n_estimators=trees, random_state=SEED, n_jobs=os.cpu_count())
    forest.fit(rows, labels)
    forest.n_jobs = 1
    return forest


def _store(forest: Any, path: Path) -> None:
    """Appears whole or not at all, whoever else trains at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
    os.close(handle)
    try:
        skops.io.dump(forest, name)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
