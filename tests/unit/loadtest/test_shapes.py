"""What a target says of its model, and what stands in when it does not."""

import json
from typing import Any

import pytest

from loadtest.shapes import Model, NotAsked, Tensor, asked, is_v2

ONE = {"name": "m", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]}


class Target:
    """Answers by (method, path), and keeps what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {key.replace("__", " /").replace("_", "/"): answer for key, answer in answers.items()}
        self.asked: list[str] = []

    def __call__(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        self.asked.append(f"{method} {path}")
        answer = self.answers.get(self.asked[-1], 404)
        if isinstance(answer, int):
            return answer, b"{}"
        return 200, answer if isinstance(answer, bytes) else json.dumps(answer).encode()


def test_the_path_names_the_model() -> None:
    target = Target(GET__v2_models_m=ONE)
    assert asked("/v2/models/m/infer", target) == Model("m", (Tensor("x", "FP32", (-1, 4)),))
    assert target.asked == ["GET /v2/models/m"]


@pytest.mark.parametrize(
    ("path", "question"),
    [
        ("/gate/v2/models/m%20n/versions/3/infer?a=1", "GET /gate/v2/models/m%20n/versions/3"),
        ("/v2/models/m/versions/3/infer", "GET /v2/models/m/versions/3"),
    ],
)
def test_a_version_and_a_prefix_are_kept(path: str, question: str) -> None:
    target = Target()
    target.answers[question] = ONE
    assert asked(path, target).name == "m"
    assert target.asked == [question]


def test_else_the_repository_names_its_only_ready_model() -> None:
    index = [{"name": "a b", "version": "1", "state": "READY"}, {"name": "a b", "version": "2", "state": "READY"}]
    target = Target(POST__v2_repository_index=[*index, {"name": "c", "state": "UNAVAILABLE"}])
    target.answers["GET /v2/models/a%20b"] = {**ONE, "name": "a b"}
    assert asked("/predict", target).name == "a b"
    assert target.asked == ["POST /v2/repository/index", "GET /v2/models/a%20b"]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({}, "POST /v2/repository/index has status 404"),
        ({"POST__v2_repository_index": b"<html>"}, "its answer to POST /v2/repository/index is no JSON"),
        ({"POST__v2_repository_index": {"a": 1}}, "its answer to POST /v2/repository/index is no list of models"),
        ({"POST__v2_repository_index": b"7"}, "its answer to POST /v2/repository/index is no list of models"),
        ({"POST__v2_repository_index": []}, "it has 0 models ready (), and the path names none"),
        ({"POST__v2_repository_index": [{"name": "b"}, {"name": "a"}]}, "it has 2 models ready (a, b), and the path"),
        ({"POST__v2_repository_index": [{"name": "m"}]}, "GET /v2/models/m has status 404"),
    ],
)
def test_what_the_repository_does_not_say(answers: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotAsked) as caught:
        asked("/predict", Target(**answers))
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize(
    "model",
    [
        {},
        [],
        {"inputs": []},
        {"inputs": [{"name": "x", "datatype": "FP32"}]},
        {"inputs": [{"name": "x", "datatype": "FP8", "shape": [1]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-2]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": ["1"]}]},
        {"inputs": [{"name": 5, "datatype": "FP32", "shape": [1]}]},
        {"inputs": "x"},
    ],
)
def test_metadata_that_describe_no_inputs(model: Any) -> None:
    with pytest.raises(NotAsked, match=r"its answer to GET /v2/models/m describes no inputs"):
        asked("/v2/models/m/infer", Target(GET__v2_models_m=model))


@pytest.mark.parametrize(
    ("path", "v2"),
    [
        ("/v2/models/m/infer", True),
        ("/x/v2/models/m/versions/1/infer?a", True),
        ("/predict", False),
        ("/v2/models/m", False),
        ("/v2/models/a/b/infer", False),
        ("/v2/models//infer", False),
    ],
)
def test_paths_of_v2_inference(path: str, v2: bool) -> None:
    assert is_v2(path) is v2
