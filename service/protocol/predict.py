"""POST /predict: {"instances": [[…], …], "method"?: "predict"} in, {"predictions": […]} out."""

from typing import Any, Final

import numpy as np
import orjson

from service.protocol import json_body, rows
from service.protocol.errors import Refused, shown
from service.protocol.signature import Call, Limits, Signature

EXPECTED: Final = 'an object such as {"instances": [[…], …]}'
KEYS: Final = ("instances", "method")


def parse(body: bytes, signature: Signature, limits: Limits) -> Call:
    """The call in `body`; Refused says what is wrong with it."""
    json_body.check_extent(body, signature, limits)
    value = json_body.load_object(body, EXPECTED)
    instances = value.get("instances")
    method = signature.methods[0]
    if len(value) != 1 or instances is None:  # a lone "instances" is the common case
        json_body.check_keys(value, KEYS)
        if "instances" not in value:
            raise Refused(400, f"'instances' is missing; expected {EXPECTED}")
        method = value.get("method", method)
        if method not in signature.methods:
            raise Refused(400, f"method is {shown(method)}; the model has {', '.join(signature.methods)}")
    if not isinstance(instances, list):
        raise Refused(400, f"instances is {json_body.kind(instances)}; expected a list of rows")
    if not instances:
        raise Refused(400, "instances is empty; expected at least one row")
    if len(instances) > limits.rows:
        raise too_many_rows(len(instances), limits)
    return Call(rows.from_lists(instances, "instances", signature), (method,))


def too_many_rows(count: int, limits: Limits) -> Refused:
    """413 for a request of `count` rows."""
    return Refused(413, f"the request has {count} rows; expected at most {limits.rows} (SERVICE_MAX_REQUEST_ROWS)")


def write(result: Any) -> bytes:
    """The reply for one row of `result` per instance."""
    return orjson.dumps({"predictions": jsonable(result)}, option=orjson.OPT_SERIALIZE_NUMPY)


def jsonable(result: Any) -> Any:
    """`result` as orjson can write it: numeric arrays as they are, all else as lists."""
    if isinstance(result, np.ndarray):
        return np.ascontiguousarray(result) if result.dtype.kind in "fiub" else result.tolist()
    return result
