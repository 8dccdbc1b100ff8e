import time

import numpy as np
import pytest

from service.models.spec import parse_model
from service.models.synthetic import SyntheticModel


def test_sums_its_rows_and_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    model = SyntheticModel(parse_model("synthetic?fixed_seconds=0.5&per_row_seconds=0.25&features=3"))
    np.testing.assert_array_equal(model.run("predict", np.array([[1.0, 2, 3], [4, 5, 6]])), [6.0, 15.0])
    assert sum(slept) == pytest.approx(1.0, abs=0.05)
    assert (model.info.features, model.info.methods) == (3, ("predict",))
