"""Rows and bodies for a model that is known by its v2 metadata. Pure."""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from loadtest.rows import RowsError
from loadtest.shapes import INTEGERS, NUMBERS, Model, Tensor

DIGITS: Final = Model("digits", (Tensor("input", "FP64", (-1, 64)),))
MADE_ROWS: Final = 1_000  # distinct ones
_MOST_VALUES: Final = 4_000_000  # of a made-up row
_ENOUGH_VALUES: Final = 500_000  # of all made-up rows, as far as one row does not have more
_BYTE_LIKE: Final = {"UINT8": 255, "INT8": 127}
_OTHER_INTEGERS_MOST: Final = 1_000
_WHOLE: Final = re.compile(r"(\d)\.0+(?=[,\]])")


def takes_digits(model: Model) -> bool:
    """Whether the handwritten digits are rows of the model: one input of 64 numbers a row."""
    return [each.shape for each in model.inputs] == [(-1, 64)] and model.inputs[0].datatype in NUMBERS


def made_rows(model: Model, seed: int) -> tuple[str, ...]:
    """Rows of random values in the shape of the model's inputs; RowsError if that has axes of any length.

    One input: the row itself, nested lists. Several: an object with one such row for each.
    Numbers are normal with mean 0 and deviation 1, integers from 0 to 1,000 or as far as a byte goes.
    """
    draw = random.Random(f"{seed}/{model.name}")
    for tensor in model.inputs:
        inner = _inner(tensor)
        if -1 in inner or _product(inner) > _MOST_VALUES:
            raise RowsError(
                f"model {model.name!r} takes {tensor.name!r} of shape {list(tensor.shape)}, from which no rows can be "
                "made up; expected data, a file of its rows"
            )
    values = sum(_product(_inner(tensor)) for tensor in model.inputs)
    count = max(1, min(MADE_ROWS, _ENOUGH_VALUES // max(1, values)))
    rows = []
    for _ in range(count):
        made = {tensor.name: _made(_inner(tensor), _value(tensor.datatype, draw)) for tensor in model.inputs}
        rows.append(json.dumps(made if len(made) > 1 else next(iter(made.values())), separators=(",", ":")))
    return tuple(rows)


def check_rows(rows: Sequence[str], model: Model, what: str) -> None:
    """RowsError if a row does not have the shape that the model's inputs have."""
    for number, text in enumerate(rows, 1):
        row = json.loads(text)
        for tensor in model.inputs:
            part = row
            if len(model.inputs) > 1:
                names = ", ".join(each.name for each in model.inputs)
                if not isinstance(row, dict) or tensor.name not in row:
                    raise RowsError(f"{what}, row {number} has no {tensor.name!r}; expected an object with {names}")
                part = row[tensor.name]
            shape = _shape_of(part)
            inner = _inner(tensor)
            if (
                shape is None
                or len(shape) != len(inner)
                or any(b not in (-1, a) for a, b in zip(shape, inner, strict=True))
            ):
                has = "is ragged" if shape is None else f"has shape {list(shape)}"
                raise RowsError(
                    f"{what}, row {number} {has}; model {model.name!r} expected {list(inner)} for {tensor.name!r}"
                )


def infer_body(model: Model) -> Callable[[Sequence[str]], bytes]:
    """What makes a v2 infer request's body, JSON tensors, of rows that fit the model."""

    def one(rows: Sequence[str]) -> bytes:
        return b'{"inputs":[' + _tensor(model.inputs[0], rows).encode() + b"]}"

    def several(rows: Sequence[str]) -> bytes:
        parsed = [json.loads(row) for row in rows]
        tensors = (
            _tensor(tensor, [json.dumps(row[tensor.name], separators=(",", ":")) for row in parsed])
            for tensor in model.inputs
        )
        return b'{"inputs":[' + ",".join(tensors).encode() + b"]}"

    return one if len(model.inputs) == 1 else several


def counts_rows(model: Model) -> bool:
    """Whether a request may have several rows: every input's first axis may have any length."""
    return all(tensor.shape[:1] == (-1,) for tensor in model.inputs)


def _tensor(tensor: Tensor, rows: Sequence[str]) -> str:
    if tensor.shape[:1] == (-1,):
        shape = [len(rows), *(_shape_of(json.loads(rows[0])) or ())]
        data = "[" + ",".join(rows) + "]"
    else:
        shape, data = list(_shape_of(json.loads(rows[0])) or ()), rows[0]
    if tensor.datatype in INTEGERS:
        data = _WHOLE.sub(r"\1", data)  # a file of floats may hold them; a service may refuse 1.0 as an integer
    head = {"name": tensor.name, "shape": shape, "datatype": tensor.datatype}
    return json.dumps(head, separators=(",", ":"))[:-1] + f',"data":{data}}}'


def _inner(tensor: Tensor) -> tuple[int, ...]:
    """The shape of a row."""
    return tensor.shape[1:] if tensor.shape[:1] == (-1,) else tensor.shape


def _product(shape: Sequence[int]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product


def _shape_of(value: Any) -> tuple[int, ...] | None:
    """Lengths of nested lists, () for a single value, None if they are ragged."""
    if not isinstance(value, list):
        return ()
    shapes = {_shape_of(each) for each in value}
    if len(shapes) > 1 or None in shapes:
        return None
    return (len(value), *(shapes.pop() if shapes else ()))  # type: ignore[misc]


def _made(shape: Sequence[int], value: Callable[[], Any]) -> Any:
    return [_made(shape[1:], value) for _ in range(shape[0])] if shape else value()


def _value(datatype: str, draw: random.Random) -> Callable[[], Any]:
    if datatype in NUMBERS:
        return lambda: round(draw.gauss(0, 1), 4)
    if datatype in INTEGERS:
        most = _BYTE_LIKE.get(datatype, _OTHER_INTEGERS_MOST)
        return lambda: draw.randint(0, most)
    if datatype == "BOOL":
        return lambda: draw.random() < 0.5
    return lambda: " ".join(draw.choices(("red", "green", "blue", "white", "black"), k=3))
