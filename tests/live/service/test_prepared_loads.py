"""What the load generator prepares for a service that it asks is what that service takes."""

import http.client
import json
from collections.abc import Callable
from typing import Any

import pytest
from tritonclient import http as triton

from loadtest.prepared import Prepared, prepare
from loadtest.settings import LoadSettings

MADE = "made-up rows in the shape that model 'synthetic' takes"


def sent(service: Any, prepared: Prepared, count: int = 5) -> list[Any]:
    """The first few requests, as they are, one after the other: what comes back."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
    connection.connect()
    try:
        replies = []
        for request in prepared.requests[:count]:
            connection.sock.sendall(request)
            reply = http.client.HTTPResponse(connection.sock)
            reply.begin()
            body = reply.read()
            assert reply.status == 200, body
            replies.append(json.loads(body))
        return replies
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("path", "rows"), [("/predict", "1"), ("/predict", "1,4"), ("/v2/models/synthetic/infer", "1,4")]
)
def test_a_model_that_the_generator_does_not_know(start: Callable[..., Any], path: str, rows: str) -> None:
    service = start()
    settings = LoadSettings().with_values({"path": path, "rows_per_request": rows})
    prepared = prepare(settings, f"http://127.0.0.1:{service.port}")
    assert prepared.said == f"POST {path} with {MADE}"
    replies = sent(service, prepared)
    counts = {
        len(reply["predictions"]) if "predictions" in reply else reply["outputs"][0]["shape"][0] for reply in replies
    }
    assert counts <= {int(count) for count in rows.split(",")}
    assert service.metric("inference_batch_rows_sum") >= len(replies)


def test_tritons_client_finds_the_model_by_the_repository_index(start: Callable[..., Any]) -> None:
    service = start()
    with triton.InferenceServerClient(f"127.0.0.1:{service.port}") as client:
        (entry,) = client.get_model_repository_index()
    assert (entry["name"], entry["state"], entry["reason"]) == ("synthetic", "READY", "")
