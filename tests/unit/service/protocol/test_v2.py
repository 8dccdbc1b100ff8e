"""Open Inference Protocol v2: JSON tensors, the binary extension, and the sentence for each mistake."""

import json
import struct
from typing import Any

import numpy as np
import pytest

from service.protocol import v2
from service.protocol.errors import Refused
from service.protocol.signature import Limits, Signature

ROWS = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def tensor(**changes: Any) -> dict[str, Any]:
    made = {"name": "input", "shape": [2, 3], "datatype": "FP64", "data": [1, 2, 3, 4, 5, 6], **changes}
    return {key: value for key, value in made.items() if value is not ...}


def body(**changes: Any) -> bytes:
    return json.dumps({"inputs": [tensor()], **changes}).encode()


@pytest.mark.parametrize("data", [[1, 2, 3, 4, 5, 6], ROWS], ids=["flat", "nested"])
def test_json_tensors(data: list[Any], signature: Signature, limits: Limits) -> None:
    asked = body(id="7", inputs=[tensor(data=data)], outputs=[{"name": "predict"}])
    call, wanted = v2.parse(asked, None, signature, limits)
    assert call.rows.tolist() == ROWS
    assert call.methods == ("predict",)
    assert wanted == v2.Wanted("7", (False,))


@pytest.mark.parametrize("outputs", [..., None, []], ids=["no key", "null", "no name"])
@pytest.mark.parametrize("binary", [False, True])
def test_a_request_that_names_no_outputs_gets_all(
    outputs: Any, binary: bool, signature: Signature, limits: Limits
) -> None:
    asked = {"inputs": [tensor()], "parameters": {"binary_data_output": binary}, "outputs": outputs}
    sent = json.dumps({key: value for key, value in asked.items() if value is not ...}).encode()
    call, wanted = v2.parse(sent, None, signature, limits)
    assert call.methods == ("predict", "predict_proba")
    assert wanted.binary == (binary, binary)


def test_a_request_may_repeat_the_name_of_the_model(signature: Signature, limits: Limits) -> None:
    call, _ = v2.parse(body(model_name="sums"), None, signature, limits)
    assert call.rows.tolist() == ROWS


@pytest.mark.parametrize(
    ("datatype", "number"),
    [("INT8", -128), ("UINT8", 255), ("INT64", -(2**63)), ("UINT64", 2**64 - 1), ("FP16", 65504), ("FP32", 3.4e38)],
)
def test_json_numbers_as_far_as_the_datatype_goes(
    datatype: str, number: float, signature: Signature, limits: Limits
) -> None:
    sent = body(inputs=[tensor(datatype=datatype, data=[0, 1, 2, 3, 4, number])])
    call, _ = v2.parse(sent, None, signature, limits)
    assert call.rows[1, 2] == float(number)


@pytest.mark.parametrize("datatype", v2.DATATYPES)
def test_binary_tensors_of_every_datatype(datatype: str, signature: Signature, limits: Limits) -> None:
    raw = np.array(ROWS).astype(v2.DATATYPES[datatype]).tobytes()
    head = json.dumps({"inputs": [tensor(datatype=datatype, data=..., parameters={"binary_data_size": len(raw)})]})
    call, _ = v2.parse(head.encode() + raw, len(head), signature, limits)
    assert call.rows.dtype == np.float64
    assert call.rows.tolist() == ROWS


def test_outputs_say_the_methods_and_how_each_is_written(signature: Signature, limits: Limits) -> None:
    asked = body(
        outputs=[{"name": "predict_proba", "parameters": {"binary_data": False}}, {"name": "predict"}],
        parameters={"binary_data_output": True},
    )
    call, wanted = v2.parse(asked, None, signature, limits)
    assert call.methods == ("predict_proba", "predict")
    assert wanted.binary == (False, True)


def test_a_reply_in_json(signature: Signature) -> None:
    written, length = v2.write(
        [("predict", np.array([3, 4])), ("predict_proba", np.array([[0.5, 0.5], [1, 0]]))],
        v2.Wanted("x", (False, False)),
        signature,
    )
    assert length is None
    assert json.loads(written) == {
        "model_name": "sums",
        "model_version": "1",
        "id": "x",
        "outputs": [
            {"name": "predict", "datatype": "INT64", "shape": [2], "data": [3, 4]},
            {"name": "predict_proba", "datatype": "FP64", "shape": [2, 2], "data": [0.5, 0.5, 1.0, 0.0]},
        ],
    }


def test_a_reply_in_bytes(signature: Signature) -> None:
    written, length = v2.write([("predict", np.array([3, 4]))], v2.Wanted(None, (True,)), signature)
    assert length is not None
    assert json.loads(written[:length])["outputs"] == [
        {"name": "predict", "datatype": "INT64", "shape": [2], "parameters": {"binary_data_size": 16}}
    ]
    assert struct.unpack("<2q", written[length:]) == (3, 4)


def test_text_results_in_bytes(signature: Signature) -> None:
    written, length = v2.write([("predict", np.array(["cat", "ö"]))], v2.Wanted(None, (True,)), signature)
    assert json.loads(written[:length])["outputs"][0]["datatype"] == "BYTES"
    assert written[length:] == b"\x03\x00\x00\x00cat\x02\x00\x00\x00\xc3\xb6"


def test_metadata(signature: Signature) -> None:
    assert v2.model_metadata(signature) == {
        "name": "sums",
        "versions": ["1"],
        "platform": "test",
        "inputs": [{"name": "input", "datatype": "FP64", "shape": [-1, 3]}],
        "outputs": [
            {"name": "predict", "datatype": "FP64", "shape": [-1]},
            {"name": "predict_proba", "datatype": "FP64", "shape": [-1, 2]},
        ],
    }


REFUSED: list[tuple[str, bytes, int | None, int, str]] = [
    ("no inputs", b"{}", None, 400, "inputs is null; expected a list with one tensor, 'input'"),
    ("two inputs", body(inputs=[tensor(), tensor()]), None, 400, "inputs is 2 tensors; expected a list with one"),
    (
        "an unknown key",
        body(model="x"),
        None,
        400,
        "unknown key 'model'; expected 'id', 'parameters', 'inputs', 'outputs' or 'model_name'",
    ),
    ("another model", body(model_name="x"), None, 400, "model_name is 'x'; the URL's is 'sums'"),
    (
        "an unknown parameter",
        body(parameters={"priority": 1}),
        None,
        400,
        "unknown key 'priority' in parameters of the request; expected 'binary_data_output'",
    ),
    (
        "an input in shared memory",
        body(inputs=[tensor(data=..., parameters={"shared_memory_region": "x"})]),
        None,
        400,
        "unknown key 'shared_memory_region' in parameters of inputs[0]; expected 'binary_data_size'",
    ),
    (
        "an output as classes",
        body(outputs=[{"name": "predict", "parameters": {"classification": 3}}]),
        None,
        400,
        "unknown key 'classification' in parameters of outputs[0]; expected 'binary_data'",
    ),
    (
        "a fraction in whole numbers",
        body(inputs=[tensor(datatype="INT32", data=[1, 2, 3, 4, 5.5, 6])]),
        None,
        400,
        "inputs[0].data has 5.5 in row 1, column 1; expected a number of INT32",
    ),
    (
        "a number beyond its datatype",
        body(inputs=[tensor(datatype="UINT8", data=[[1, 2, 3], [256, 5, 6]])]),
        None,
        400,
        "inputs[0].data has 256.0 in row 1, column 0; expected a number of UINT8",
    ),
    (
        "a number beyond FP16",
        body(inputs=[tensor(datatype="FP16", data=[1, 2, -1e5, 4, 5, 6])]),
        None,
        400,
        "inputs[0].data has -100000.0 in row 0, column 2; expected a number of FP16",
    ),
    ("a key in a tensor", body(inputs=[tensor(size=1)]), None, 400, "unknown key 'size' in inputs[0]; expected 'name'"),
    (
        "another input",
        body(inputs=[tensor(name="x")]),
        None,
        400,
        "inputs[0].name is 'x'; the model's input is 'input'",
    ),
    ("a nameless input", body(inputs=[tensor(name=...)]), None, 400, "inputs[0].name is null; expected 'input'"),
    (
        "bytes",
        body(inputs=[tensor(datatype="BYTES")]),
        None,
        400,
        "inputs[0].datatype is 'BYTES'; expected one of",
    ),
    ("no datatype", body(inputs=[tensor(datatype=[])]), None, 400, "inputs[0].datatype is []; expected one of FP64"),
    (
        "a flat shape",
        body(inputs=[tensor(shape=[6])]),
        None,
        400,
        "inputs[0].shape is [6]; expected [rows, 3], both",
    ),
    ("a boolean shape", body(inputs=[tensor(shape=[True, 3])]), None, 400, "inputs[0].shape is [True, 3]; expected"),
    ("no rows", body(inputs=[tensor(shape=[0, 3], data=[])]), None, 400, "inputs[0].shape is [0, 3]; expected [rows,"),
    (
        "a width",
        body(inputs=[tensor(shape=[3, 2])]),
        None,
        400,
        "inputs[0].shape is [3, 2]; the model expects 3",
    ),
    ("too many rows", body(inputs=[tensor(shape=[5, 3])]), None, 413, "the request has 5 rows; expected at most 4"),
    ("data missing", body(inputs=[tensor(data=...)]), None, 400, "inputs[0].data is null; expected a list of numbers"),
    (
        "data too short",
        body(inputs=[tensor(data=[1, 2])]),
        None,
        400,
        "inputs[0].data has 2 values; expected 6, as shape [2, 3] says",
    ),
    (
        "another number of rows",
        body(inputs=[tensor(data=[[1, 2, 3]])]),
        None,
        400,
        "inputs[0].data has 1 rows; expected 2, as shape says",
    ),
    (
        "text in data",
        body(inputs=[tensor(data=[1, 2, "3", 4, 5, 6])]),
        None,
        400,
        "inputs[0].data[2] is the string '3'; expected a number",
    ),
    (
        "a boolean in data",
        body(inputs=[tensor(data=[1, 2, True, 4, 5, 6])]),
        None,
        400,
        "inputs[0].data[2] is a boolean; expected a number",
    ),
    ("an unknown output", body(outputs=[{"name": "x"}]), None, 400, "outputs[0].name is 'x'; the model has predict,"),
    ("an output twice", body(outputs=[{"name": "predict"}] * 2), None, 400, "outputs[1].name is 'predict' again;"),
    ("outputs no list", body(outputs={}), None, 400, "outputs is an object; expected a list of tensors"),
    ("an output no object", body(outputs=[1]), None, 400, "outputs[0] is a number; expected an object with a name"),
    ("parameters no object", body(parameters=[]), None, 400, "parameters of the request is a list; expected an object"),
    (
        "a flag no boolean",
        body(parameters={"binary_data_output": 1}),
        None,
        400,
        "binary_data_output is 1; expected true or false",
    ),
    ("id no text", body(id=7), None, 400, "id is a number; expected a string"),
    (
        "the header beyond the body",
        body(),
        10**6,
        400,
        f"Inference-Header-Content-Length is 1000000, but the body has {len(body())} bytes",
    ),
    (
        "bytes that nobody wants",
        body() + b"123",
        len(body()),
        400,
        "3 bytes follow the JSON; expected binary",
    ),
]


@pytest.mark.parametrize(
    ("sent", "length", "status", "sentence"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_a_wrong_request_is_refused(
    sent: bytes, length: int | None, status: int, sentence: str, signature: Signature, limits: Limits
) -> None:
    with pytest.raises(Refused) as caught:
        v2.parse(sent, length, signature, limits)
    assert caught.value.status == status
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("size", "raw", "sentence"),
    [
        (47, b"\0" * 47, "inputs[0] binary_data_size is 47; shape and datatype make it 48"),
        ("48", b"\0" * 48, "inputs[0] binary_data_size is '48'; shape and datatype make it 48"),
        (48, b"\0" * 40, "40 bytes follow the JSON; expected the 48 of binary_data_size"),
        (
            48,
            struct.pack("<6d", 1, 2, 3, 4, float("nan"), 6),
            "inputs[0][1][1] is nan; expected a finite float64",
        ),
        (
            48,
            struct.pack("<6d", 1, 2, float("inf"), 4, 5, 6),
            "inputs[0][0][2] is inf; expected a finite float64",
        ),
    ],
)
def test_wrong_bytes_are_refused(size: object, raw: bytes, sentence: str, signature: Signature, limits: Limits) -> None:
    head = json.dumps({"inputs": [tensor(data=..., parameters={"binary_data_size": size})]}).encode()
    with pytest.raises(Refused) as caught:
        v2.parse(head + raw, len(head), signature, limits)
    assert str(caught.value).startswith(sentence)
