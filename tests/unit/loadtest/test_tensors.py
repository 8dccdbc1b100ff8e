"""Rows and bodies that fit a model's metadata."""

import json
from typing import Any

import pytest

from loadtest.rows import RowsError
from loadtest.shapes import DATATYPES, Model, Tensor
from loadtest.tensors import check_rows, counts_rows, infer_body, made_rows, takes_digits

FOUR = Model("m", (Tensor("x", "FP32", (-1, 4)),))
TWO = Model("m", (Tensor("a", "INT64", (-1, 2)), Tensor("b", "BYTES", (-1,))))


def shape(value: Any) -> list[int]:
    return [len(value), *shape(value[0])] if isinstance(value, list) else []


@pytest.mark.parametrize("datatype", DATATYPES)
def test_made_up_values_are_of_the_datatype(datatype: str) -> None:
    rows = made_rows(Model("m", (Tensor("x", datatype, (-1, 3)),)), seed=1)
    values = [value for row in rows for value in json.loads(row)]
    kind = {"F": float, "B": float, "I": int, "U": int}[datatype[0]]
    kind = {"BOOL": bool, "BYTES": str}.get(datatype, kind)
    assert {type(value) for value in values} == {kind}
    assert len(set(values)) > 1
    if kind is int:
        assert max(values) <= {"INT8": 127, "UINT8": 255}.get(datatype, 1000)


@pytest.mark.parametrize(("axes", "row"), [((-1, 4), [4]), ((-1, 2, 3), [2, 3]), ((-1,), []), ((5,), [5])])
def test_made_up_rows_have_the_inputs_shape(axes: tuple[int, ...], row: list[int]) -> None:
    model = Model("m", (Tensor("x", "FP64", axes),))
    rows = made_rows(model, seed=1)
    assert [shape(json.loads(each)) for each in rows[:5]] == [row] * 5
    check_rows(rows, model, "made")


def test_the_seed_decides_made_up_rows() -> None:
    assert made_rows(FOUR, 1) == made_rows(FOUR, 1) != made_rows(FOUR, 2)


def test_large_rows_are_few() -> None:
    assert len(made_rows(Model("m", (Tensor("x", "BOOL", (-1, 100, 500)),)), 1)) == 10
    assert len(made_rows(Model("m", (Tensor("x", "BOOL", (-1, 800_000)),)), 1)) == 1


@pytest.mark.parametrize("axes", [(-1, -1), (-1, 4, -1), (-1, 10**9)])
def test_rows_of_any_length_cannot_be_made_up(axes: tuple[int, ...]) -> None:
    with pytest.raises(RowsError, match="from which no rows can be made up; expected data, a file of its rows"):
        made_rows(Model("m", (Tensor("x", "FP64", axes),)), 1)


def test_a_request_of_one_input() -> None:
    assert json.loads(infer_body(FOUR)(["[1,2,3,4]", "[5,6,7,8.5]"])) == {
        "inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": [[1, 2, 3, 4], [5, 6, 7, 8.5]]}]
    }


def test_a_request_of_several_inputs() -> None:
    rows = ['{"a":[1.0,20.00],"b":"x, y"}', '{"b":"1.0]","a":[-3.0,4]}']
    check_rows(rows, TWO, "rows")
    body = infer_body(TWO)(rows)
    assert json.loads(body) == {
        "inputs": [
            {"name": "a", "shape": [2, 2], "datatype": "INT64", "data": [[1, 20], [-3, 4]]},
            {"name": "b", "shape": [2], "datatype": "BYTES", "data": ["x, y", "1.0]"]},
        ]
    }
    assert b"1.0," not in body.split(b"BYTES")[0]  # whole numbers are written as such


def test_an_input_without_an_axis_of_rows_is_sent_alone() -> None:
    model = Model("m", (Tensor("x", "FP32", (2, 2)),))
    assert not counts_rows(model)
    assert counts_rows(FOUR)
    assert json.loads(infer_body(model)(["[[1,2],[3,4]]"]))["inputs"][0] == {
        "name": "x",
        "shape": [2, 2],
        "datatype": "FP32",
        "data": [[1, 2], [3, 4]],
    }


@pytest.mark.parametrize(
    ("row", "model", "sentence"),
    [
        ("[1,2,3]", FOUR, "d, row 2 has shape [3]; model 'm' expected [4] for 'x'"),
        ("[[1,2,3,4]]", FOUR, "d, row 2 has shape [1, 4]; model 'm' expected [4] for 'x'"),
        ("[1,[2],3,4]", FOUR, "d, row 2 is ragged; model 'm' expected [4] for 'x'"),
        ("7", FOUR, "d, row 2 has shape []; model 'm' expected [4] for 'x'"),
        ("[1,2]", TWO, "d, row 2 has no 'a'; expected an object with a, b"),
        ('{"a":[1,2]}', TWO, "d, row 2 has no 'b'; expected an object with a, b"),
        ('{"a":[1],"b":"x"}', TWO, "d, row 2 has shape [1]; model 'm' expected [2] for 'a'"),
    ],
)
def test_rows_that_do_not_fit_are_found_before_the_load(row: str, model: Model, sentence: str) -> None:
    good = "[1,2,3,4]" if model is FOUR else '{"a":[1,2],"b":"x"}'
    check_rows([good, good], model, "d")
    with pytest.raises(RowsError) as caught:
        check_rows([good, row], model, "d")
    assert str(caught.value) == sentence


def test_axes_of_any_length_take_any_rows() -> None:
    check_rows(["[1,2]", "[3]"], Model("m", (Tensor("x", "FP32", (-1, -1)),)), "d")


@pytest.mark.parametrize(
    ("inputs", "digits"),
    [
        ([Tensor("input", "FP64", (-1, 64))], True),
        ([Tensor("x", "FP32", (-1, 64))], True),
        ([Tensor("x", "INT64", (-1, 64))], False),
        ([Tensor("x", "FP32", (-1, 8, 8))], False),
        ([Tensor("x", "FP32", (-1, 64)), Tensor("y", "FP32", (-1, 64))], False),
    ],
)
def test_who_takes_the_digits(inputs: list[Tensor], digits: bool) -> None:
    assert takes_digits(Model("m", tuple(inputs))) is digits
