"""What Prometheus sees of the inbox: how many alerts arrived, by name and status."""

import threading
from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, generate_latest

from slo.names import INBOX_ALERTS
from stack.inbox.notice import STATUSES, Notice

MOST_NAMES: Final = 50  # alert names with a series of their own; whoever can post could otherwise make series at will
OTHER: Final = "other"


class InboxMetrics:
    """Thread-safe; one registry per instance."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._alerts = Counter(
            INBOX_ALERTS, "Alerts that Alertmanager delivered", ["alertname", "status"], registry=self._registry
        )
        self._names: set[str] = set()
        self._lock = threading.Lock()
        self._known(OTHER)

    def count(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            self._alerts.labels(self._known(notice.alertname), notice.status).inc()

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self._registry)

    def _known(self, name: str) -> str:
        """`name`, or `other` once there are too many. Both statuses exist from then on, so that the first counts."""
        with self._lock:
            if name in self._names:
                return name
            if len(self._names) > MOST_NAMES or len(name) > 200:
                return OTHER
            self._names.add(name)
            for status in STATUSES:
                self._alerts.labels(name, status)
            return name
