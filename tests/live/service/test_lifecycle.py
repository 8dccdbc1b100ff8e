"""Start, refusal to start, and the end: nothing accepted is lost."""

import contextlib
import http.client
import json
import resource
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live.service import openloop

SLOW = "synthetic?fixed_seconds=0.02&per_row_seconds=0&features=3"


class Callers:
    """Closed-loop clients on kept connections that open a new one when told that theirs ends."""

    def __init__(self, service: Any, exchange: Callable[..., Any], count: int) -> None:
        self._service = service
        self._exchange = exchange
        self._stop = threading.Event()
        self.outcomes: Counter[str] = Counter()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self._stop.is_set():
            if connection is None:
                connection = self._service.connect()
                try:
                    connection.connect()
                except OSError:  # not accepted: the service has stopped listening
                    self.outcomes["refused"] += 1
                    return
            try:
                status, headers, body = self._exchange(connection, "POST", "/predict", {"instances": [[number, 0, 0]]})
            except (OSError, http.client.HTTPException) as error:
                self.outcomes[f"broken: {type(error).__name__}"] += 1
                return
            right = status == 200 and json.loads(body) == {"predictions": [float(number)]}
            self.outcomes["ok" if right else f"wrong: {status} {body!r}"] += 1
            if headers.get("connection") == "close":
                connection.close()
                connection = None

    def join(self) -> Counter[str]:
        for thread in self._threads:
            thread.join(60)
        return self.outcomes

    def stop(self) -> None:
        self._stop.set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nothing_accepted_is_lost_when_stopped_under_load(
    start: Callable[..., Any], on: Callable[..., Any], until: Callable[..., None], number: signal.Signals
) -> None:
    service = start(SERVICE_MODEL=SLOW, SERVICE_MODEL_WORKERS="1", SERVICE_DRAIN_GRACE_SECONDS="1")
    callers = Callers(service, on, 32)
    until(lambda: callers.outcomes["ok"] > 100)
    service.signal(number)
    until(lambda: service.call("GET", "/readyz", admin=True)[0] == 503)
    before = callers.outcomes["ok"]
    assert service.call("GET", "/healthz", admin=True)[0] == 200
    until(lambda: callers.outcomes["ok"] > before + 50)  # still served: that is what the grace is for
    assert service.exit_code() == 0
    outcomes = callers.join()
    assert set(outcomes) == {"ok", "refused"}, outcomes
    assert "not answered" not in service.output


def test_no_accepted_request_fails_in_five_stops_at_full_load(
    start: Callable[..., Any], until: Callable[..., None]
) -> None:
    """Open-loop load of many kept connections, more than the model can take, through the whole drain."""
    for _ in range(5):
        service = start(SERVICE_MODEL_WORKERS="1", SERVICE_DRAIN_GRACE_SECONDS="0.5", SERVICE_MAX_BATCH_ROWS="4")
        client = openloop.Client(service.port, openloop.post(b'{"instances": [[1, 2, 3]]}'), rate=2000)
        load = threading.Thread(target=client.run, args=(60, lambda ended=service.process: ended.poll() is not None))
        load.start()
        until(lambda answers=client.answers: openloop.counts(answers)[200] > 500)
        service.signal()
        until(lambda service=service: service.call("GET", "/readyz", admin=True)[0] == 503)
        flipped = time.monotonic()
        assert service.exit_code() == 0
        load.join(30)
        seen = openloop.counts(client.answers)
        assert set(seen) <= {200, 429, openloop.REFUSED}, seen
        assert any(one.status == 200 for one in client.answers if one.at > flipped + 0.2)  # still served
        assert not any(one.status == openloop.REFUSED for one in client.answers if one.at < flipped)
        assert "not answered" not in service.output


def test_what_waits_is_flushed(start: Callable[..., Any], until: Callable[..., None]) -> None:
    """Requests that wait for company when the end comes go at once."""
    service = start(
        SERVICE_BATCHING_POLICY="fixed",
        SERVICE_MAX_WAIT_SECONDS="20",
        SERVICE_DRAIN_GRACE_SECONDS="0",
        SERVICE_DRAIN_TIMEOUT_SECONDS="15",
    )
    answers: list[Any] = []
    asking = [
        threading.Thread(target=lambda: answers.append(service.call("POST", "/predict", {"instances": [[1, 2, 3]]})))
        for _ in range(3)
    ]
    for thread in asking:
        thread.start()
    until(lambda: service.metric("inference_requests_in_flight") == 3)
    began = time.monotonic()
    service.signal()
    assert service.exit_code() == 0
    assert time.monotonic() - began < 10
    for thread in asking:
        thread.join(10)
    assert [(status, headers["connection"]) for status, headers, _ in answers] == [(200, "close")] * 3


def test_the_drain_is_bounded(start: Callable[..., Any], until: Callable[..., None]) -> None:
    service = start(
        SERVICE_MODEL="synthetic?fixed_seconds=30&per_row_seconds=0&features=3",
        SERVICE_MODEL_WORKERS="1",
        SERVICE_DRAIN_GRACE_SECONDS="0",
        SERVICE_DRAIN_TIMEOUT_SECONDS="0.5",
    )
    answers: list[Any] = []
    asking = threading.Thread(
        target=lambda: answers.append(service.call("POST", "/predict", {"instances": [[1, 2, 3]]}))
    )
    asking.start()
    until(lambda: service.metric("inference_requests_in_flight") == 1)
    began = time.monotonic()
    service.signal()
    assert service.exit_code() == 0
    assert time.monotonic() - began < 15
    asking.join(10)
    ((status, _, body),) = answers
    assert status == 503
    assert "shutting down" in json.loads(body)["error"]


def test_a_second_signal_skips_the_waiting(start: Callable[..., Any], until: Callable[..., None]) -> None:
    service = start(SERVICE_DRAIN_GRACE_SECONDS="600")
    service.signal()
    until(lambda: service.call("GET", "/readyz", admin=True)[0] == 503)
    assert service.predict([[1, 2, 3]]) == [6.0]
    service.signal(signal.SIGINT)
    assert service.exit_code() == 0


def test_one_line_says_that_it_is_ready_and_where(start: Callable[..., Any]) -> None:
    service = start()
    assert service.output == (
        f"service: synthetic ready on http://127.0.0.1:{service.port} (admin http://127.0.0.1:{service.admin_port})\n"
    )


def test_a_signal_before_it_is_ready_ends_it(start: Callable[..., Any], until: Callable[..., None]) -> None:
    service = start(wait=False, SERVICE_MODEL="digits?trees=3000", SERVICE_MODEL_WORKERS="1")
    time.sleep(1.5)
    service.signal()
    assert service.exit_code() in (0, -signal.SIGTERM)  # the latter before its first line ran
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", service.port))


@pytest.mark.parametrize("variable", ["SERVICE_PORT", "SERVICE_ADMIN_PORT"])
def test_a_busy_port_is_one_sentence(refused: Callable[..., tuple[int, str]], variable: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = refused(**{variable: str(port)})
    assert code == 1
    assert said == f"service: port {port} on 127.0.0.1 is in use by another process; stop that, or set {variable}\n"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"SERVICE_MAX_BATCH_ROWS": "many"},
            "SERVICE_MAX_BATCH_ROWS is 'many'; expected a whole number from 1 to 65536",
        ),
        (
            {"SERVICE_WORKERS": "2"},
            "SERVICE_WORKERS is not a setting of the service; did you mean SERVICE_MODEL_WORKERS?",
        ),
        (
            {"PROMETHEUS_MULTIPROC_DIR": "/tmp"},
            "PROMETHEUS_MULTIPROC_DIR is set; the service keeps all its metrics in one",
        ),
        ({"SLO_FILE": "no/such.yaml"}, "no/such.yaml: no such file; expected the SLO file, such as slo.yaml"),
        ({"SERVICE_MODEL": "forest"}, "the model 'forest' is none that is known; expected digits"),
        ({"SERVICE_MODEL": "no/such.onnx"}, "there is no model file no/such.onnx; SERVICE_MODEL should be the path"),
        ({"SERVICE_HOST": "256.0.0.1"}, "SERVICE_HOST is '256.0.0.1', which is no address"),
        ({"SERVICE_HOST": "192.0.2.1"}, "cannot listen on 192.0.2.1:"),
        ({"SERVICE_QUEUE_CAPACITY_ROWS": "100000000"}, "SERVICE_QUEUE_CAPACITY_ROWS is '100000000'; expected"),
    ],
)
def test_what_cannot_start_says_why_in_one_sentence(
    refused: Callable[..., tuple[int, str]], changes: dict[str, str], sentence: str
) -> None:
    code, said = refused(**changes)
    assert code == 1
    assert said.startswith(f"service: {sentence}")
    assert said.count("\n") == 1


def test_a_low_limit_on_open_files_is_raised_or_refused(
    start: Callable[..., Any], refused: Callable[..., tuple[int, str]]
) -> None:
    service = start(preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096)))
    limits = Path(f"/proc/{service.process.pid}/limits").read_text()
    assert "Max open files            3072" in limits
    code, said = refused(preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512)))
    assert code == 1
    assert said.startswith(
        "service: SERVICE_QUEUE_CAPACITY_ROWS is 1024, but the limit on open files (ulimit -Hn) is 512"
    )


def test_connections_wait_at_a_closed_door_until_the_model_is_up(
    start: Callable[..., Any], until: Callable[..., None]
) -> None:
    """Before it is ready the port refuses: a probe fails at once rather than hanging."""
    service = start(wait=False, SERVICE_MODEL="digits?trees=10", SERVICE_MODEL_WORKERS="1")
    seen = set()

    def answers() -> bool:
        with contextlib.suppress(ConnectionRefusedError):
            status, _, _ = service.call("GET", "/readyz", timeout=5)
            seen.add(status)
            return True
        seen.add("refused")
        return False

    until(answers, seconds=120)
    assert seen == {"refused", 200}
