"""Models and their runtimes. Importing this package imports none of them: scikit-learn costs seconds and memory."""

from pathlib import Path

from service.models.model import Model, ModelInfo, OutputInfo
from service.models.spec import ModelError, ModelSpec, parse_model

__all__ = ["Model", "ModelError", "ModelInfo", "ModelSpec", "OutputInfo", "check_file", "load", "parse_model"]


def load(spec: ModelSpec, cache_dir: Path, allow_pickle: bool) -> Model:
    """Loads a model into this process, importing only its own runtime. Raises ModelError with one sentence."""
    check_file(spec, allow_pickle)
    if spec.kind == "synthetic":
        from service.models.synthetic import SyntheticModel

        return SyntheticModel(spec)
    if spec.kind == "onnx":
        from service.models.onnx import load_onnx

        return load_onnx(spec)
    if spec.kind == "digits":
        from service.models.digits import load_digits_forest
        from service.models.sklearn import SklearnModel

        return SklearnModel(spec, load_digits_forest(spec.trees, cache_dir))
    from service.models.files import load_estimator
    from service.models.sklearn import SklearnModel

    return SklearnModel(spec, load_estimator(spec))


def check_file(spec: ModelSpec, allow_pickle: bool) -> None:
    """What can be said before any library is imported. Raises ModelError with one sentence."""
    if spec.path is None:
        return
    if not Path(spec.path).is_file():
        raise ModelError(f"there is no model file {spec.path}; SERVICE_MODEL should be the path of one that exists")
    if spec.kind == "joblib" and not allow_pickle:
        raise ModelError(
            f"{spec.path} is a joblib file, which runs any code it holds when loaded; expected a .skops or .onnx file, "
            "or SERVICE_ALLOW_PICKLE=true if you trust it"
        )
