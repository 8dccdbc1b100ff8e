"""scikit-learn estimators. Forest classifiers average their trees directly; everything else answers by itself."""

from typing import Any, Final

import numpy as np
from sklearn import __version__ as sklearn_version
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.utils.validation import check_is_fitted

from service.models.model import (
    METHODS,
    PREDICT_PROBA,
    SAMPLE_ROWS,
    Array,
    ModelInfo,
    OutputInfo,
    describe_output,
    plain,
)
from service.models.spec import ModelError, ModelSpec

# Exactly these: a subclass may answer in its own way.
_DIRECT: Final = (RandomForestClassifier, ExtraTreesClassifier)


class SklearnModel:
    """`estimator` is fitted; it runs on one thread, whatever n_jobs it was saved with."""

    def __init__(self, spec: ModelSpec, estimator: Any) -> None:
        self.estimator = estimator
        self._direct = type(estimator) in _DIRECT and getattr(estimator, "n_outputs_", 0) == 1
        features = getattr(estimator, "n_features_in_", None)
        self._sample = np.zeros((SAMPLE_ROWS, int(features) if features is not None else 1))
        methods = tuple(method for method in METHODS if hasattr(estimator, method))
        outputs: tuple[OutputInfo, ...] = ()
        try:
            if isinstance(estimator, BaseEstimator):
                check_is_fitted(estimator)
                _single_threaded(estimator)
            if features is not None:
                outputs = tuple(describe_output(method, self.run(method, self._sample)) for method in methods)
        except Exception as error:  # any estimator, any fault: all of them mean that it cannot be served
            reason = " ".join(str(error).split())[:300]
            raise ModelError(
                f"the model {spec.text} cannot predict: {type(error).__name__}: {reason}; expected a fitted "
                f"estimator on rows of numbers, saved with the versions that run here (scikit-learn {sklearn_version})"
            ) from error
        self.info = ModelInfo(
            name=spec.name,
            features=int(features) if features is not None else None,
            # Forests compute in it; so a value too large for it is refused before it reaches the model.
            input_dtype="float32" if self._direct else "float64",
            methods=methods,
            runtime="sklearn-direct" if self._direct else "sklearn",
            platform=f"sklearn_{type(estimator).__name__.lower()}",
            version=sklearn_version,
            outputs=outputs,
        )

    def run(self, method: str, rows: Array) -> Array:
        if not self._direct:
            return plain(getattr(self.estimator, method)(rows))
        probabilities = forest_probabilities(self.estimator, rows)
        if method == PREDICT_PROBA:
            return probabilities
        return plain(self.estimator.classes_.take(np.argmax(probabilities, axis=1), axis=0))

    def warm_up(self) -> None:
        if self.info.features is not None:
            for method in self.info.methods:
                self.run(method, self._sample)


def forest_probabilities(forest: Any, rows: Array) -> Array:
    """What `forest.predict_proba(rows)` returns, bit for bit: the same sums in the same order, without the 4 ms of
    checks and job dispatch around them."""
    with np.errstate(over="ignore"):  # checked in the next line
        single = np.ascontiguousarray(rows, dtype=np.float32)
    if not np.isfinite(single).all():
        raise ValueError("a value is not finite or too large for a 32-bit float, which forests compute in")
    total = np.zeros((len(single), forest.n_classes_), dtype=np.float64)
    for tree in forest.estimators_:
        total += tree.predict_proba(single, check_input=False)
    total /= len(forest.estimators_)
    return total


def _single_threaded(estimator: Any) -> None:
    """Every n_jobs inside it set to one: a batch is the parallelism, and workers must not fight for cores."""
    wide = {name: 1 for name in estimator.get_params(deep=True) if name.split("__")[-1] == "n_jobs"}
    if wide:
        estimator.set_params(**wide)
