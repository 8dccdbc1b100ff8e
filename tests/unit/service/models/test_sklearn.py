import json
import logging
import warnings
import zipfile
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import skops.io
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from service.models import ModelError, load, parse_model
from service.models.digits import cache_path
from service.models.sklearn import SklearnModel, forest_probabilities

X, Y = make_classification(n_samples=300, n_features=12, n_informative=8, n_classes=3, random_state=0)
SPEC = parse_model("model.skops")


def forests() -> list[Any]:
    return [
        RandomForestClassifier(17, random_state=0),
        RandomForestClassifier(9, random_state=1, class_weight="balanced", max_leaf_nodes=7),
        ExtraTreesClassifier(13, random_state=0, min_samples_leaf=5),
        RandomForestClassifier(1, random_state=0),
    ]


@pytest.mark.parametrize("forest", forests(), ids=lambda forest: type(forest).__name__)
@pytest.mark.parametrize("rows", [1, 2, 7, 128])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_averaging_the_trees_directly_is_identical_to_predict_proba(forest: Any, rows: int, dtype: Any) -> None:
    forest.fit(X, Y)
    batch = X[:rows].astype(dtype)
    model = SklearnModel(SPEC, forest)
    assert model.info.runtime == "sklearn-direct"
    np.testing.assert_array_equal(model.run("predict_proba", batch), forest.predict_proba(batch))
    np.testing.assert_array_equal(model.run("predict", batch), forest.predict(batch))


def test_averaging_the_trees_directly_is_identical_on_a_hundred_thousand_rows() -> None:
    forest = RandomForestClassifier(20, random_state=0).fit(X, Y)
    rows = np.random.default_rng(1).normal(0, 3, (100_000, X.shape[1]))
    np.testing.assert_array_equal(forest_probabilities(forest, rows), forest.predict_proba(rows))


def test_a_forest_takes_what_it_computes_in() -> None:
    """So that a value that is too large for it is refused on arrival, and narrowed rows give the same answer."""
    forest = RandomForestClassifier(5, random_state=0).fit(X, Y)
    model = SklearnModel(SPEC, forest)
    assert model.info.input_dtype == "float32"
    np.testing.assert_array_equal(model.run("predict_proba", X.astype(np.float32)), forest.predict_proba(X))
    assert SklearnModel(SPEC, LogisticRegression().fit(X, Y)).info.input_dtype == "float64"


def test_labels_may_be_text() -> None:
    forest = RandomForestClassifier(5, random_state=0).fit(X, np.array(["red", "green", "blue"], dtype=object)[Y])
    model = SklearnModel(SPEC, forest)
    assert list(model.run("predict", X[:9])) == list(forest.predict(X[:9]))
    assert [output.datatype for output in model.info.outputs] == ["BYTES", "FP64"]


class Boastful(RandomForestClassifier):  # type: ignore[misc]
    def predict_proba(self, rows: Any) -> Any:
        return np.ones((len(rows), 1))


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        RandomForestRegressor(5, random_state=0),
        GradientBoostingClassifier(n_estimators=5, random_state=0),
        HistGradientBoostingRegressor(max_iter=5, random_state=0),
        make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0, n_jobs=2)),
        Boastful(3),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_everything_else_answers_by_itself(estimator: Any) -> None:
    estimator.fit(X, Y)
    model = SklearnModel(SPEC, estimator)
    assert model.info.runtime == "sklearn"
    for method in model.info.methods:
        np.testing.assert_array_equal(model.run(method, X[:20]), getattr(estimator, method)(X[:20]))


@pytest.mark.parametrize("second", [Y, Y % 2])
def test_two_outputs_at_once_are_refused(second: Any) -> None:
    forest = RandomForestClassifier(5, random_state=0).fit(X, np.stack([Y, second], axis=1))
    with pytest.raises(ModelError, match="cannot predict"):
        SklearnModel(SPEC, forest)  # a list of arrays has no row for each row


def test_every_n_jobs_becomes_one() -> None:
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0, n_jobs=2)).fit(X, Y)
    SklearnModel(SPEC, pipeline)
    assert pipeline[-1].n_jobs == 1


def test_methods_and_outputs() -> None:
    model = SklearnModel(SPEC, LinearSVC().fit(X, Y))
    assert model.info.methods == ("predict",)
    model = SklearnModel(SPEC, RandomForestClassifier(3, random_state=0).fit(X, Y))
    assert model.info.methods == ("predict", "predict_proba")
    assert [(o.datatype, o.row_shape) for o in model.info.outputs] == [("INT64", ()), ("FP64", (3,))]
    assert model.info.features == 12


@pytest.mark.parametrize("bad", [1e300, np.inf, np.nan])
def test_what_a_forest_cannot_compute_with_is_an_error_and_no_warning(bad: float) -> None:
    forest = RandomForestClassifier(3, random_state=0).fit(X, Y)
    batch = X[:2].copy()
    batch[1, 3] = bad
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="not finite or too large"):
            forest_probabilities(forest, batch)


def test_an_unfitted_estimator_is_refused() -> None:
    with pytest.raises(ModelError, match="NotFittedError") as refusal:
        SklearnModel(SPEC, RandomForestClassifier(3))
    assert "\n" not in str(refusal.value)


# --- files -----------------------------------------------------------------------------------------------------------


def load_file(path: Path, allow_pickle: bool = False) -> Any:
    return load(parse_model(str(path)), path.parent, allow_pickle)


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(5, random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_skops_files(tmp_path: Path, estimator: Any) -> None:
    estimator.fit(X, Y)
    skops.io.dump(estimator, tmp_path / "churn.skops")
    model = load_file(tmp_path / "churn.skops")
    assert model.info.name == "churn"
    np.testing.assert_array_equal(model.run("predict", X), estimator.predict(X))


def one_sentence(path: Path, allow_pickle: bool = False) -> str:
    with pytest.raises(ModelError) as refusal:
        load_file(path, allow_pickle)
    text = str(refusal.value)
    assert "\n" not in text
    return text


def test_types_that_are_not_trusted_are_named(tmp_path: Path) -> None:
    skops.io.dump(Boastful(3).fit(X, Y), tmp_path / "m.skops")
    assert "types that are not trusted" in one_sentence(tmp_path / "m.skops")
    assert "Boastful" in one_sentence(tmp_path / "m.skops")


def test_a_missing_file(tmp_path: Path) -> None:
    for name in ("m.skops", "m.joblib", "m.onnx"):
        assert f"there is no model file {tmp_path / name}" in one_sentence(tmp_path / name)
    (tmp_path / "folder.skops").mkdir()
    assert "there is no model file" in one_sentence(tmp_path / "folder.skops")


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 broken"])
def test_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.skops").write_bytes(content)
    assert "cannot be read as a skops file" in one_sentence(tmp_path / "m.skops")


def test_a_truncated_file(tmp_path: Path) -> None:
    skops.io.dump(LogisticRegression().fit(X, Y), tmp_path / "m.skops")
    content = (tmp_path / "m.skops").read_bytes()
    (tmp_path / "m.skops").write_bytes(content[: len(content) // 2])
    assert "cannot be read as a skops file" in one_sentence(tmp_path / "m.skops")


def rewrite(path: Path, change: Any) -> None:
    """Rewrites the schema and the arrays of a skops file."""
    with zipfile.ZipFile(path) as source:
        files = {name: source.read(name) for name in source.namelist()}
    files = change(files)
    with zipfile.ZipFile(path, "w") as target:
        for name, content in files.items():
            target.writestr(name, content)


def test_a_file_without_what_these_versions_expect(tmp_path: Path) -> None:
    skops.io.dump(LogisticRegression().fit(X, Y), tmp_path / "m.skops")

    def change(files: dict[str, bytes]) -> dict[str, bytes]:
        schema = json.loads(files["schema.json"])
        del schema["content"]
        return {**files, "schema.json": json.dumps(schema).encode()}

    rewrite(tmp_path / "m.skops", change)
    assert "saved with the versions that run here" in one_sentence(tmp_path / "m.skops")


@pytest.mark.parametrize("field", ["left_child", "right_child", "feature"])
@pytest.mark.parametrize("value", [10_000_000, -7, 0])
def test_trees_whose_nodes_lead_astray_are_refused(tmp_path: Path, field: str, value: int) -> None:
    """skops names these as the reason why it does not trust trees: prediction would read outside memory or for ever."""
    forest = RandomForestClassifier(3, random_state=0).fit(X, Y)
    skops.io.dump(forest, tmp_path / "m.skops")

    def change(files: dict[str, bytes]) -> dict[str, bytes]:
        import io

        changed = 0
        for name, content in files.items():
            if name.endswith(".npy"):
                array = np.load(io.BytesIO(content))
                if array.dtype.names and field in array.dtype.names:
                    array[field][0] = value if field != "feature" or value else 12
                    out = io.BytesIO()
                    np.save(out, array)
                    files[name] = out.getvalue()
                    changed += 1
        assert changed == 3
        return files

    rewrite(tmp_path / "m.skops", change)
    assert "damaged decision tree" in one_sentence(tmp_path / "m.skops")


def test_joblib_only_where_it_is_allowed(tmp_path: Path) -> None:
    estimator = LogisticRegression().fit(X, Y)
    joblib.dump(estimator, tmp_path / "m.joblib")
    assert "SERVICE_ALLOW_PICKLE=true" in one_sentence(tmp_path / "m.joblib")
    np.testing.assert_array_equal(
        load_file(tmp_path / "m.joblib", allow_pickle=True).run("predict", X), estimator.predict(X)
    )
    joblib.dump({"no": "estimator"}, tmp_path / "d.joblib")
    assert "holds a dict; expected an estimator" in one_sentence(tmp_path / "d.joblib", allow_pickle=True)
    (tmp_path / "e.joblib").write_bytes(b"broken")
    assert "cannot be read as a joblib file" in one_sentence(tmp_path / "e.joblib", allow_pickle=True)


# --- the built-in model ----------------------------------------------------------------------------------------------


def test_digits_are_trained_once_and_kept(tmp_path: Path) -> None:
    spec = parse_model("digits?trees=5")
    first = load(spec, tmp_path, False)
    path = cache_path(5, tmp_path)
    written = path.stat().st_mtime_ns
    second = load(spec, tmp_path, False)
    assert path.stat().st_mtime_ns == written
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    rows = np.arange(64 * 3.0).reshape(3, 64) % 17
    np.testing.assert_array_equal(first.run("predict_proba", rows), second.run("predict_proba", rows))
    assert (first.info.features, first.info.name) == (64, "digits")
    assert cache_path(6, tmp_path) != path


def test_a_damaged_cache_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = cache_path(5, tmp_path)
    path.write_bytes(b"half a file")
    with caplog.at_level(logging.WARNING):
        load(parse_model("digits?trees=5"), tmp_path, False)
    assert "training the digits forest anew" in caplog.text
    assert zipfile.is_zipfile(path)


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match=r"cannot be kept in .*SERVICE_MODEL_CACHE_DIR"):
        load(parse_model("digits?trees=2"), tmp_path / "file", False)
