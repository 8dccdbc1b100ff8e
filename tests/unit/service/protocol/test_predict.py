"""/predict: what is accepted, and the exact sentence for what is not."""

import dataclasses
import json

import numpy as np
import pytest

from service.protocol import json_body, predict, v2
from service.protocol.errors import Refused
from service.protocol.signature import Limits, Signature


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_arrive_in_the_models_dtype(signature: Signature, limits: Limits, dtype: type) -> None:
    shown = dataclasses.replace(signature, dtype=np.dtype(dtype))
    call = predict.parse(b'{"instances": [[1, 2.5, -3e2], [4, 5, 6]]}', shown, limits)
    assert call.rows.dtype == dtype
    assert call.rows.flags.c_contiguous
    assert call.rows.tolist() == [[1, 2.5, -300], [4, 5, 6]]
    assert call.methods == ("predict",)


def test_the_method_is_optional(signature: Signature, limits: Limits) -> None:
    call = predict.parse(b'{"instances": [[1, 2, 3]], "method": "predict_proba"}', signature, limits)
    assert call.methods == ("predict_proba",)


def test_whole_numbers_beyond_64_bits_are_numbers(signature: Signature, limits: Limits) -> None:
    call = predict.parse(b'{"instances": [[18446744073709551615, 1e300, 123456789012345678901234]]}', signature, limits)
    assert call.rows.tolist() == [[18446744073709551615.0, 1e300, 123456789012345678901234.0]]


def test_any_width_where_the_model_does_not_say(signature: Signature, limits: Limits) -> None:
    free = dataclasses.replace(signature, features=None)
    assert predict.parse(b'{"instances": [[1, 2, 3, 4, 5]]}', free, limits).rows.shape == (1, 5)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"instances": [' + b"[]," * 50_000 + b"[]]}", "the body has 50002 lists; expected at most 4 rows"),
        (
            b'{"instances": [[' + b"0," * 50_000 + b"0]]}",
            "more than 50000 values; expected at most 4 rows of 3",
        ),
        (b'{"instances": [' + b"{}," * 50_000 + b"{}]}", "the body has 50002 objects; expected rows of numbers"),
    ],
    ids=["lists", "values", "objects"],
)
@pytest.mark.parametrize("parse", ["predict", "v2"])
def test_a_body_with_more_in_it_than_any_request_is_refused_unparsed(
    signature: Signature, limits: Limits, body: bytes, says: str, parse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_body.orjson, "loads", lambda _: pytest.fail("it was parsed"))
    with pytest.raises(Refused, match=says) as refusal:
        predict.parse(body, signature, limits) if parse == "predict" else v2.parse(body, None, signature, limits)
    assert refusal.value.status == 413


def test_the_largest_request_is_parsed_however_long_its_text(signature: Signature) -> None:
    rows = [[0.12345678901234567, 1e-300, -3.0]] * 4000
    body = json.dumps({"instances": rows, "method": "predict"}, indent=2).encode()
    assert len(body) > 200_000
    assert len(predict.parse(body, signature, Limits(4000, 1 << 24)).rows) == 4000


REFUSED = [
    # what is wrong, the body, status, the sentence
    ("nothing", "", 400, 'the body is empty; expected an object such as {"instances": [[…], …]}'),
    (
        "no JSON",
        '{"instances": [[1, 2, 3]',
        400,
        "the body is not JSON: unexpected end of data at line 1, column 25; expected an object such as "
        '{"instances": [[…], …]}',
    ),
    (
        "NaN",
        '{"instances": [[1, 2, NaN]]}',
        400,
        "NaN at line 1, column 23 is no JSON; expected a finite number",
    ),
    (
        "minus infinity",
        '{"instances": [[1, 2, -Infinity]]}',
        400,
        "Infinity at line 1, column 24 is no JSON; expected a finite number",
    ),
    ("a list", "[[1, 2, 3]]", 400, 'the body is a list; expected an object such as {"instances": [[…], …]}'),
    ("no instances", "{}", 400, "'instances' is missing; expected an object such as {\"instances\": [[…], …]}"),
    (
        "a misspelt key",
        '{"instnaces": [[1, 2, 3]]}',
        400,
        "unknown key 'instnaces'; expected 'instances' or 'method'",
    ),
    (
        "an unknown key",
        '{"instances": [[1, 2, 3]], "batch": 3}',
        400,
        "unknown key 'batch'; expected 'instances' or 'method'",
    ),
    (
        "an unknown method",
        '{"instances": [[1, 2, 3]], "method": "transform"}',
        400,
        "method is 'transform'; the model has predict, predict_proba",
    ),
    ("a method that is no text", '{"instances": [[1, 2, 3]], "method": ["a"]}', 400, "method is ['a']; the model has"),
    ("null", '{"instances": null}', 400, "instances is null; expected a list of rows"),
    ("an object", '{"instances": {"a": 1}}', 400, "instances is an object; expected a list of rows"),
    ("no row", '{"instances": []}', 400, "instances is empty; expected at least one row"),
    ("a flat row", '{"instances": [1, 2, 3]}', 400, "instances[0] is a number; expected a list of 3 numbers"),
    ("an empty row", '{"instances": [[]]}', 400, "instances[0] has 0 numbers; the model expects 3"),
    ("too few", '{"instances": [[1, 2]]}', 400, "instances[0] has 2 numbers; the model expects 3"),
    ("too many", '{"instances": [[1, 2, 3, 4]]}', 400, "instances[0] has 4 numbers; the model expects 3"),
    ("ragged", '{"instances": [[1, 2, 3], [1, 2]]}', 400, "instances[1] has 2 numbers; the model expects 3"),
    ("too deep", '{"instances": [[[1], [2], [3]]]}', 400, "instances[0][0] is a list; expected a number"),
    ("text", '{"instances": [[1, "2", 3]]}', 400, "instances[0][1] is the string '2'; expected a number"),
    ("true", '{"instances": [[1, 2, 3], [1, true, 3]]}', 400, "instances[1][1] is a boolean; expected a number"),
    ("false among floats", '{"instances": [[1.5, false, 3]]}', 400, "instances[0][1] is a boolean; expected a number"),
    ("null in a row", '{"instances": [[1, null, 3]]}', 400, "instances[0][1] is null; expected a number"),
    ("an object in a row", '{"instances": [[1, {}, 3]]}', 400, "instances[0][1] is an object; expected a number"),
    (
        "too many rows",
        json.dumps({"instances": [[1, 2, 3]] * 5}),
        413,
        "the request has 5 rows; expected at most 4 (SERVICE_MAX_REQUEST_ROWS)",
    ),
]


@pytest.mark.parametrize(
    ("body", "status", "sentence"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_a_wrong_request_is_refused(
    body: str, status: int, sentence: str, signature: Signature, limits: Limits
) -> None:
    with pytest.raises(Refused) as caught:
        predict.parse(body.encode(), signature, limits)
    assert caught.value.status == status
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ('{"instances": [[]]}', "instances[0] is empty; expected at least one number"),
        ('{"instances": [[1, 2], [1, 2, 3]]}', "instances[1] has 3 numbers; expected 2, as in instances[0]"),
        ('{"instances": [1]}', "instances[0] is a number; expected a list of numbers"),
    ],
)
def test_rows_must_agree_where_the_model_does_not_say(
    body: str, sentence: str, signature: Signature, limits: Limits
) -> None:
    with pytest.raises(Refused) as caught:
        predict.parse(body.encode(), dataclasses.replace(signature, features=None), limits)
    assert str(caught.value) == sentence


def test_a_number_too_large_for_the_models_dtype(signature: Signature, limits: Limits) -> None:
    single = dataclasses.replace(signature, dtype=np.dtype(np.float32))
    with pytest.raises(Refused) as caught:
        predict.parse(b'{"instances": [[1, 2, 3], [4, 1e300, 6]]}', single, limits)
    assert str(caught.value) == "instances[1][1] is 1e+300; expected a finite float32 number"


@pytest.mark.parametrize(
    ("result", "body"),
    [
        (np.array([1, 2], dtype=np.int64), b'{"predictions":[1,2]}'),
        (np.array([[0.25, 0.75]]), b'{"predictions":[[0.25,0.75]]}'),
        (np.array([0.1], dtype=np.float32), b'{"predictions":[0.1]}'),
        (np.array(["cat", "dog"]), b'{"predictions":["cat","dog"]}'),
        (np.array([[1.0, 2.0], [3.0, 4.0]]).T, b'{"predictions":[[1.0,3.0],[2.0,4.0]]}'),
        (np.array([np.nan]), b'{"predictions":[null]}'),
        ([1, 2], b'{"predictions":[1,2]}'),
    ],
)
def test_results_are_written_as_json(result: object, body: bytes) -> None:
    assert predict.write(result) == body
