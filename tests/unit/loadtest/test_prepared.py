"""From settings to requests: which rows, which body, which head, and what is said of it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from loadtest.prepared import Prepared, prepare, same_requests
from loadtest.rows import VARIETY, RowsError, digit_rows
from loadtest.settings import LoadSettings
from loadtest.shapes import Model, NotAsked, Tensor

URL = "http://127.0.0.1:8000"
DIGITS = Model("digits", (Tensor("input", "FP64", (-1, 64)),))
FOUR = Model("iris", (Tensor("x", "FP32", (-1, 4)),))


class Asked:
    """Answers for the target."""

    def __init__(self, answer: Model | str) -> None:
        self.answer = answer
        self.questions: list[tuple[Any, ...]] = []

    def __call__(self, host: str, port: int, path: str, headers: Sequence[tuple[str, str]]) -> Model:
        self.questions.append((host, port, path, tuple(headers)))
        if isinstance(self.answer, str):
            raise NotAsked(self.answer)
        return self.answer


def made(answer: Model | str = DIGITS, url: str = URL, **values: Any) -> Prepared:
    return prepare(LoadSettings().with_values(values), url, Asked(answer))


def bodies(prepared: Prepared) -> list[Any]:
    return [json.loads(request.partition(b"\r\n\r\n")[2]) for request in prepared.requests]


def test_the_digits_are_sent_to_a_model_that_takes_them() -> None:
    prepared = made(rows_per_request="1,2", seed=7, timeout_seconds=1.5)
    rows = [json.loads(row) for row in digit_rows()]
    sent = bodies(prepared)
    assert all(row in rows for body in sent[:50] for row in body["instances"])
    assert [len(body["instances"]) for body in sent].count(2) == VARIETY // 2
    head, _, body = prepared.requests[0].partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"POST /predict HTTP/1.1",
        b"Host: 127.0.0.1:8000",
        b"Content-Type: application/json",
        b"Accept: application/json",
        b"X-Request-Timeout-Ms: 1500",
        b"Content-Length: %d" % len(body),
    ]
    assert prepared.requests == made(rows_per_request="1,2", seed=7, timeout_seconds=1.5).requests
    assert prepared.requests != made(rows_per_request="1,2", seed=8, timeout_seconds=1.5).requests
    assert (prepared.name, prepared.said) == ("/predict", "POST /predict with rows of the handwritten digits")


def test_a_target_that_does_not_say_gets_the_digits_and_it_is_said() -> None:
    prepared = made("it cannot be reached (Connection refused)")
    assert prepared.requests == made().requests
    assert prepared.said == (
        "POST /predict with rows of the handwritten digits; the target does not say what its model takes: it cannot "
        "be reached (Connection refused)"
    )


def test_another_model_gets_rows_in_its_shape() -> None:
    prepared = made(FOUR, rows_per_request="3")
    sent = bodies(prepared)
    assert len(sent) == VARIETY
    assert {len(row) for body in sent for row in body["instances"]} == {4}
    assert {len(body["instances"]) for body in sent} == {3}
    assert prepared.said == "POST /predict with made-up rows in the shape that model 'iris' takes"


def test_a_v2_path_gets_tensors() -> None:
    prepared = made(path="/v2/models/digits/infer?x=1", rows_per_request="2", header="Authorization: Bearer t")
    tensor = bodies(prepared)[0]["inputs"][0]
    rows = [json.loads(row) for row in digit_rows()]
    assert (tensor["name"], tensor["shape"], tensor["datatype"]) == ("input", [2, 64], "FP64")
    assert all(row in rows for row in tensor["data"])
    assert prepared.requests[0].startswith(b"POST /v2/models/digits/infer?x=1 HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n")
    assert b"\r\nAuthorization: Bearer t\r\n" in prepared.requests[0]
    assert prepared.name == "/v2/models/digits/infer"
    assert (
        made("silent", path="/v2/models/digits/infer?x=1", rows_per_request="2")
        .requests[0]
        .endswith(prepared.requests[0].partition(b"\r\n\r\n")[2])
    )


def test_the_target_is_asked_with_the_headers_and_only_where_needed(tmp_path: Path) -> None:
    ask = Asked(FOUR)
    rows = tmp_path / "rows.csv"
    rows.write_text("1,2,3,4\n")
    settings = LoadSettings().with_values({"header": "Authorization: b"})
    prepare(settings, "http://[::1]:9", ask)
    assert ask.questions == [("::1", 9, "/predict", (("Authorization", "b"),))]
    prepare(settings.with_values({"data": str(rows)}), URL, ask)
    prepare(settings.with_values({"body_file": str(rows)}), URL, ask)
    assert len(ask.questions) == 1
    prepare(settings.with_values({"data": str(rows), "path": "/v2/models/iris/infer"}), URL, ask)
    assert len(ask.questions) == 2


def test_an_ipv6_target_is_in_brackets() -> None:
    assert b"\r\nHost: [::1]:9\r\n" in made(url="http://[::1]:9").requests[0]


def test_rows_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("1,2\n3,4.5\n")
    prepared = made(data=str(path), rows_per_request="1,3")
    assert {tuple(row) for body in bodies(prepared) for row in body["instances"]} == {(1, 2), (3, 4.5)}
    assert prepared.said == f"POST /predict with 2 rows of {path}"
    with pytest.raises(RowsError, match=r"rows\.csv, row 1 has shape \[2\]; model 'iris' expected \[4\] for 'x'"):
        made(FOUR, data=str(path), path="/v2/models/iris/infer")


def test_bodies_of_a_file_come_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "bodies.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": 3}\n')
    prepared = made(body_file=str(path), path="/other")
    assert [request.partition(b"\r\n\r\n")[2] for request in prepared.requests] == [
        b'{"a": 1}',
        b'{"a": 2}',
        b'{"a": 3}',
    ]
    assert b"Content-Type: application/json\r\n" in prepared.requests[0]
    assert prepared.said == f"POST /other with 3 bodies in turn from {path}"


@pytest.mark.parametrize(
    ("name", "header", "content_type"),
    [
        ("a.bin", "", b"application/octet-stream"),
        ("a.json", "", b"application/json"),
        ("a.bin", "content-type: image/png", b"image/png"),
    ],
)
def test_a_bodys_content_type(tmp_path: Path, name: str, header: str, content_type: bytes) -> None:
    (tmp_path / name).write_bytes(b"\x00\r\n\r\n\xff")
    (request,) = made(body_file=str(tmp_path / name), header=header).requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert body == b"\x00\r\n\r\n\xff"
    lines = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-type")]
    assert [line.partition(b": ")[2] for line in lines] == [content_type]


@pytest.mark.parametrize(
    ("values", "url", "sentence"),
    [
        ({}, "https://x", "host is 'https://x'; expected http://HOST:PORT: the lean client speaks plain HTTP, no TLS"),
        ({"data": "none.csv"}, URL, "data none.csv cannot be read: No such file or directory; expected a file"),
        ({"body_file": "none"}, URL, "body_file none cannot be read: No such file or directory; expected a file"),
    ],
)
def test_what_cannot_be_sent_is_one_sentence(values: dict[str, Any], url: str, sentence: str) -> None:
    with pytest.raises(RowsError) as caught:
        made(url=url, **values)
    assert str(caught.value) == sentence


def test_a_model_without_an_axis_of_rows_takes_one_a_request() -> None:
    model = Model("m", (Tensor("x", "FP32", (4,)),))
    path = "/v2/models/m/infer"
    assert bodies(made(model, path=path))[0]["inputs"][0]["shape"] == [4]
    with pytest.raises(RowsError, match="rows_per_request is '1,2', but model 'm' takes one row a request; expected 1"):
        made(model, path=path, rows_per_request="1,2")


@pytest.mark.parametrize(
    ("change", "same"),
    [({"rate": 5}, True), ({"arrivals": "ramp"}, True), ({"seed": 2}, False), ({"path": "/x"}, False)]
    + [({name: value}, False) for name, value in [("header", "A: b"), ("timeout_seconds", 5), ("data", "a.csv")]],
)
def test_which_settings_change_requests(change: dict[str, Any], same: bool) -> None:
    assert same_requests(LoadSettings(), LoadSettings().with_values(change)) is same
