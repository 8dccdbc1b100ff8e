"""The running service: every caller gets its own rows, a full queue says so, and the numbers tell what happened."""

import json
import socket
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.models import load, parse_model


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """`work(0) … work(count - 1)`, all started at the same moment."""
    barrier = threading.Barrier(count)

    def one(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.parametrize("workers", ["0", "1"])
def test_64_callers_at_once_get_what_the_bare_model_says(
    start: Callable[..., Any], on: Callable[..., Any], tmp_path: Path, workers: str
) -> None:
    service = start(SERVICE_MODEL="digits?trees=20", SERVICE_MODEL_WORKERS=workers)
    bare = load(parse_model("digits?trees=20"), tmp_path / "models", allow_pickle=False)
    random = np.random.default_rng(1)
    rows = [random.integers(0, 17, (1 + number % 5, 64)).astype(np.float64) for number in range(64)]

    def ask(number: int) -> list[Any]:
        connection = service.connect()
        got = []
        for method in ("predict", "predict_proba", "predict"):
            body = {"instances": rows[number].tolist(), "method": method}
            status, _, reply = on(connection, "POST", "/predict", body)
            assert status == 200, reply
            got.append(json.loads(reply)["predictions"])
        connection.close()
        return got

    for number, got in enumerate(together(64, ask)):
        labels, probabilities = bare.run("predict", rows[number]), bare.run("predict_proba", rows[number])
        assert got == [labels.tolist(), probabilities.tolist(), labels.tolist()]
    assert service.metric("inference_batch_rows_count") < 3 * 64  # they were merged
    assert service.metric("inference_batch_rows_sum") == 3 * sum(map(len, rows))
    assert service.metric("inference_request_duration_seconds_count", outcome="ok", route="/predict") == 3 * 64


def test_a_full_queue_says_429_at_once_and_health_still_answers(start: Callable[..., Any]) -> None:
    service = start(
        SERVICE_MODEL="synthetic?fixed_seconds=0.5&per_row_seconds=0&features=3",
        SERVICE_QUEUE_CAPACITY_ROWS="8",
        SERVICE_MAX_REQUEST_ROWS="8",
        SERVICE_MAX_BATCH_ROWS="4",
    )

    def ask(number: int) -> tuple[int, dict[str, str], bytes, float]:
        if number == 39:
            answer = service.call("GET", "/healthz")
        else:
            began = time.monotonic()
            answer = service.call("POST", "/predict", {"instances": [[number, 0, 0]]})
            return (*answer, time.monotonic() - began)
        return (*answer, 0.0)

    answers = together(40, ask)
    assert answers.pop()[0] == 200
    kinds = Counter(status for status, *_ in answers)
    assert set(kinds) == {200, 429}
    assert kinds[200] >= 8
    for number, (status, headers, body, seconds) in enumerate(answers):
        if status == 200:
            assert json.loads(body) == {"predictions": [float(number)]}
        else:
            assert int(headers["retry-after"]) >= 1
            assert "the queue holds" in json.loads(body)["error"]
            assert seconds < 5  # an order of magnitude: it did not wait its turn
    assert service.metric("inference_rejected_total", reason="queue_full") == kinds[429]
    assert service.metric("inference_queue_depth_rows") == 0
    assert service.metric("inference_requests_in_flight") == 0


def test_a_deadline_passes_while_the_model_is_busy(start: Callable[..., Any]) -> None:
    service = start(
        SERVICE_MODEL="synthetic?fixed_seconds=3&per_row_seconds=0&features=3", SERVICE_REQUEST_TIMEOUT_SECONDS="0.3"
    )
    began = time.monotonic()
    answers = together(4, lambda number: service.call("POST", "/predict", {"instances": [[number, 0, 0]]}))
    assert time.monotonic() - began < 2.5
    assert [status for status, *_ in answers] == [504] * 4
    assert service.metric("inference_rejected_total", reason="deadline") == 4


def test_two_thousand_idle_connections_cost_nothing(start: Callable[..., Any]) -> None:
    service = start()
    idle = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(2000)]
    try:
        assert service.predict([[1, 2, 3]]) == [6.0]
        assert service.call("GET", "/readyz")[0] == 200
        assert service.call("GET", "/readyz", admin=True)[0] == 200
    finally:
        for connection in idle:
            connection.close()


def test_no_step_of_forty_milliseconds(start: Callable[..., Any], on: Callable[..., Any]) -> None:
    """Nagle's algorithm and delayed ACK together would add 40 ms to every request on a kept connection."""
    service = start()
    connection = service.connect()
    times = []
    for _ in range(60):
        began = time.monotonic()
        assert on(connection, "POST", "/predict", {"instances": [[1, 2, 3]]})[0] == 200
        times.append(time.monotonic() - began)
    assert statistics.median(times) < 0.035


def test_a_client_that_left_is_counted_and_leaves_nothing(
    start: Callable[..., Any], until: Callable[..., None]
) -> None:
    service = start(SERVICE_MODEL="synthetic?fixed_seconds=1&per_row_seconds=0&features=3", SERVICE_MAX_BATCH_ROWS="1")
    body = b'{"instances": [[1, 2, 3]]}'
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    clients = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(5)]
    for client in clients:
        client.sendall(head + body)
    until(lambda: service.metric("inference_requests_in_flight") == 5)
    for client in clients:
        client.close()
    until(lambda: service.metric("inference_requests_in_flight") == 0)
    assert service.metric("inference_rejected_total", reason="client_gone") == 5
    assert service.metric("inference_queue_depth_rows") == 0
    assert service.predict([[1, 2, 3]]) == [6.0]
    assert service.metric("inference_batch_rows_sum") <= 3  # the rows still queued never reached the model


def test_knobs_turn_while_it_runs(start: Callable[..., Any]) -> None:
    service = start(SERVICE_BATCHING_POLICY="fixed", SERVICE_MAX_WAIT_SECONDS="0.3", SERVICE_MAX_BATCH_ROWS="8")

    def rows_of_batches() -> list[int]:
        answers = together(8, lambda _: service.call("POST", "/predict", {"instances": [[1, 2, 3]]}))
        return [int(headers["x-batch-rows"]) for _, headers, _ in answers]

    assert max(rows_of_batches()) > 1
    assert service.turn(max_batch_rows=1) == {"policy": "fixed", "max_batch_rows": 1, "max_wait_seconds": 0.3}
    assert rows_of_batches() == [1] * 8
    assert service.metric("inference_batching_max_batch_rows") == 1
    assert service.turn(policy="adaptive", max_batch_rows=64)["policy"] == "adaptive"
    status, _, body = service.call("GET", "/admin/batching", admin=True)
    assert (status, json.loads(body)["max_batch_rows"]) == (200, 64)


def test_random_urls_add_no_label(start: Callable[..., Any], on: Callable[..., Any]) -> None:
    service = start()

    def routes() -> set[str]:
        _, _, text = service.call("GET", "/metrics", admin=True)
        return {part.split('"')[0] for part in text.decode().split('route="')[1:]}

    before = routes()
    connection = service.connect()
    for number in range(300):
        assert on(connection, "GET", f"/{number:x}/{number * 7919}")[0] == 404
    assert routes() == before
    assert service.metric("inference_request_duration_seconds_count", route="other", outcome="client_error") == 300


def test_the_slowest_requests_carry_their_trace(start: Callable[..., Any]) -> None:
    service = start()
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01", "Content-Type": "application/json"}
    service.call("POST", "/predict", b'{"instances": [[1, 2, 3]]}', headers)
    _, _, body = service.call("GET", "/admin/slowest", admin=True)
    (entry,) = json.loads(body)["requests"]
    assert entry["trace_id"] == trace
    assert entry["model_ms"] >= 2
    assert entry["total_ms"] >= entry["model_ms"]


def test_a_scrape_during_saturation_is_quick(start: Callable[..., Any], on: Callable[..., Any]) -> None:
    service = start()
    stop = threading.Event()

    def load() -> None:
        connection = service.connect()
        while not stop.is_set():
            on(connection, "POST", "/predict", {"instances": [[1, 2, 3]]})

    threads = [threading.Thread(target=load) for _ in range(16)]
    for thread in threads:
        thread.start()
    times = []
    try:
        for _ in range(10):
            began = time.monotonic()
            assert service.call("GET", "/metrics", admin=True)[0] == 200
            times.append(time.monotonic() - began)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert statistics.median(times) < 1.0  # the order of magnitude; the load shares this machine's cores


WRONG = [
    (b'{"instances": [[1, 2]]}', {}, 400, "instances[0] has 2 numbers; the model expects 3"),
    (b'{"instances": [[1, 2, NaN]]}', {}, 400, "NaN at line 1, column"),
    (b'{"instances": []}', {}, 400, "instances is empty; expected at least one row"),
    (b"a=1", {"Content-Type": "text/plain"}, 415, "Content-Type is 'text/plain'; expected application/json"),
    (b"x" * 20_000_000, {}, 413, "the body has 20000000 bytes; expected at most 8388608 bytes"),
]


def test_wrong_input_over_a_kept_connection(start: Callable[..., Any], on: Callable[..., Any]) -> None:
    """Also after a body that was refused unread the connection serves on."""
    service = start()
    connection = service.connect()
    for body, headers, status, sentence in WRONG:
        answer = on(connection, "POST", "/predict", body, headers)
        assert answer[0] == status
        assert json.loads(answer[2])["error"].startswith(sentence)
        good = on(connection, "POST", "/predict", {"instances": [[1, 2, 3]]})
        assert json.loads(good[2]) == {"predictions": [6.0]}
    assert service.metric("inference_rejected_total", reason="invalid") == len(WRONG)


def test_a_chunked_body_beyond_the_limit_is_refused(start: Callable[..., Any]) -> None:
    service = start(SERVICE_MAX_REQUEST_BYTES="1000")
    connection = service.connect()
    connection.request("POST", "/predict", iter([b"x" * 500] * 4), {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status == 413
    assert "expected at most 1000 bytes" in json.loads(response.read())["error"]
