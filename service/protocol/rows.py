"""Lists of numbers become one array; whatever is no number is refused with its place.

numpy takes true for 1, "1" for 1 and null for NaN, so the types are looked at first, quickly; only what is not all
numbers, or not in rows of one length, goes the slow way, which can say where the first wrong value is.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from service.protocol.errors import Refused, shown
from service.protocol.json_body import kind
from service.protocol.signature import Signature

_NUMBERS: Final = frozenset((int, float))  # by exact type: a bool is an int too
_FEW: Final = 4096
_SURELY_FITS: Final = float(np.finfo(np.float32).max) ** 2


def from_lists(values: list[Any], where: str, signature: Signature) -> npt.NDArray[np.floating]:
    """`values`, a non-empty list of rows, as an array of the signature's dtype; Refused (400) says what is wrong."""
    array: npt.NDArray[np.float64] | None = None
    if _all_numbers(values):
        try:
            array = np.array(values, dtype=np.float64)
        except ValueError:  # ragged
            array = None
    if array is None or array.shape[1] != (signature.features or array.shape[1] or -1):
        array = _checked(values, where, signature.features)
    return as_input(array, where, signature)


def from_flat(values: list[Any], shape: tuple[int, int], where: str, signature: Signature) -> npt.NDArray[np.floating]:
    """The same for a row-major list that `shape` says how to cut; its length must fit."""
    expected = shape[0] * shape[1]
    if len(values) != expected:
        raise Refused(400, f"{where} has {len(values)} values; expected {expected}, as shape {list(shape)} says")
    if not _NUMBERS.issuperset(map(type, values)):
        for index, value in enumerate(values):
            _check_number(value, f"{where}[{index}]")
    return as_input(np.array(values, dtype=np.float64).reshape(shape), where, signature)


def as_input(array: npt.NDArray[np.float64], where: str, signature: Signature) -> npt.NDArray[np.floating]:
    """Finite `array` in the model's dtype; Refused (400) names the first value too large for it."""
    if signature.dtype.itemsize == array.dtype.itemsize:
        return array
    # The sum of the squares of a few values is far cheaper than a look at each. Of many, BLAS makes it on several
    # threads, which then spin for a while on the cores that the model needs.
    if array.size <= _FEW and np.vdot(array, array) <= _SURELY_FITS:
        return array.astype(signature.dtype)
    with np.errstate(over="ignore"):
        narrowed: npt.NDArray[np.floating] = array.astype(signature.dtype)
    check_finite(narrowed, array, where)
    return narrowed


def check_finite(rows: npt.NDArray[np.floating], given: npt.NDArray[Any], where: str) -> None:
    """Refused (400) for the first value of `rows` that is no finite number, shown as it was `given`."""
    finite = np.isfinite(rows)
    if not finite.all():
        row, column = (int(axis[0]) for axis in np.nonzero(~finite))
        raise Refused(
            400, f"{where}[{row}][{column}] is {given[row, column]!s}; expected a finite {rows.dtype.name} number"
        )


def _all_numbers(values: list[Any]) -> bool:
    if len(values) == 1:  # nearly always
        row = values[0]
        return type(row) is list and _NUMBERS.issuperset(map(type, row))
    return all(type(row) is list and _NUMBERS.issuperset(map(type, row)) for row in values)


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
    return Refused(400, f"{at} has {has} number{'' if has == 1 else 's'}; the model expects {features}")


def _numbers(features: int | None) -> str:
    return "numbers" if features is None else f"{features} numbers"
