"""An arrival that a task of somebody's own user class serves with any number of requests: what became of it. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from loadtest.analysis.samples import End
from loadtest.outcomes import ENDS, outcome_of
from loadtest.recorder import Recorder

MAX_KIND_LENGTH: Final = 100  # of a failure in words


class Served:
    """An arrival while its task runs. Instants are monotonic seconds; `epoch` is time.time() at `started`."""

    def __init__(self, number: int, scheduled: float, started: float, epoch: float) -> None:
        self.number: Final = number  # in the account
        self.scheduled: Final = scheduled
        self.started: Final = started  # when the task began
        self.done: float | None = None  # when the last reply so far had come
        self.end = End.OK
        self.outcome = "ok"
        self.kind = ""  # the first failure, in words
        self.replied = True  # whether every request got a reply
        self._from_epoch = started - epoch  # Locust stamps the start of a request with time.time()

    def count(self, request: Mapping[str, Any], now: float, recorder: Recorder) -> dict[str, Any]:
        """Locust's request event, fired at `now`, with the first request's time counted from the scheduled instant."""
        service = (request.get("response_time") or 0.0) / 1000
        epoch = request.get("start_time")
        sent = now - service if epoch is None else epoch + self._from_epoch
        total = service if self.done is not None else max(0.0, sent - self.scheduled) + service
        self.done = max(sent + service, self.started)
        status = getattr(request.get("response"), "status_code", None) or 0
        outcome = _outcome(request.get("exception"), status)
        recorder.request(str(request["name"]), outcome, total, service)
        self.replied = self.replied and (status > 0 or outcome == "ok")
        if outcome != "ok":
            exception = request.get("exception")
            self._fail(_end(exception, status, outcome), outcome, _words(exception, status))
        return {**request, "response_time": total * 1000}

    def raised(self, error: Exception) -> None:
        """The task ended with an error of its own."""
        self._fail(End.FAILED, "failed", _words(error, 0))

    def _fail(self, end: End, outcome: str, kind: str) -> None:
        if self.end is End.OK:
            self.end, self.outcome, self.kind = end, outcome, kind


def _outcome(exception: BaseException | None, status: int) -> str:
    """What the user's own code says counts most: it may call a 404 a success, and a 200 with wrong rows a failure."""
    if exception is None:
        return "ok"
    by_status = outcome_of(status) if status else "failed"
    return "failed" if by_status == "ok" else by_status


def _end(exception: BaseException | None, status: int, outcome: str) -> End:
    if status:
        return ENDS[outcome]
    return End.TIMED_OUT if "timeout" in type(exception).__name__.lower() else End.CONNECTION


def _words(exception: BaseException | None, status: int) -> str:
    if status and not 200 <= status < 300:
        return f"HTTP {status}"
    return f"{type(exception).__name__}: {exception}"[:MAX_KIND_LENGTH]
