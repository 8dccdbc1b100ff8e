"""ONNX files on onnxruntime, one thread. Outputs follow skl2onnx: the label first, then the probabilities."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime

from service.models.model import (
    PREDICT,
    PREDICT_PROBA,
    SAMPLE_ROWS,
    Array,
    InputDtype,
    ModelInfo,
    OutputInfo,
    describe_output,
    plain,
)
from service.models.spec import ModelError, ModelSpec

_INPUTS: Final[dict[str, InputDtype]] = {"tensor(float)": "float32", "tensor(double)": "float64"}


def load_onnx(spec: ModelSpec) -> "OnnxModel":
    """Raises ModelError with one sentence."""
    path = Path(spec.path or "")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what goes wrong is said once, in our own words
    try:
        session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:
        raise ModelError(
            f"{path} cannot be read as an ONNX model by onnxruntime {onnxruntime.__version__}: {_one_line(error)}"
        ) from error
    return OnnxModel(spec, session)


class OnnxModel:
    """One input [n, features]; `predict` is the first output, `predict_proba` the second where there is one."""

    def __init__(self, spec: ModelSpec, session: Any) -> None:
        inputs = session.get_inputs()
        if len(inputs) != 1:
            raise ModelError(f"{spec.path} has {len(inputs)} inputs; expected one of shape [rows, features]")
        dtype = _INPUTS.get(inputs[0].type)
        shape = inputs[0].shape
        if dtype is None or len(shape) != 2:
            raise ModelError(
                f"{spec.path} takes {inputs[0].type} of shape {shape}; expected 32- or 64-bit floats of shape "
                "[rows, features]"
            )
        if isinstance(shape[0], int):
            raise ModelError(f"{spec.path} takes exactly {shape[0]} rows a call; expected a first axis of any length")
        features = shape[1] if isinstance(shape[1], int) and shape[1] > 0 else None
        self._session = session
        self._input = inputs[0].name
        self._dtype = np.dtype(dtype)
        names = [output.name for output in session.get_outputs()]
        self._outputs = dict(zip((PREDICT, PREDICT_PROBA), names, strict=False))
        self._sample = np.zeros((SAMPLE_ROWS, features or 1), dtype=self._dtype)
        outputs: tuple[OutputInfo, ...] = ()
        if features is not None:
            try:
                outputs = tuple(describe_output(method, self.run(method, self._sample)) for method in self._outputs)
            except Exception as error:
                raise ModelError(f"{spec.path} cannot predict: {_one_line(error)}") from error
        self.info = ModelInfo(
            name=spec.name,
            features=features,
            input_dtype=dtype,
            methods=tuple(self._outputs),
            runtime="onnxruntime",
            platform="onnxruntime_onnx",
            version=onnxruntime.__version__,
            outputs=outputs,
        )

    def run(self, method: str, rows: Array) -> Array:
        with np.errstate(over="ignore"):  # checked in the next line
            given = np.ascontiguousarray(rows, dtype=self._dtype)
        if not np.isfinite(given).all():
            raise ValueError(f"a value is not finite or too large for the model's {self._dtype} input")
        (result,) = self._session.run([self._outputs[method]], {self._input: given})
        if isinstance(result, list):  # skl2onnx without zipmap=False: one {class: probability} for each row
            result = np.array([[row[label] for label in sorted(row)] for row in result])
        array = plain(result)
        return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 and method == PREDICT else array

    def warm_up(self) -> None:
        if self.info.features is not None:
            for method in self._outputs:
                self.run(method, self._sample)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
