"""What Alertmanager holds at the moment: texts with newer figures, and which alerts it still knows.

A notification is sent once and its text ages, while Prometheus sends Alertmanager a new text every minute. And an end
may never be delivered (of an alert that is muted when it ends); then it is no longer held.
"""

import http.client
import json
import threading
import urllib.request
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stack.inbox.notice import unix_seconds

_PATH: Final = "/api/v2/alerts"  # muted ones are among them, those that have ended are not
_TIMEOUT_SECONDS: Final = 1.0
_MAX_BYTES: Final = 4 * 1024 * 1024
_AGE_SECONDS: Final = 2.0  # of an answer that serves further readers

Fetch = Callable[[str], bytes]


@dataclass(frozen=True, slots=True)
class HeldAlert:
    """`written_at`: when the annotations were received from Prometheus, in unix seconds."""

    annotations: Mapping[str, str]
    written_at: float


@dataclass(frozen=True, slots=True)
class Held:
    """Alerts by fingerprint, as of `asked_at`; since when others that were asked for are missing. Unix seconds."""

    asked_at: float
    alerts: Mapping[str, HeldAlert]
    missing_since: Mapping[str, float]


class Alertmanager:
    """Thread-safe. One question at a time goes out, and its answer serves all who ask within two seconds."""

    def __init__(self, url: str, now: Callable[[], float], fetch: Fetch | None = None) -> None:
        """`now` gives unix seconds; `fetch` gives the body behind a URL or raises OSError."""
        self._url = url.rstrip("/") + _PATH
        self._now = now
        self._fetch = fetch or _get
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._alerts: dict[str, HeldAlert] | None = None
        self._missing_since: dict[str, float] = {}

    def held(self, fingerprints: Collection[str]) -> Held | None:
        """None when it does not answer, or not as Alertmanager does."""
        with self._lock:
            now = self._now()
            if not 0 <= now - self._asked_at < _AGE_SECONDS:
                self._asked_at = now
                try:
                    self._alerts = _alerts(json.loads(self._fetch(self._url)), now)
                except (OSError, ValueError, RecursionError, http.client.HTTPException):  # the page says less then
                    self._alerts = None
            if self._alerts is None:
                return None
            missing = (fingerprint for fingerprint in fingerprints if fingerprint not in self._alerts)
            self._missing_since = {name: self._missing_since.get(name, self._asked_at) for name in missing}
            return Held(self._asked_at, self._alerts, self._missing_since)


def _alerts(document: Any, asked_at: float) -> dict[str, HeldAlert]:
    """ValueError for what is no list of alerts."""
    if not isinstance(document, list):
        raise ValueError("expected a list of alerts")
    found: dict[str, HeldAlert] = {}
    for alert in document:
        if not isinstance(alert, dict) or not isinstance(alert.get("fingerprint"), str):
            raise ValueError("expected alerts with fingerprints")
        annotations = alert.get("annotations")
        texts = {k: v for k, v in annotations.items() if isinstance(v, str)} if isinstance(annotations, dict) else {}
        found[alert["fingerprint"]] = HeldAlert(texts, unix_seconds(alert.get("updatedAt")) or asked_at)
    return found


def _get(url: str) -> bytes:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=_TIMEOUT_SECONDS) as reply:
        body: bytes = reply.read(_MAX_BYTES)
    return body
