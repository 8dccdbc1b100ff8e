"""Prometheus's HTTP API over `requests`: every call ends within its timeout, with series or with one sentence."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import orjson
import requests
from requests.adapters import HTTPAdapter

from stack.live.intervals import Window
from stack.live.series import BadResult, Series, parse_result

_MOST_BYTES: Final = 64 * 1024 * 1024
_CONNECT_SECONDS: Final = 1.0


class PrometheusError(Exception):
    """A query has no result; the message is what a viewer reads."""


class Unreachable(PrometheusError):
    """Nothing answers at Prometheus's address, or not in time."""


class QueryFailed(PrometheusError):
    """Prometheus answered that it cannot: a wrong expression, too many samples, a query that took too long."""


class Prometheus:
    """One Prometheus, used by many threads at once."""

    def __init__(self, url: str, timeout_seconds: float, connections: int) -> None:
        self.url = url.rstrip("/")
        self._timeout_seconds = timeout_seconds
        self._session = requests.Session()
        # Prometheus is ours and near: a proxy of the environment must not come between.
        self._session.trust_env = False
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_connections=1, pool_maxsize=connections))

    @property
    def shown_url(self) -> str:
        """The address without a password in it."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    def query(self, expr: str, at: float) -> tuple[Series, ...]:
        return self._series("query", {"query": expr, "time": f"{at:.3f}"})

    def query_range(self, expr: str, window: Window, step: float) -> tuple[Series, ...]:
        form = {"query": expr, "start": f"{window.start:.3f}", "end": f"{window.end:.3f}", "step": f"{step:g}"}
        return self._series("query_range", form)

    def label_values(self, label: str, selector: str, window: Window) -> tuple[str, ...]:
        """Values of a label within the window, of all series or of those that a selector matches."""
        params = {"start": f"{window.start:.0f}", "end": f"{window.end:.0f}"}
        data = self._call("GET", f"label/{label}/values", params | ({"match[]": selector} if selector else {}))
        if not isinstance(data, Sequence) or isinstance(data, str):
            raise QueryFailed("Prometheus did not answer with a list of label values")
        return tuple(value for value in data if isinstance(value, str))

    def close(self) -> None:
        self._session.close()

    def _series(self, path: str, form: dict[str, str]) -> tuple[Series, ...]:
        # Prometheus gives up a little before we do, so that its own words reach the viewer.
        data = self._call("POST", path, form | {"timeout": f"{round(self._timeout_seconds * 900)}ms"})
        try:
            return parse_result(data)
        except BadResult as error:
            raise QueryFailed(str(error)) from error

    def _call(self, method: str, path: str, fields: Mapping[str, str]) -> Any:
        deadline = time.monotonic() + self._timeout_seconds
        sent: dict[str, Any] = {"data": fields} if method == "POST" else {"params": fields}
        try:
            response = self._session.request(
                method,
                f"{self.url}/api/v1/{path}",
                timeout=(min(_CONNECT_SECONDS, self._timeout_seconds), self._timeout_seconds),
                stream=True,
                **sent,
            )
            with response:
                body = self._read(response, deadline)
        except requests.Timeout as error:
            raise Unreachable(
                f"Prometheus at {self.shown_url} did not answer within {self._timeout_seconds:g} s"
            ) from error
        except requests.ConnectionError as error:
            raise Unreachable(f"no Prometheus at {self.shown_url}: {_why(error)}") from error
        except requests.RequestException as error:
            raise Unreachable(f"cannot ask Prometheus at {self.shown_url}: {error}") from error
        return self._data(response.status_code, body)

    def _read(self, response: requests.Response, deadline: float) -> bytes:
        """The body, bounded in size and in time: a read timeout alone lets a trickle go on for ever."""
        body = bytearray()
        for chunk in response.iter_content(64 * 1024):
            body += chunk
            if len(body) > _MOST_BYTES:
                raise QueryFailed(f"the result is larger than {_MOST_BYTES // 1024 // 1024} MiB")
            if time.monotonic() > deadline:
                raise Unreachable(
                    f"Prometheus at {self.shown_url} did not finish its answer within {self._timeout_seconds:g} s"
                )
        return bytes(body)

    def _data(self, status: int, body: bytes) -> Any:
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict) or "status" not in answer:
            if status == 503:
                raise Unreachable(f"Prometheus at {self.shown_url} is starting (503)")
            raise QueryFailed(f"{self.shown_url} answered {status} and no JSON of Prometheus's; is it Prometheus?")
        if answer["status"] != "success":
            raise QueryFailed(f"{answer.get('errorType', 'error')}: {answer.get('error', f'status {status}')}")
        return answer.get("data")


def _why(error: requests.ConnectionError) -> str:
    """The operating system's own words out of the layers around them."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        inner = cause.args[0] if cause.args and isinstance(cause.args[0], BaseException) else None
        reason = getattr(cause, "reason", None)
        cause = reason if isinstance(reason, BaseException) else inner or cause.__cause__ or cause.__context__
    return "connection failed"
