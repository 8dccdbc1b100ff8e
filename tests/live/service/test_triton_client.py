"""The real `tritonclient`, with its defaults, against the running service: what works with Triton works here."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from tritonclient import http

Session = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def session(root: Path) -> Session:
    """Runs triton_session.py, the script for people, to its end."""

    def run(service: Any, name: str, model: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "tests.live.service.triton_session"]
        return subprocess.run(
            [*program, f"http://127.0.0.1:{service.port}", "--name", name, "--model", model],
            cwd=root,
            text=True,
            capture_output=True,
            timeout=120,
            check=False,
        )

    return run


ERRORS = {
    "wrong shape": "400 inputs[0].shape is [2, 128]; the model expects 64 numbers in a row",
    "one axis": "400 inputs[0].shape is [64]; expected [rows, 64]",
    "wrong datatype": "400 inputs[0].datatype is 'BOOL'; expected one of FP64, FP32",
    "text": "400 inputs[0].datatype is 'BYTES'; expected one of FP64, FP32",
    "wrong input": "400 inputs[0].name is 'nothing'; the model's input is 'input'",
    "two inputs": "400 inputs is 2 tensors; expected a list with one tensor, 'input'",
    "unknown output": "400 outputs[0].name is 'nothing'; the model has predict, predict_proba",
    "classification": "400 unknown key 'classification' in parameters of outputs[0]",
    "unknown parameter": "400 unknown key 'temperature' in parameters of the request",
    "a NaN": "400 inputs[0][0][0] is nan; expected a finite float32 number",
    "too many rows": "413 the request has 1025 rows; expected at most 1024 (SERVICE_MAX_REQUEST_ROWS)",
    "gzip": "415 Content-Encoding is 'gzip'; expected a body that is not compressed",
    "deflate": "415 Content-Encoding is 'deflate'; expected a body that is not compressed",
    "unknown model": "404 model 'nobody' is not served here; this service serves 'digits'",
    "metadata of an unknown model": "404 model 'nobody' is not served here",
    "model config (an extension not offered)": "404 nothing is served at /v2/models/digits/config",
}


def test_a_whole_session(start: Callable[..., Any], session: Session) -> None:
    service = start(SERVICE_MODEL="digits?trees=20", SERVICE_MODEL_WORKERS="1")
    done = session(service, "digits", "digits?trees=20")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    lines = done.stdout.splitlines()
    for count in (1, 64, 1000):
        assert f"{count} rows: 13 forms of request and reply agree with the bare model" in lines
    assert "64 requests in flight at once: each got its own rows" in lines
    told = dict(line.split(": ", 1) for line in lines)
    for what, sentence in ERRORS.items():
        assert told[what].startswith(sentence)
    another = session(service, "digits", "digits?trees=19")
    assert another.returncode == 1  # the comparison can fail
    assert re.match(r"differs: 1 rows .* is not what the bare model gives", another.stderr)


def test_labels_that_are_text(start: Callable[..., Any], session: Session, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 17, (60, 5)).astype(np.float64)
    labels = np.array(["cat", "cow", "hörse"])[rows.sum(axis=1).astype(int) % 3]
    path = tmp_path / "animals.skops"
    skops.io.dump(LogisticRegression(max_iter=50).fit(rows, labels), path)
    service = start(SERVICE_MODEL=str(path), SERVICE_MODEL_NAME="animals")
    done = session(service, "animals", str(path))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert "{'name': 'predict', 'datatype': 'BYTES', 'shape': [-1]}" in done.stdout
    assert "1000 rows: 13 forms of request and reply agree with the bare model" in done.stdout


def test_how_outputs_are_written_never_splits_a_batch(start: Callable[..., Any]) -> None:
    service = start(SERVICE_BATCHING_POLICY="fixed", SERVICE_MAX_WAIT_SECONDS="5", SERVICE_MAX_BATCH_ROWS="8")
    rows = np.ones((1, 3))
    with http.InferenceServerClient(f"127.0.0.1:{service.port}", concurrency=8) as client:
        waiting = []
        for number in range(8):
            tensor = http.InferInput("input", [1, 3], "FP64")
            tensor.set_data_from_numpy(number * rows, binary_data=number % 2 == 0)
            output = http.InferRequestedOutput("predict", binary_data=number % 3 == 0)
            asked = [output] if number < 6 else None
            waiting.append(client.async_infer("synthetic", [tensor], outputs=asked, request_id=str(number)))
        for number, request in enumerate(waiting):
            assert request.get_result().as_numpy("predict").tolist() == [3.0 * number]
    assert service.metric("inference_batch_rows_count") == 1
    assert service.metric("inference_batch_rows_sum") == 8
