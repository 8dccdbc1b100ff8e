"""The one thing that every runtime provides, and the facts about a model that others may know without loading it."""

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
InputDtype = Literal["float64", "float32"]

PREDICT: Final = "predict"
PREDICT_PROBA: Final = "predict_proba"
METHODS: Final = (PREDICT, PREDICT_PROBA)


@dataclass(frozen=True, slots=True)
class OutputInfo:
    """One output as the Open Inference Protocol describes it; the first axis, the rows, is not part of `row_shape`."""

    name: str  # the method that yields it
    datatype: str  # FP32, FP64, INT64, BYTES, ...
    row_shape: tuple[int, ...]  # -1 where the length is not known


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the web layer needs to know of a model. Plain values: it crosses a process boundary as JSON."""

    name: str
    features: int | None  # columns of a row; None if the model does not say
    input_dtype: InputDtype
    methods: tuple[str, ...]
    runtime: str  # sklearn-direct, sklearn, onnxruntime, synthetic
    platform: str  # of v2 metadata, e.g. sklearn_randomforestclassifier
    version: str  # of the library that runs it
    outputs: tuple[OutputInfo, ...]
    cost_samples: tuple[tuple[int, float], ...] = ()  # (rows, seconds) of calls timed at the start

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "ModelInfo":
        outputs = tuple(
            OutputInfo(output["name"], output["datatype"], tuple(output["row_shape"])) for output in values["outputs"]
        )
        samples = tuple((int(rows), float(seconds)) for rows, seconds in values["cost_samples"])
        return cls(**{**values, "methods": tuple(values["methods"]), "outputs": outputs, "cost_samples": samples})


class Model(Protocol):
    """A loaded model. Used by one thread at a time."""

    @property
    def info(self) -> ModelInfo: ...

    def run(self, method: str, rows: Array) -> Array:
        """`rows` is [n, features] in the input dtype; returns n rows. May raise anything about bad rows."""
        ...

    def warm_up(self) -> None:
        """Makes the first request as fast as any other."""
        ...


_DATATYPES: Final = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
}


def datatype(dtype: np.dtype[Any]) -> str:
    """The v2 protocol's name of a numpy dtype; text is BYTES."""
    return _DATATYPES.get(dtype.name, "BYTES")


SAMPLE_ROWS: Final = 7  # an unlikely number of outputs, so that outputs are not taken for rows


def describe_output(method: str, sample: Array) -> OutputInfo:
    """An output's description from what the model returned for SAMPLE_ROWS rows; ValueError if it cannot be cut."""
    if sample.ndim < 1 or len(sample) != SAMPLE_ROWS:
        raise ValueError(f"{method} of {SAMPLE_ROWS} rows has shape {sample.shape}; expected one result for each row")
    return OutputInfo(method, datatype(sample.dtype), tuple(sample.shape[1:]))


def plain(result: Any) -> Array:
    """A result as an array of numbers, booleans or text: no Python objects, so that it can cross to another process.

    Raises ValueError for anything else.
    """
    array = np.asarray(result)
    if array.dtype == object:
        if not all(isinstance(value, str) for value in array.ravel()):
            raise ValueError("the model returned Python objects; expected numbers or text")
        array = array.astype(str)
    if array.dtype.kind not in "biufU":
        raise ValueError(f"the model returned values of type {array.dtype}; expected numbers or text")
    return array
