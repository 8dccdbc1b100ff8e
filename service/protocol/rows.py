"""Lists of numbers become one array; whatever is no number is refused with its place.

The quick way trusts numpy and then looks at what came out. numpy turns true into 1, so a body that may hold a boolean
(it has one of the letters that only `true` and `false` bring in) takes the slow way, which looks at every value.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from service.protocol.errors import Refused, shown
from service.protocol.json_body import kind
from service.protocol.signature import Signature


def may_hold_booleans(body: bytes) -> bool:
    """False only if no `true` or `false` can stand in `body`."""
    return b"u" in body or b"f" in body


def from_lists(values: list[Any], where: str, signature: Signature, suspicious: bool) -> npt.NDArray[np.floating]:
    """`values`, a non-empty list of rows, as an array of the signature's dtype; Refused (400) says what is wrong.

    `suspicious` says that the values may hold booleans.
    """
    try:
        array: npt.NDArray[Any] | None = np.array(values)
    except (ValueError, OverflowError):
        array = None  # ragged, or nested too deep: the slow way finds where
    if suspicious or array is None or array.dtype.kind not in "fiu" or array.ndim != 2:
        array = _checked(values, where, signature.features)
    elif signature.features is not None and array.shape[1] != signature.features:
        raise _wrong_length(f"{where}[0]", array.shape[1], signature.features)
    elif array.shape[1] == 0:
        raise Refused(400, f"{where}[0] is empty; expected at least one number")
    return as_input(array, where, signature)


def from_flat(
    values: list[Any], shape: tuple[int, int], where: str, signature: Signature, suspicious: bool
) -> npt.NDArray[np.floating]:
    """The same for a row-major list that `shape` says how to cut; its length must fit."""
    expected = shape[0] * shape[1]
    if len(values) != expected:
        raise Refused(400, f"{where} has {len(values)} values; expected {expected}, as shape {list(shape)} says")
    try:
        array: npt.NDArray[Any] | None = np.array(values)
    except (ValueError, OverflowError):
        array = None
    if suspicious or array is None or array.dtype.kind not in "fiu" or array.ndim != 1:
        for index, value in enumerate(values):
            _check_number(value, f"{where}[{index}]")
        array = np.array(values, dtype=np.float64)
    return as_input(array.reshape(shape), where, signature)


def as_input(array: npt.NDArray[Any], where: str, signature: Signature) -> npt.NDArray[np.floating]:
    """Finite `array` in the model's dtype, contiguous; Refused (400) names the first value too large for it."""
    try:
        with np.errstate(over="raise"):
            return np.ascontiguousarray(array, dtype=signature.dtype)
    except FloatingPointError:
        with np.errstate(over="ignore"):
            check_finite(array.astype(signature.dtype), array, where)
        raise


def check_finite(rows: npt.NDArray[np.floating], given: npt.NDArray[Any], where: str) -> None:
    """Refused (400) for the first value of `rows` that is no finite number, shown as it was `given`."""
    finite = np.isfinite(rows)
    if not finite.all():
        row, column = (int(axis[0]) for axis in np.nonzero(~finite))
        raise Refused(
            400, f"{where}[{row}][{column}] is {given[row, column]!s}; expected a finite {rows.dtype.name} number"
        )


def _checked(values: list[Any], where: str, features: int | None) -> npt.NDArray[np.float64]:
    """Every value looked at, the first wrong one named. Numbers beyond 64-bit integers pass as floats."""
    width = features
    for index, row in enumerate(values):
        at = f"{where}[{index}]"
        if not isinstance(row, list):
            raise Refused(400, f"{at} is {kind(row)}; expected a list of {_numbers(features)}")
        if width is None:
            if not row:
                raise Refused(400, f"{at} is empty; expected at least one number")
            width = len(row)
        if len(row) != width:
            if features is not None:
                raise _wrong_length(at, len(row), features)
            raise Refused(400, f"{at} has {len(row)} numbers; expected {width}, as in {where}[0]")
        for column, value in enumerate(row):
            _check_number(value, f"{at}[{column}]")
    return np.array(values, dtype=np.float64)


def _check_number(value: object, at: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        what = f"the string {shown(value)}" if isinstance(value, str) else kind(value)
        raise Refused(400, f"{at} is {what}; expected a number")


def _wrong_length(at: str, has: int, features: int) -> Refused:
    return Refused(400, f"{at} has {has} numbers; the model expects {features}")


def _numbers(features: int | None) -> str:
    return "numbers" if features is None else f"{features} numbers"
