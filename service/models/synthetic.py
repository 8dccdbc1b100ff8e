"""A model of known cost: waits instead of computing, so that queueing can be studied on any machine."""

import time
from typing import Final

import numpy as np

from service.models.model import PREDICT, Array, ModelInfo, OutputInfo
from service.models.spec import ModelSpec

VERSION: Final = "1"


class SyntheticModel:
    """One call of n rows takes fixed_seconds + per_row_seconds · n and answers the sum of each row."""

    def __init__(self, spec: ModelSpec) -> None:
        self._fixed_seconds = spec.fixed_seconds
        self._per_row_seconds = spec.per_row_seconds
        self.info = ModelInfo(
            name=spec.name,
            features=spec.features,
            input_dtype="float64",
            methods=(PREDICT,),
            runtime="synthetic",
            platform="synthetic",
            version=VERSION,
            outputs=(OutputInfo(PREDICT, "FP64", ()),),
        )

    def run(self, method: str, rows: Array) -> Array:
        started = time.perf_counter()
        sums: Array = np.asarray(rows, dtype=np.float64).sum(axis=1)
        left = self._fixed_seconds + self._per_row_seconds * len(rows) - (time.perf_counter() - started)
        if left > 0:
            time.sleep(left)
        return sums

    def warm_up(self) -> None:
        """Nothing to warm."""
