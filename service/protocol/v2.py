"""Open Inference Protocol v2: an infer request in, its tensors out, as JSON or with the binary tensor extension.

With the extension the body is JSON followed by the tensors' bytes, and the header Inference-Header-Content-Length says
where the JSON ends; without that header the body is JSON alone.
The model has one input, a tensor of shape [rows, features], and one output tensor per method; a request that names no
outputs gets all of them. What is not understood is refused, not ignored: an unknown key, parameter or datatype.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from service.protocol import json_body, predict, rows
from service.protocol.errors import Refused, shown
from service.protocol.signature import Call, Limits, Signature

INPUT_NAME: Final = "input"
HEADER_LENGTH: Final = "Inference-Header-Content-Length"
EXPECTED: Final = 'an object such as {"inputs": [{"name", "shape", "datatype", "data"}]}'
DATATYPES: Final[Mapping[str, str]] = {
    "FP64": "<f8", "FP32": "<f4", "FP16": "<f2",
    "INT64": "<i8", "INT32": "<i4", "INT16": "<i2", "INT8": "<i1",
    "UINT64": "<u8", "UINT32": "<u4", "UINT16": "<u2", "UINT8": "<u1",
}  # fmt: skip
_NARROW: Final = {
    name: np.iinfo(code) if np.dtype(code).kind in "iu" else np.finfo(code)
    for name, code in DATATYPES.items()
    if name != "FP64"
}  # the datatypes that cannot hold every JSON number, and what they can hold
_BY_DTYPE: Final = {np.dtype(code): name for name, code in DATATYPES.items()} | {np.dtype(np.bool_): "BOOL"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the reply is to be written: per output, whether as bytes."""

    id: str | None
    binary: tuple[bool, ...]  # one per method of the call


def parse(body: bytes, header_length: int | None, signature: Signature, limits: Limits) -> tuple[Call, Wanted]:
    """The call in `body`, whose first `header_length` bytes are its JSON (None: all); Refused says what is wrong."""
    if header_length is not None and header_length > len(body):
        raise Refused(400, f"{HEADER_LENGTH} is {header_length}, but the body has {len(body)} bytes")
    head = body if header_length is None else body[:header_length]
    tail = memoryview(b"" if header_length is None else body)[0 if header_length is None else header_length :]
    json_body.check_extent(head, signature, limits)
    value = json_body.load_object(head, EXPECTED)
    json_body.check_keys(value, ("id", "parameters", "inputs", "outputs", "model_name"))
    if value.get("model_name", signature.name) != signature.name:  # the URL has it; some clients repeat it
        raise Refused(400, f"model_name is {shown(value['model_name'])}; the URL's is {signature.name!r}")
    identity = value.get("id")
    if identity is not None and not isinstance(identity, str):
        raise Refused(400, f"id is {json_body.kind(identity)}; expected a string")
    array = _input(_single(value.get("inputs")), tail, signature, limits)
    methods, binary = _outputs(value.get("outputs"), _parameter(value, "binary_data_output", "the request"), signature)
    return Call(array, methods), Wanted(identity, binary)


def write(results: Sequence[tuple[str, Any]], wanted: Wanted, signature: Signature) -> tuple[bytes, int | None]:
    """The reply's body for (method, result) pairs, and the length of its JSON if bytes follow it."""
    outputs: list[dict[str, Any]] = []
    tails: list[bytes] = []
    for (method, result), binary in zip(results, wanted.binary, strict=True):
        array = np.asarray(result)
        output: dict[str, Any] = {"name": method, "datatype": datatype(array.dtype), "shape": list(array.shape)}
        if binary:
            tails.append(_to_bytes(array))
            output["parameters"] = {"binary_data_size": len(tails[-1])}
        else:
            output["data"] = predict.jsonable(array.reshape(-1))
        outputs.append(output)
    reply: dict[str, Any] = {"model_name": signature.name, "model_version": signature.version, "outputs": outputs}
    if wanted.id is not None:
        reply["id"] = wanted.id
    head = orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY)
    return (b"".join((head, *tails)), len(head)) if tails else (head, None)


def datatype(dtype: np.dtype[Any]) -> str:
    """The protocol's name of a numpy dtype; everything that is no number is BYTES."""
    return _BY_DTYPE.get(dtype.newbyteorder("<"), "BYTES")


def model_metadata(signature: Signature) -> dict[str, Any]:
    """GET /v2/models/{name}."""
    return {
        "name": signature.name,
        "versions": [signature.version],
        "platform": signature.platform,
        "inputs": [
            {"name": INPUT_NAME, "datatype": datatype(signature.dtype), "shape": [-1, signature.features or -1]}
        ],
        "outputs": [
            {"name": output.method, "datatype": output.datatype, "shape": list(output.shape)}
            for output in signature.outputs
        ],
    }


def _single(inputs: Any) -> dict[str, Any]:
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        has = f"{len(inputs)} tensors" if isinstance(inputs, list) else json_body.kind(inputs)
        raise Refused(400, f"inputs is {has}; expected a list with one tensor, {INPUT_NAME!r}")
    tensor: dict[str, Any] = inputs[0]
    json_body.check_keys(tensor, ("name", "shape", "datatype", "parameters", "data"), "inputs[0]")
    return tensor


def _input(tensor: dict[str, Any], tail: memoryview, signature: Signature, limits: Limits) -> npt.NDArray[np.floating]:
    if not isinstance(tensor.get("name"), str):
        raise Refused(400, f"inputs[0].name is {json_body.kind(tensor.get('name'))}; expected {INPUT_NAME!r}")
    if tensor["name"] != INPUT_NAME:
        raise Refused(400, f"inputs[0].name is {shown(tensor['name'])}; the model's input is {INPUT_NAME!r}")
    name = tensor.get("datatype")
    if not isinstance(name, str) or name not in DATATYPES:
        raise Refused(400, f"inputs[0].datatype is {shown(name)}; expected one of {', '.join(DATATYPES)}")
    shape = _shape(tensor.get("shape"), signature, limits)
    size = _parameter(tensor, "binary_data_size", "inputs[0]")
    if size is None:
        if len(tail):
            raise Refused(400, f"{len(tail)} bytes follow the JSON; expected binary_data_size in inputs[0].parameters")
        return _from_json(tensor, name, shape, signature)
    if "data" in tensor:
        raise Refused(400, "inputs[0] has both data and binary_data_size; expected one of them")
    expected = shape[0] * shape[1] * np.dtype(DATATYPES[name]).itemsize
    if isinstance(size, bool) or size != expected:
        raise Refused(400, f"inputs[0] binary_data_size is {shown(size)}; shape and datatype make it {expected}")
    if len(tail) != expected:
        raise Refused(400, f"{len(tail)} bytes follow the JSON; expected the {expected} of binary_data_size")
    given = np.frombuffer(tail, dtype=DATATYPES[name]).reshape(shape)
    with np.errstate(over="ignore"):
        array: npt.NDArray[np.floating] = np.ascontiguousarray(given, dtype=signature.dtype)
    rows.check_finite(array, given, "inputs[0]")
    return array


def _from_json(
    tensor: dict[str, Any], name: str, shape: tuple[int, int], signature: Signature
) -> npt.NDArray[np.floating]:
    data = tensor.get("data")
    if not isinstance(data, list):
        raise Refused(400, f"inputs[0].data is {json_body.kind(data)}; expected a list of numbers")
    if data and isinstance(data[0], list):
        if len(data) != shape[0]:
            raise Refused(400, f"inputs[0].data has {len(data)} rows; expected {shape[0]}, as shape says")
        array = rows.from_lists(data, "inputs[0].data", signature)
        if array.shape != shape:
            raise Refused(400, f"inputs[0].data has shape {list(array.shape)}; expected {list(shape)}, as shape says")
    else:
        array = rows.from_flat(data, shape, "inputs[0].data", signature)
    if name in _NARROW:
        _check_datatype(array, name)
    return array


def _shape(shape: Any, signature: Signature, limits: Limits) -> tuple[int, int]:
    features = signature.features
    expected = f"[rows, {'features' if features is None else features}]"
    if (
        not isinstance(shape, list)
        or len(shape) != 2
        or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in shape)
    ):
        raise Refused(400, f"inputs[0].shape is {shown(shape)}; expected {expected}, both at least 1")
    if features is not None and shape[1] != features:
        raise Refused(400, f"inputs[0].shape is {shape}; the model expects {features} numbers in a row")
    if shape[0] > limits.rows:
        raise predict.too_many_rows(shape[0], limits)
    return shape[0], shape[1]


def _check_datatype(array: npt.NDArray[np.floating], name: str) -> None:
    """Refused (400) for the first JSON number that the stated datatype cannot hold."""
    info = _NARROW[name]
    wrong = (array < float(info.min)) | (array > float(info.max))
    if isinstance(info, np.iinfo):
        wrong |= array != np.trunc(array)
    if wrong.any():
        row, column = (int(axis[0]) for axis in np.nonzero(wrong))
        raise Refused(
            400, f"inputs[0].data has {array[row, column]!s} in row {row}, column {column}; expected a number of {name}"
        )


def _outputs(outputs: Any, binary_all: Any, signature: Signature) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Methods asked for and whether each is wanted as bytes; none asked for means all, as the protocol has it."""
    binary_default = False if binary_all is None else _flag(binary_all, "binary_data_output")
    if outputs is None or outputs == []:
        return signature.methods, (binary_default,) * len(signature.methods)
    if not isinstance(outputs, list):
        raise Refused(400, f"outputs is {json_body.kind(outputs)}; expected a list of tensors")
    wanted: dict[str, bool] = {}
    for index, output in enumerate(outputs):
        at = f"outputs[{index}]"
        if not isinstance(output, dict):
            raise Refused(400, f"{at} is {json_body.kind(output)}; expected an object with a name")
        json_body.check_keys(output, ("name", "parameters"), at)
        name = output.get("name")
        if not isinstance(name, str) or name not in signature.methods:
            raise Refused(400, f"{at}.name is {shown(name)}; the model has {', '.join(signature.methods)}")
        if name in wanted:
            raise Refused(400, f"{at}.name is {name!r} again; expected each output once")
        binary = _parameter(output, "binary_data", at)
        wanted[name] = binary_default if binary is None else _flag(binary, f"{at} binary_data")
    return tuple(wanted), tuple(wanted.values())


def _parameter(value: dict[str, Any], known: str, where: str) -> Any:
    """The one parameter that `value` may have, None if it has not."""
    parameters = value.get("parameters")
    if parameters is None:
        return None
    if not isinstance(parameters, dict):
        raise Refused(400, f"parameters of {where} is {json_body.kind(parameters)}; expected an object")
    json_body.check_keys(parameters, (known,), f"parameters of {where}")
    return parameters.get(known)


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise Refused(400, f"{where} is {shown(value)}; expected true or false")
    return value


def _to_bytes(array: npt.NDArray[Any]) -> bytes:
    """Little-endian, row-major; a BYTES element is its UTF-8 text behind a four-byte length."""
    if datatype(array.dtype) != "BYTES":
        return array.astype(array.dtype.newbyteorder("<"), order="C", copy=False).tobytes()
    texts = [str(item).encode() for item in array.reshape(-1)]
    return b"".join(part for text in texts for part in (len(text).to_bytes(4, "little"), text))
