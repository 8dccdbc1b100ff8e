from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, save
from skl2onnx import to_onnx
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression

from service.models import ModelError, load, parse_model

X, Y = make_classification(n_samples=200, n_features=12, n_informative=8, n_classes=3, random_state=0)
X32 = X.astype(np.float32)


def write(path: Path, estimator: Any, sample: Any = X32[:1], **options: Any) -> Any:
    onnx = to_onnx(estimator, sample, options={id(estimator): options} if options else None)
    path.write_bytes(onnx.SerializeToString())
    return load(parse_model(str(path)), path.parent, False)


def test_a_classifier_as_skl2onnx_writes_it(tmp_path: Path) -> None:
    forest = RandomForestClassifier(11, random_state=0).fit(X, Y)
    model = write(tmp_path / "forest.onnx", forest, zipmap=False)
    assert (model.info.methods, model.info.features) == (("predict", "predict_proba"), 12)
    assert (model.info.input_dtype, model.info.name) == ("float32", "forest")
    np.testing.assert_array_equal(model.run("predict", X32), forest.predict(X32))
    np.testing.assert_allclose(model.run("predict_proba", X32), forest.predict_proba(X32), atol=1e-6)
    assert [(o.datatype, o.row_shape) for o in model.info.outputs] == [("INT64", ()), ("FP32", (3,))]


def test_probabilities_as_maps(tmp_path: Path) -> None:
    forest = RandomForestClassifier(11, random_state=0).fit(X, Y)
    model = write(tmp_path / "forest.onnx", forest)
    np.testing.assert_allclose(model.run("predict_proba", X32), forest.predict_proba(X32), atol=1e-6)


def test_text_labels(tmp_path: Path) -> None:
    forest = RandomForestClassifier(11, random_state=0).fit(X, np.array(["red", "green", "blue"])[Y])
    model = write(tmp_path / "forest.onnx", forest, zipmap=False)
    assert list(model.run("predict", X32)) == list(forest.predict(X32))
    assert model.info.outputs[0].datatype == "BYTES"


def test_a_regressor_answers_one_number_a_row(tmp_path: Path) -> None:
    regressor = LinearRegression().fit(X, Y)
    model = write(tmp_path / "r.onnx", regressor)
    assert model.info.methods == ("predict",)
    assert model.run("predict", X32[:5]).shape == (5,)
    np.testing.assert_allclose(model.run("predict", X32), regressor.predict(X32), rtol=1e-3, atol=1e-4)


def test_double_inputs_stay_double(tmp_path: Path) -> None:
    model = write(tmp_path / "r.onnx", LinearRegression().fit(X, Y), sample=X[:1])
    assert model.info.input_dtype == "float64"


def test_a_value_too_large_for_its_input_is_an_error(tmp_path: Path) -> None:
    model = write(tmp_path / "r.onnx", LinearRegression().fit(X, Y))
    with pytest.raises(ValueError, match="too large for the model's float32 input"):
        model.run("predict", np.full((1, 12), 1e300))


def graph(path: Path, shapes: list[list[Any]], kind: int) -> None:
    inputs = [helper.make_tensor_value_info(f"x{i}", kind, shape) for i, shape in enumerate(shapes)]
    output = helper.make_tensor_value_info("y", kind, shapes[0])
    model = helper.make_model(
        helper.make_graph([helper.make_node("Identity", ["x0"], ["y"])], "g", inputs, [output]),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    save(model, path)


@pytest.mark.parametrize(
    ("shapes", "kind", "says"),
    [
        ([[None, 3], [None, 2]], TensorProto.FLOAT, "has 2 inputs; expected one"),
        ([[None, 3]], TensorProto.INT64, "takes tensor(int64)"),
        ([[None, 3, 4]], TensorProto.FLOAT, "expected 32- or 64-bit floats of shape [rows, features]"),
        ([[4, 3]], TensorProto.FLOAT, "takes exactly 4 rows a call"),
    ],
)
def test_graphs_that_cannot_be_batched(tmp_path: Path, shapes: list[list[Any]], kind: int, says: str) -> None:
    graph(tmp_path / "g.onnx", shapes, kind)
    with pytest.raises(ModelError) as refusal:
        load(parse_model(str(tmp_path / "g.onnx")), tmp_path, False)
    assert says in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"not onnx at all"])
def test_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(ModelError, match="cannot be read as an ONNX model") as refusal:
        load(parse_model(str(tmp_path / "m.onnx")), tmp_path, False)
    assert "\n" not in str(refusal.value)
