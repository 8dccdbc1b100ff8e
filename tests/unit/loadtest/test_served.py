"""What becomes of an arrival whose task sends any number of requests."""

from types import SimpleNamespace
from typing import Any

import pytest

from loadtest.analysis.samples import End
from loadtest.recorder import Recorder
from loadtest.served import MAX_KIND_LENGTH, Served

EPOCH = 1_700_000_000.0


def served() -> Served:
    """Due at 10, begun at 10.5."""
    return Served(0, 10.0, 10.5, EPOCH)


def request(milliseconds: float = 100.0, status: int = 200, exception: Exception | None = None, **more: Any) -> Any:
    response = SimpleNamespace(status_code=status)
    return {"name": "/", "response_time": milliseconds, "response": response, "exception": exception, **more}


def counted(arrival: Served, sent: Any, now: float = 20.0) -> tuple[float, Recorder]:
    recorder = Recorder((0.05,))
    return arrival.count(sent, now, recorder)["response_time"], recorder


def test_the_first_request_counts_from_the_scheduled_instant_the_next_from_its_send() -> None:
    arrival = served()
    first, recorder = counted(arrival, request(100, start_time=EPOCH + 0.25))  # sent at 10.75
    assert first == pytest.approx(850)
    assert recorder.totals["/", "ok"].sum == pytest.approx(0.85)
    assert recorder.services["/", "ok"].sum == pytest.approx(0.1)
    assert arrival.done == pytest.approx(10.85)
    second, recorder = counted(arrival, request(70, start_time=EPOCH + 1))
    assert second == pytest.approx(70)
    assert recorder.totals["/", "ok"].sum == pytest.approx(0.07)
    assert arrival.done == pytest.approx(11.57)  # the latest reply
    assert (arrival.end, arrival.kind, arrival.replied) == (End.OK, "", True)


def test_a_client_that_does_not_say_when_it_sent_is_taken_to_have_fired_at_once() -> None:
    assert counted(served(), request(100), now=10.9)[0] == pytest.approx(900)


@pytest.mark.parametrize(
    ("status", "exception", "end", "kind", "replied"),
    [
        (404, ValueError("no"), End.CLIENT_ERROR, "HTTP 404", True),
        (503, ValueError("no"), End.SHED, "HTTP 503", True),
        (500, ValueError("no"), End.FAILED, "HTTP 500", True),
        (404, None, End.OK, "", True),  # the user's own code calls it a success
        (200, ValueError("wrong rows"), End.FAILED, "ValueError: wrong rows", True),
        (0, ConnectionRefusedError("refused"), End.CONNECTION, "ConnectionRefusedError: refused", False),
        (0, TimeoutError("slow"), End.TIMED_OUT, "TimeoutError: slow", False),
    ],
)
def test_how_a_request_ends_its_arrival(
    status: int, exception: Exception | None, end: End, kind: str, replied: bool
) -> None:
    arrival = served()
    counted(arrival, request(status=status, exception=exception))
    assert (arrival.end, arrival.kind, arrival.replied) == (end, kind, replied)


def test_the_first_failure_is_the_arrivals() -> None:
    arrival = served()
    for status in (200, 503, 404):
        counted(arrival, request(status=status, exception=None if status == 200 else ValueError()))
    arrival.raised(KeyError("predictions"))
    assert (arrival.end, arrival.kind) == (End.SHED, "HTTP 503")


def test_a_task_that_raises_has_failed_though_its_requests_have_not() -> None:
    arrival = served()
    counted(arrival, request())
    arrival.raised(KeyError("x" * 500))
    assert arrival.end is End.FAILED
    assert arrival.kind.startswith("KeyError: 'xxx")
    assert len(arrival.kind) == MAX_KIND_LENGTH


def test_a_request_without_a_response_object_or_time() -> None:
    """Clients other than HTTP fire what they like."""
    arrival = served()
    milliseconds, _ = counted(arrival, {"name": "call", "response_time": None, "exception": None}, now=11.0)
    assert milliseconds == pytest.approx(1000)
    assert (arrival.end, arrival.replied) == (End.OK, True)
