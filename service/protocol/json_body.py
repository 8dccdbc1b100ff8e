"""A JSON object out of a body, with an error that says where the text stops being JSON."""

import re
from typing import Any, Final

import orjson

from service.protocol.errors import Refused, shown
from service.protocol.signature import Limits, Signature

_SOON_PARSED_BYTES: Final = 1 << 16
_BESIDES: Final = 256  # lists, objects and commas of a request outside its rows: far more than any has
_ROWS_SETTING: Final = "SERVICE_MAX_REQUEST_ROWS"

KINDS = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}


def kind(value: object) -> str:
    """What a parsed JSON value is, in words."""
    return KINDS.get(type(value), "a number")


def check_extent(body: bytes, signature: Signature, limits: Limits) -> None:
    """Refused (413) for a body with more in it than the largest request has: to parse it would hold everybody up.

    Counting bytes takes a thousandth of the time that making lists of them takes. Small bodies are not looked at.
    """
    if len(body) <= _SOON_PARSED_BYTES:
        return
    if (lists := body.count(b"[")) > limits.rows + _BESIDES:
        raise Refused(413, f"the body has {lists} lists; expected at most {limits.rows} rows ({_ROWS_SETTING})")
    if (objects := body.count(b"{")) > _BESIDES:
        raise Refused(413, f"the body has {objects} objects; expected rows of numbers")
    if signature.features is not None:
        most = limits.rows * signature.features
        if (values := body.count(b",")) > most + _BESIDES:
            raise Refused(
                413,
                f"the body has more than {values} values; expected at most {limits.rows} rows of "
                f"{signature.features} numbers ({_ROWS_SETTING})",
            )


def load_object(body: bytes, expected: str) -> dict[str, Any]:
    """The object in `body`; Refused (400) for anything else. NaN and Infinity are no JSON and end here."""
    if not body:
        raise Refused(400, f"the body is empty; expected {expected}")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if name := re.match(r"NaN|Infinity", error.doc[error.pos :]):
            raise Refused(400, f"{name[0]} at {_place(error)} is no JSON; expected a finite number") from None
        raise Refused(400, f"the body is not JSON: {error.msg} at {_place(error)}; expected {expected}") from None
    if not isinstance(value, dict):
        raise Refused(400, f"the body is {kind(value)}; expected {expected}")
    return value


def check_keys(value: dict[str, Any], known: tuple[str, ...], where: str = "") -> None:
    """Refused (400) if `value` has a key that is not known: a misspelt option must not be ignored."""
    for key in value:
        if key not in known:
            at = f" in {where}" if where else ""
            raise Refused(400, f"unknown key {shown(key)}{at}; expected {_listed(known)}")


def _place(error: orjson.JSONDecodeError) -> str:
    return f"line {error.lineno}, column {error.colno}"


def _listed(names: tuple[str, ...]) -> str:
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
