"""Whatever the bytes: a parser gives a call that a model may run, or refuses with one short sentence; never else."""

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.protocol import predict, v2
from service.protocol.errors import Refused, shown
from service.protocol.signature import Call, Limits, Output, Signature

LIMITS = Limits(rows=4, bytes=2000)
SIGNATURES = [
    Signature("sums", features, np.dtype(dtype), methods, "test", "1", (Output("predict", "FP64", (-1,)),))
    for features in (3, None)
    for dtype in (np.float64, np.float32)
    for methods in (("predict",), ("predict", "predict_proba"))
]
DEPTH = 100_000

Parse = Callable[[bytes, Signature], Call]

# No deadline: how long an example takes is the machine's affair.
many = settings(max_examples=200, deadline=None)
signatures = st.sampled_from(SIGNATURES)

WORDS = (
    *("instances", "method", "predict", "predict_proba", "id", "parameters", "inputs", "outputs", "name", "shape"),
    *("datatype", "data", "binary_data", "binary_data_size", "binary_data_output", "input", "model_name", "sums"),
    *v2.DATATYPES,
    *("BOOL", "BYTES", "BF16"),
)
numbers = st.one_of(
    st.integers(-4, 9),
    st.integers(),
    st.floats(),  # NaN and the infinities among them, which json writes as such
    st.sampled_from([2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), 10**400, 1e308, -0.0, 5e-324]),
)
texts = st.one_of(st.sampled_from(WORDS), st.text(max_size=8), st.just("\ud800"))
plain = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    plain,
    lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(texts, inner, max_size=6)),
    max_leaves=24,
)


GOOD = {"instances": [[1.0, 2.0, 3.0]] * 2, "method": "predict"}


def good_v2(binary: bool = False) -> dict[str, Any]:
    tensor: dict[str, Any] = {"name": "input", "shape": [2, 3], "datatype": "FP32"}
    if binary:
        tensor["parameters"] = {"binary_data_size": 24}
    else:
        tensor["data"] = [[1, 2, 3], [4, 5, 6]]
    asked = [{"name": "predict", "parameters": {"binary_data": True}}]
    return {"id": "7", "parameters": {"binary_data_output": False}, "inputs": [tensor], "outputs": asked}


def check(body: bytes, signature: Signature, header_length: int | None = None, of_predict: bool = False) -> bool:
    """Parses; True if it was accepted."""
    refused: Refused | None = None
    try:
        if of_predict:
            call = predict.parse(body, signature, LIMITS)
        else:
            call, wanted = v2.parse(body, header_length, signature, LIMITS)
            assert len(wanted.binary) == len(call.methods)
            assert wanted.id is None or isinstance(wanted.id, str)
    except Refused as error:
        refused = error
    if refused is not None:
        message = str(refused)
        assert refused.status in (400, 413)
        assert message
        assert len(message) < 500
        assert message.isprintable()  # on one line, and nothing that a terminal would act on
        message.encode()
        return False
    rows = call.rows
    assert rows.ndim == 2
    assert 1 <= len(rows) <= LIMITS.rows
    assert rows.shape[1] == (signature.features or rows.shape[1])
    assert rows.shape[1] > 0
    assert rows.dtype == signature.dtype
    assert rows.flags.c_contiguous
    assert np.isfinite(rows).all()
    assert call.methods
    assert set(call.methods) <= set(signature.methods)
    return True


def text_of(value: Any) -> bytes:
    """JSON, lone surrogates and NaN included: what json writes and no standard allows."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


@many
@given(st.binary(max_size=200), signatures, st.one_of(st.none(), st.integers(0, 300)))
def test_any_bytes(body: bytes, signature: Signature, header_length: int | None) -> None:
    check(body, signature, of_predict=True)
    check(body, signature, header_length)


@many
@given(values, signatures)
def test_any_json(value: Any, signature: Signature) -> None:
    check(text_of(value), signature, of_predict=True)
    check(text_of(value), signature)


@many
@given(st.dictionaries(st.sampled_from(["instances", "method"]), values), signatures)
def test_any_values_for_the_keys_of_predict(value: Any, signature: Signature) -> None:
    check(text_of(value), signature, of_predict=True)


PLACES: list[tuple[Any, ...]] = [
    ("id",),
    ("parameters",),
    ("parameters", "binary_data_output"),
    ("inputs",),
    ("inputs", 0),
    ("inputs", 0, "name"),
    ("inputs", 0, "shape"),
    ("inputs", 0, "shape", 0),
    ("inputs", 0, "shape", 1),
    ("inputs", 0, "datatype"),
    ("inputs", 0, "data"),
    ("inputs", 0, "data", 1),
    ("inputs", 0, "data", 1, 2),
    ("inputs", 0, "parameters"),
    ("outputs",),
    ("outputs", 0),
    ("outputs", 0, "name"),
    ("outputs", 0, "parameters"),
    ("outputs", 0, "parameters", "binary_data"),
    ("model_name",),
]


def put(value: Any, place: tuple[Any, ...], new: Any) -> None:
    for step in place[:-1]:
        value = value[step]
    value[place[-1]] = new


@many
@given(st.lists(st.tuples(st.sampled_from(PLACES), values), max_size=2), signatures)
def test_a_good_request_with_a_value_replaced(changes: list[tuple[tuple[Any, ...], Any]], signature: Signature) -> None:
    value = good_v2()
    for place, new in sorted(changes, key=lambda change: -len(change[0])):  # the deeper first: its way is still there
        put(value, place, new)
    accepted = check(text_of(value), signature)
    assert accepted or changes


@many
@given(
    st.sampled_from([None, *v2.DATATYPES, "BOOL", "BYTES"]),
    st.lists(st.one_of(st.integers(-2, 6), st.sampled_from([2**32, 2**63, 2**64 - 1])), max_size=4),
    st.one_of(st.none(), st.integers(-1, 200), values),
    st.binary(max_size=100),
    st.integers(-30, 30),
    signatures,
)
@example("FP32", [2, 3], 24, b"\0" * 24, 0, SIGNATURES[0])
@example("FP32", [2, 3], 24, b"\0\0\xc0\x7f" * 6, 0, SIGNATURES[0])  # NaN
@example("FP64", [2**32, 2**32], 0, b"", 0, SIGNATURES[-1])  # the product is 0 in 64 bits
def test_any_binary_tensor(
    datatype: str | None, shape: list[int], size: Any, tail: bytes, off: int, signature: Signature
) -> None:
    value = good_v2(binary=True)
    value["inputs"][0] |= {"datatype": datatype, "shape": shape, "parameters": {"binary_data_size": size}}
    head = text_of(value)
    check(head + tail, signature, max(0, len(head) + off))


BINARY_HEAD = text_of(good_v2(binary=True))
bodies = st.sampled_from(
    [
        (text_of(GOOD), None),
        (text_of(good_v2()), None),
        (BINARY_HEAD + np.ones(6, "<f4").tobytes(), len(BINARY_HEAD)),
    ]
)
cuts = st.tuples(st.floats(0, 1), st.floats(0, 0.1), st.binary(max_size=6))


@many
@given(bodies, st.lists(cuts, max_size=4), signatures)
def test_a_good_request_with_bytes_replaced(
    sent: tuple[bytes, int | None], changes: list[tuple[float, float, bytes]], signature: Signature
) -> None:
    body, header_length = sent
    for where, length, new in changes:
        start = int(where * len(body))
        body = body[:start] + new + body[start + int(length * len(body)) :]
    check(body, signature, of_predict=True)
    check(body, signature, header_length)


def nested(opening: bytes, closing: bytes, depth: int) -> bytes:
    return opening * depth + b"1" + closing * depth


@pytest.mark.parametrize("depth", [50, 990, 1000, *range(1015, 1025), DEPTH])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")], ids=["lists", "objects"])
@pytest.mark.parametrize(
    "around",
    [
        b"%s",
        b'{"instances": %s}',
        b'{"instances": [[1, 2, 3]], "method": %s}',
        b'{"inputs": %s}',
        b'{"inputs": [{"name": %s}]}',
        b'{"inputs": [{"name": "input", "datatype": %s}]}',
        b'{"inputs": [{"name": "input", "datatype": "FP32", "shape": %s}]}',
        b'{"inputs": [{"name": "input", "datatype": "FP32", "shape": [2, 3], "data": %s}]}',
        b'{"inputs": [{"name": "input", "datatype": "FP32", "shape": [2, 3], "parameters": {"binary_data_size": %s}}]}',
        b'{"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}],'
        b' "parameters": {"binary_data_output": %s}}',
    ],
)
def test_deep_nesting(around: bytes, opening: bytes, closing: bytes, depth: int) -> None:
    body = around % nested(opening, closing, depth)
    for of_predict in (True, False):
        assert not check(body, SIGNATURES[1], of_predict=of_predict)


def test_equal_keys_are_one(signature: Signature) -> None:
    assert check(b'{"instances": 1, "instances": [[1, 2, 3]]}', signature, of_predict=True)
    assert not check(b'{"instances": [[1, 2, 3]], "instances": 1}', signature, of_predict=True)


@pytest.mark.parametrize(
    "piece", [b"[],", b"[[1]],", b'{"a":1},', b'"\xc3\xb6",', b"1e9,", b"1,"], ids=lambda piece: piece.decode()
)
def test_memory_is_bounded_by_the_body(piece: bytes, signature: Signature) -> None:
    """The parsed objects of the worst body take some tens of times its bytes; a message takes next to nothing more."""
    size = 100_000
    inner = piece * (size // len(piece))
    for body in (
        b'{"instances": [%s1]}' % inner,
        b'{"instances": [[1, 2, 3]], "method": [%s1]}' % inner,
        b'{"inputs": [{"name": "input", "shape": [%s1], "datatype": "FP64", "data": [1]}]}' % inner,
    ):
        tracemalloc.start()
        try:
            check(body, signature, of_predict=True)
            check(body, signature)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 100 * size


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"),
        ("x" * 10**7, f"'{'x' * 58}…"),
        ([1, [2, [3, [4, [5]]]]], "[1, [2, [3, [4, [...]]]]]"),
        (list(range(10**6)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, …"),
        ({"a": None}, "{'a': None}"),
        (2**64 - 1, "18446744073709551615"),
        (1e300, "1e+300"),
        (True, "True"),
        ("a\nb\u202e", "'a\\nb\\u202e'"),
    ],
)
def test_a_clients_value_in_a_message(value: object, text: str) -> None:
    assert shown(value) == text
