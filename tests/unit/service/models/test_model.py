import json

import numpy as np
import pytest

from service.models.model import SAMPLE_ROWS, ModelInfo, OutputInfo, datatype, describe_output, plain


def test_info_survives_json() -> None:
    info = ModelInfo(
        name="m",
        features=None,
        input_dtype="float32",
        methods=("predict", "predict_proba"),
        runtime="r",
        platform="p",
        version="1",
        outputs=(OutputInfo("predict", "INT64", ()), OutputInfo("predict_proba", "FP64", (10,))),
        cost_samples=((1, 0.005), (32, 0.007)),
    )
    assert ModelInfo.from_json(json.loads(json.dumps(info.to_json()))) == info


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("int64", "INT64"), ("float32", "FP32"), ("float64", "FP64"), ("bool", "BOOL"), ("<U5", "BYTES")],
)
def test_protocol_names_of_dtypes(dtype: str, name: str) -> None:
    assert datatype(np.dtype(dtype)) == name


def test_an_output_is_described_without_its_rows() -> None:
    assert describe_output("predict_proba", np.zeros((SAMPLE_ROWS, 3))) == OutputInfo("predict_proba", "FP64", (3,))


@pytest.mark.parametrize("shape", [(), (2, SAMPLE_ROWS, 3)])
def test_an_output_without_a_row_for_each_row_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected one result for each row"):
        describe_output("predict_proba", np.zeros(shape))


def test_results_are_numbers_or_text() -> None:
    assert plain([1, 2]).dtype == np.int64
    assert plain(np.array(["yes", "no"], dtype=object)).dtype.kind == "U"
    with pytest.raises(ValueError, match="Python objects"):
        plain(np.array([{}, {}], dtype=object))
    with pytest.raises(ValueError, match="datetime64"):
        plain(np.array(["2026-01-01"], dtype="datetime64[D]"))
