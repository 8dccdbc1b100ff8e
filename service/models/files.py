"""scikit-learn estimators from files: .skops, whose types are checked before anything is built; .joblib if allowed."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import joblib
import numpy as np
import skops.io
from sklearn.base import BaseEstimator
from sklearn.tree._tree import Tree
from skops.io.exceptions import UnsupportedTypeException, UntrustedTypesFoundException

from service.models.spec import ModelError, ModelSpec

# skops holds trees back because their node numbers are followed without a bounds check. They are checked here instead.
CHECKED_TYPES: Final = ("sklearn.tree._tree.Tree",)


def load_estimator(spec: ModelSpec) -> Any:
    """The fitted estimator of a .skops file, or of a .joblib file that is allowed. Raises ModelError."""
    path = Path(spec.path or "")
    return load_skops(path) if spec.kind == "skops" else _load_joblib(path)


def load_skops(path: Path) -> Any:
    """Raises ModelError for a file that is damaged, of another version or holds types that are not trusted."""
    try:
        unknown = set(skops.io.get_untrusted_types(file=path)) - set(CHECKED_TYPES)
        if unknown:
            raise ModelError(
                f"{path} holds types that are not trusted: {', '.join(sorted(unknown))}; expected only those of "
                "scikit-learn and numpy that skops knows to be safe (exporting the model to .onnx avoids this)"
            )
        estimator = skops.io.load(path, trusted=list(CHECKED_TYPES))
    except UntrustedTypesFoundException as error:
        raise ModelError(f"{path} holds types that are not trusted: {_one_line(error)}") from error
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error
    except (
        UnsupportedTypeException,
        zipfile.BadZipFile,
        AttributeError,
        EOFError,
        ImportError,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:
        raise ModelError(
            f"{path} cannot be read as a skops file: {_one_line(error)}; expected one written by skops.io.dump with "
            f"the versions that run here (scikit-learn {_version('sklearn')}, skops {_version('skops')})"
        ) from error
    _check_trees(path, estimator)
    return _fitted(path, estimator)


def _load_joblib(path: Path) -> Any:
    try:
        estimator = joblib.load(path)
    except Exception as error:
        raise ModelError(
            f"{path} cannot be read as a joblib file: {type(error).__name__}: {_one_line(error)}; expected one written "
            f"with the versions that run here (scikit-learn {_version('sklearn')})"
        ) from error
    return _fitted(path, estimator)


def _fitted(path: Path, estimator: Any) -> Any:
    if not callable(getattr(estimator, "predict", None)):
        raise ModelError(f"{path} holds a {type(estimator).__name__}; expected an estimator with predict")
    return estimator


def _check_trees(path: Path, root: Any) -> None:
    """Node numbers must stay inside their tree and lead downwards, features inside the row."""
    for tree in _trees(root):
        nodes = np.arange(tree.node_count)
        left, right, feature = tree.children_left, tree.children_right, tree.feature
        inner = left != -1
        sound = (
            tree.node_count > 0
            and bool(np.all((right == -1) == (left == -1)))
            and all(
                bool(np.all((child[inner] > nodes[inner]) & (child[inner] < tree.node_count)))
                for child in (left, right)
            )
            and bool(np.all((feature[inner] >= 0) & (feature[inner] < tree.n_features)))
            and tree.value.shape[0] == tree.node_count
        )
        if not sound:
            raise ModelError(f"{path} holds a damaged decision tree: its nodes lead outside it")


def _trees(root: Any) -> Iterator[Any]:
    """Every decision tree inside an estimator, however nested."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        thing = stack.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, Tree):
            yield thing
        elif isinstance(thing, dict):
            stack.extend(thing.values())
        elif isinstance(thing, list | tuple | set):
            stack.extend(thing)
        elif isinstance(thing, np.ndarray):
            if thing.dtype == object:
                stack.extend(thing.ravel())
        elif isinstance(thing, BaseEstimator) or type(thing).__module__.startswith("sklearn."):
            stack.extend(getattr(thing, "__dict__", {}).values())


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _version(module: str) -> str:
    return str(__import__(module).__version__)
