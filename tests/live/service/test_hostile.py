"""Requests that nobody should send: the fuzzer of the shipped API document, and thousands of broken bodies.

No answer is a fault of the service's own, none is left out, nothing grows, and good requests are served as before.
"""

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

FUZZER = """
seed = 20
[phases]
stateful.enabled = false
[generation]
database = "none"
max-examples = 100
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 503, 504]
negative_data_rejection.expected-statuses = [400, 404, 405, 413, 415, 429, 503, 504]
use_after_free.enabled = false
ensure_resource_availability.enabled = false
ignored_auth.enabled = false
[[operations]]
include-operation-id = "infer"
# A schema cannot say that shape, data and the header Inference-Header-Content-Length fit together.
checks.positive_data_acceptance.enabled = false
"""


def test_the_api_is_as_its_document_says(start: Callable[..., Any], tmp_path: Path) -> None:
    """Statuses, content types, headers and schemas; what the document allows is taken, what it forbids refused."""
    service = start(SERVICE_REQUEST_TIMEOUT_SECONDS="5")
    config = tmp_path / "schemathesis.toml"
    config.write_text(FUZZER)
    address = f"http://127.0.0.1:{service.port}/openapi.json"
    done = subprocess.run(
        [Path(sys.executable).with_name("schemathesis"), "--config-file", config, "run", "--no-color", address],
        cwd=tmp_path,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert "Operations:       11 selected / 11 total" in done.stdout
    assert service.predict([[1, 2, 3]]) == [6.0]


INFER = "/v2/models/synthetic/infer"
TENSOR = {"name": "input", "shape": [2, 3], "datatype": "FP32"}
ROWS = np.arange(6, dtype="<f4").tobytes()
ODD = (
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"[" * 2000,
    b'{"a":' * 2000,
    b"null",
    b'"',
    b"\\ud800",
    b"\xff",
    b"\0",
    b"9" * 400,
)
DOCUMENTED = {200, 400, 404, 405, 408, 413, 415, 429, 503, 504}


def good(chance: random.Random) -> tuple[str, bytes, dict[str, str]]:
    """A request that would be served."""
    if chance.random() < 0.4:
        return "/predict", b'{"instances": [[1, 2, 3], [4, 5, 6]], "method": "predict"}', {}
    if chance.random() < 0.5:
        return INFER, json.dumps({"id": "a", "inputs": [{**TENSOR, "data": [0, 1, 2, 3, 4, 5]}]}).encode(), {}
    tensor = {**TENSOR, "parameters": {"binary_data_size": len(ROWS)}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return INFER, head + ROWS, {"Inference-Header-Content-Length": str(len(head))}


def broken(chance: random.Random) -> tuple[str, bytes, dict[str, str]]:
    """The same with some of its bytes replaced, doubled or left out, and now and then a wrong header."""
    if chance.random() < 0.03:  # as deep as JSON is taken, in a value that a message shows
        depth = chance.randrange(900, 1030)
        return "/predict", b'{"instances": [[1, 2, 3]], "method": %s%s}' % (b"[" * depth, b"]" * depth), {}
    path, body, headers = good(chance)
    for _ in range(chance.randrange(4)):
        where, length = chance.randrange(len(body) + 1), chance.choice((0, 1, 1, 2, 9, 200))
        new = chance.choice((b"", chance.randbytes(chance.randrange(8)), chance.choice(ODD), body[where:][:60]))
        body = body[:where] + new + body[where + length :]
    if chance.random() < 0.2:
        name, texts = chance.choice(
            [
                ("Inference-Header-Content-Length", ("0", "1", "-1", "1e3", "99999999999", "9" * 30, "x", "")),
                ("X-Request-Timeout-Ms", ("0", "-1", "nan", "inf", "1e-9", "x", "", "1_0", "50")),
                ("Content-Type", ("text/plain", "application/json; charset=utf-7", ";", "application/octet-stream")),
                ("Content-Encoding", ("gzip", "identity", "br, gzip")),
                ("traceparent", ("00-0-0-0", "x" * 3000, "\xe9")),
            ]
        )
        headers = {**headers, name: chance.choice(texts)}
    return path, body, headers


def resident(process: psutil.Process) -> int:
    """Bytes that the service and its model workers hold in memory."""
    return sum(one.memory_info().rss for one in (process, *process.children(recursive=True)))


def test_thousands_of_broken_bodies(start: Callable[..., Any], on: Callable[..., Any]) -> None:
    service = start(SERVICE_MODEL_WORKERS="1", SERVICE_MAX_REQUEST_BYTES="200000")
    process = psutil.Process(service.process.pid)

    def send(seed: int, count: int, into: Counter[int]) -> None:
        chance = random.Random(seed)
        connection = service.connect()  # kept, whatever was sent on it; a reply later than 30 s fails the test
        for _ in range(count):
            path, body, headers = broken(chance)
            status, _, reply = on(connection, "POST", path, body, headers)
            into[status] += 1
            if status != 200:
                assert json.loads(reply)["error"], (status, reply, body)
        connection.close()

    def send_from_four_at_once(first_seed: int, count: int) -> Counter[int]:
        kinds: Counter[int] = Counter()
        failures: list[BaseException] = []

        def work(seed: int) -> None:
            try:
                send(seed, count, kinds)
            except BaseException as error:
                failures.append(error)
                raise

        threads = [threading.Thread(target=work, args=(first_seed + number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        return kinds

    send_from_four_at_once(100, 300)  # whatever is kept for good is there from now on
    before = resident(process)
    kinds = send_from_four_at_once(200, 1500)
    assert set(kinds) <= DOCUMENTED, kinds
    assert kinds[200] > 300  # some bodies were whole
    assert kinds[400] > 3000
    assert resident(process) - before < 32e6  # an order of magnitude: 6,000 requests of 5 kB each leave nothing
    assert service.process.poll() is None
    assert service.predict([[1, 2, 3]]) == [6.0]
    assert service.metric("inference_requests_in_flight") == 0
    assert service.metric("inference_queue_depth_rows") == 0
