"""Inference routes through both fronts: the same test runs on Flask alone and on a connection of the front."""

import json
import struct
from collections.abc import Callable
from typing import Any

import pytest

from service.batching import errors
from service.handler import STATUS_OF

ROW = {"instances": [[1, 2, 3]]}
INFER = "/v2/models/sums/infer"
TENSOR = {"inputs": [{"name": "input", "shape": [2, 3], "datatype": "FP64", "data": [1, 2, 3, 4, 5, 6]}]}


def test_predictions_with_their_stage_times(world: Any) -> None:
    answer = world.call("POST", "/predict", {"instances": [[1, 2, 3], [4, 5, 6]]})
    assert answer.status == 200
    assert answer.body == b'{"predictions":[6.0,15.0]}'
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["server-timing"] == "queue;dur=1.000, model;dur=2.000"
    assert answer.headers["x-batch-rows"] == "7"


def test_the_ticket_carries_group_and_deadline(world: Any) -> None:
    world.call("POST", "/predict", {**ROW, "method": "predict_proba"})
    (ticket,) = world.batcher.submitted
    assert ticket.group == ("predict_proba", "float64", 3)


def test_v2_in_json(world: Any) -> None:
    answer = world.call("POST", INFER, {**TENSOR, "id": "a"})
    assert answer.status == 200
    assert answer.json == {
        "model_name": "sums",
        "model_version": "1",
        "id": "a",
        "outputs": [
            {"name": "predict", "datatype": "FP64", "shape": [2], "data": [6.0, 15.0]},
            {"name": "predict_proba", "datatype": "FP64", "shape": [2, 2], "data": [6.0, 6.0, 15.0, 15.0]},
        ],
    }


def test_v2_in_bytes_without_a_content_type(world: Any) -> None:
    raw = struct.pack("<6f", *range(6))
    tensor = {"name": "input", "shape": [2, 3], "datatype": "FP32", "parameters": {"binary_data_size": len(raw)}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    answer = world.call("POST", INFER, head + raw, {"Inference-Header-Content-Length": str(len(head))})
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    length = int(answer.headers["inference-header-content-length"])
    assert struct.unpack("<6d", answer.body[length:]) == (3.0, 12.0, 3.0, 3.0, 12.0, 12.0)


def test_two_outputs_are_two_tickets(world: Any) -> None:
    asked = {**TENSOR, "outputs": [{"name": "predict_proba"}, {"name": "predict"}]}
    answer = world.call("POST", INFER, asked)
    assert [output["name"] for output in answer.json["outputs"]] == ["predict_proba", "predict"]
    assert [ticket.group[0] for ticket in world.batcher.submitted] == ["predict_proba", "predict"]
    assert [ticket.beside for ticket in world.batcher.submitted] == [0, 1]
    assert world.handler.in_flight == 0


def test_how_outputs_are_written_never_splits_a_batch(world: Any) -> None:
    """What a batch is formed by, the tickets' group, is the same whether the reply is to be JSON or bytes."""
    for parameters in ({}, {"binary_data": True}, {"binary_data": False}):
        asked = {**TENSOR, "id": str(parameters), "outputs": [{"name": "predict", "parameters": parameters}]}
        assert world.call("POST", INFER, asked).status == 200
    assert world.call("POST", "/predict", {"instances": [[1, 2, 3]]}).status == 200
    assert {ticket.group for ticket in world.batcher.submitted} == {("predict", "float64", 3)}


def test_a_second_ticket_that_finds_no_room_takes_the_first_back(world: Any) -> None:
    first = world.batcher.submit

    def full_after_one(ticket: Any, wake: bool = True) -> None:
        if world.batcher.submitted:
            raise errors.QueueFull("the queue is full", 1.0)
        world.batcher.holds = True
        first(ticket, wake)

    world.batcher.submit = full_after_one
    answer = world.call("POST", INFER, {**TENSOR, "outputs": [{"name": "predict_proba"}, {"name": "predict"}]})
    assert answer.status == 429
    assert world.batcher.cancelled == world.batcher.submitted
    assert world.handler.in_flight == 0


@pytest.mark.parametrize(
    ("headers", "timeout"),
    [
        ({}, 1.0),
        ({"X-Request-Timeout-Ms": "250"}, 0.25),
        ({"X-Request-Timeout-Ms": "0.5"}, 0.0005),
        ({"X-Request-Timeout-Ms": "60000"}, 1.0),  # may only tighten
    ],
)
def test_the_deadline_counts_from_arrival(world: Any, headers: dict[str, str], timeout: float) -> None:
    world.handler._clock = lambda: 0.0
    world.call("POST", "/predict", json.dumps(ROW).encode(), headers)
    (ticket,) = world.batcher.submitted
    (record,) = world.records
    assert ticket.deadline + record.seconds == pytest.approx(timeout)  # both relative to the arrival: clock() is zero


REFUSED = [
    # body, headers, status, sentence
    (b'{"instances": [[1, 2]]}', {}, 400, "instances[0] has 2 numbers; the model expects 3"),
    (b"", {}, 400, 'the body is empty; expected an object such as {"instances": [[…], …]}'),
    (
        b"instances=1",
        {"Content-Type": "application/x-www-form-urlencoded"},
        415,
        "Content-Type is 'application/x-www-form-urlencoded'; expected application/json",
    ),
    (
        b"{}",
        {"Content-Type": "application/octet-stream"},
        415,
        "Content-Type is 'application/octet-stream'; expected application/json",
    ),
    (
        b"\x1f\x8b",
        {"Content-Encoding": "gzip"},
        415,
        "Content-Encoding is 'gzip'; expected a body that is not compressed",
    ),
    (
        b'{"instances": [[1, 2, 3]]}',
        {"X-Request-Timeout-Ms": "soon"},
        400,
        "X-Request-Timeout-Ms is 'soon'; expected milliseconds above 0",
    ),
    (
        b'{"instances": [[1, 2, 3]]}',
        {"X-Request-Timeout-Ms": "-5"},
        400,
        "X-Request-Timeout-Ms is '-5'; expected milliseconds above 0",
    ),
    (
        b'{"instances": [[1, 2, 3]]}',
        {"X-Request-Timeout-Ms": "nan"},
        400,
        "X-Request-Timeout-Ms is 'nan'; expected milliseconds above 0",
    ),
    (
        b"x" * 2001,
        {},
        413,
        "the body has 2001 bytes; expected at most 2000 bytes (SERVICE_MAX_REQUEST_BYTES)",
    ),
    (
        b'{"instances": [[1,2,3],[1,2,3],[1,2,3],[1,2,3],[1,2,3]]}',
        {},
        413,
        "the request has 5 rows; expected at most 4 (SERVICE_MAX_REQUEST_ROWS)",
    ),
]


@pytest.mark.parametrize(("body", "headers", "status", "sentence"), REFUSED)
def test_wrong_input_is_refused_before_the_queue(
    world: Any, body: bytes, headers: dict[str, str], status: int, sentence: str
) -> None:
    answer = world.call("POST", "/predict", body, headers)
    assert (answer.status, answer.json) == (status, {"error": sentence})
    assert answer.headers["content-type"] == "application/json"
    assert world.batcher.submitted == []
    (record,) = world.records
    assert (record.route, record.outcome, record.reason) == ("/predict", "client_error", "invalid")


@pytest.mark.parametrize(
    "stated", ["application/json; charset=utf-8", "Application/JSON", "application/cloudevents+json"]
)
def test_json_by_any_of_its_names(world: Any, stated: str) -> None:
    assert world.call("POST", "/predict", json.dumps(ROW).encode(), {"Content-Type": stated}).status == 200


def test_an_unknown_model(world: Any) -> None:
    answer = world.call("POST", "/v2/models/other/infer", TENSOR)
    assert answer.status == 404
    assert answer.json == {"error": "model 'other' is not served here; this service serves 'sums'"}
    assert [record.outcome for record in world.records] == ["client_error"]


def test_a_header_length_that_is_no_length(world: Any) -> None:
    answer = world.call("POST", INFER, TENSOR, {"Inference-Header-Content-Length": "all"})
    assert answer.status == 400
    assert answer.json["error"].startswith("Inference-Header-Content-Length is 'all'; expected the length of the JSON")


CORE_ERRORS = [
    (errors.QueueFull("the queue is full", 2.2), 429, "shed", "queue_full", "3"),
    (errors.Unlikely("too late"), 429, "shed", "unlikely", "1"),
    (errors.Draining("going"), 503, "shed", "draining", "1"),
    (errors.DeadlinePassed("no answer within 1 s"), 504, "failed", "deadline", None),
    (errors.ModelDown("the worker died"), 503, "failed", "model_down", "1"),
    (errors.ModelFailed("ValueError: no"), 500, "failed", None, None),
    (errors.WrongResultLength("3 rows for 4"), 500, "failed", None, None),
]


@pytest.mark.parametrize(("error", "status", "outcome", "reason", "retry_after"), CORE_ERRORS)
@pytest.mark.parametrize("stage", ["refuses", "fails"])
def test_core_errors_have_one_table(
    world: Any, stage: str, error: errors.BatcherError, status: int, outcome: str, reason: str, retry_after: str
) -> None:
    setattr(world.batcher, stage, error)
    answer = world.call("POST", "/predict", ROW)
    assert (answer.status, answer.json) == (status, {"error": str(error)})
    assert answer.headers.get("retry-after") == retry_after
    (record,) = world.records
    assert (record.outcome, record.reason, record.status) == (outcome, reason, status)
    assert world.handler.in_flight == 0


def test_every_core_error_is_in_the_table() -> None:
    leaves = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.BatcherError)
    ]
    for kind in leaves:
        if kind is not errors.BatcherError:
            assert any(base in STATUS_OF for base in kind.__mro__), kind


def test_a_result_that_cannot_be_written_is_the_models_failure(world: Any) -> None:
    def answer(ticket: Any) -> None:
        ticket.result = [object()]

    world.batcher.answer = answer
    reply = world.call("POST", "/predict", ROW)
    assert reply.status == 500
    assert reply.json["error"].startswith("the model's result cannot be written")
    assert world.handler.in_flight == 0


def test_one_record_per_request(world: Any) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    world.call("POST", "/predict", {"instances": [[1, 2, 3], [4, 5, 6]]}, {"traceparent": trace})
    (record,) = world.records
    assert (record.route, record.outcome, record.status, record.reason) == ("/predict", "ok", 200, None)
    assert (record.rows, record.batch_rows) == (2, 7)
    assert (record.queue_seconds, record.model_seconds) == (0.001, 0.002)
    assert record.seconds > 0
    assert record.trace_id == "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_malformed_traceparent_is_left_out(world: Any) -> None:
    world.call("POST", "/predict", ROW, {"traceparent": "00-<script>-1-01"})
    assert world.records[0].trace_id is None


def test_both_fronts_give_the_same_bytes(build: Callable[[], Any], through_both: Callable[..., Any]) -> None:
    requests = [
        ("POST", "/predict", json.dumps(ROW).encode(), {"Content-Type": "application/json"}),
        *[("POST", "/predict", body, headers) for body, headers, _, _ in REFUSED],
        ("POST", INFER, json.dumps(TENSOR).encode(), {}),
        ("POST", "/v2/models/other/infer", b"{}", {}),
        ("GET", "/predict", b"", {}),
        ("POST", "/predict/", b"{}", {}),
        ("POST", "/v2/models//infer", b"{}", {}),
        ("POST", "/v2/models/a/b/infer", b"{}", {}),
        ("PUT", INFER, b"{}", {}),
        ("GET", "/v2", b"", {}),
        ("GET", "/nowhere", b"", {}),
        ("GET", "/openapi.json", b"", {}),
    ]
    for request in requests:
        answers = [through_both(build(), name)(*request) for name in ("flask", "front")]
        assert answers[0].status == answers[1].status, request
        assert answers[0].body == answers[1].body, request
        assert answers[0].headers.get("content-type") == answers[1].headers.get("content-type"), request
