"""What arrives: Alertmanager's webhook body (version 4), taken apart into one notice per alert. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

STATUSES: Final = ("firing", "resolved")
_YEARS: Final = range(1970, 2200)  # what can be shown in every time zone; outside of it a time means nothing here


class BadNotice(ValueError):
    """Part of a body is not what Alertmanager sends. `good` holds the alerts of the body that could be read."""

    def __init__(self, message: str, good: "tuple[Notice, ...]" = ()) -> None:
        super().__init__(message)
        self.good = good


@dataclass(frozen=True, slots=True)
class Notice:
    """One alert in one notification. `received_at` is in unix seconds; times of the alert are as they were sent."""

    received_at: float
    status: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    startsAt: str
    endsAt: str
    generatorURL: str
    fingerprint: str

    @property
    def alertname(self) -> str:
        return self.labels.get("alertname", "(no name)")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def parse_webhook(body: bytes, received_at: float) -> tuple[Notice, ...]:
    """All alerts of a webhook body; BadNotice says what is wrong and still carries those that are right."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadNotice(f"the body is not JSON ({error}); expected Alertmanager's webhook, version 4") from None
    alerts = document.get("alerts") if isinstance(document, dict) else None
    if not isinstance(alerts, list):
        raise BadNotice("the body has no list 'alerts'; expected Alertmanager's webhook, version 4")
    good: list[Notice] = []
    bad: list[str] = []
    for index, alert in enumerate(alerts):
        try:
            good.append(parse_alert(alert, received_at))
        except BadNotice as error:
            bad.append(f"alerts[{index}] {error}")
    if bad:
        more = f" and {len(bad) - 1} more like it" if len(bad) > 1 else ""
        raise BadNotice(f"{bad[0]}{more}; {len(good)} of {len(alerts)} alerts were kept", tuple(good))
    return tuple(good)


def parse_alert(alert: Any, received_at: float) -> Notice:
    """One alert as Alertmanager writes it, or as `Notice.as_json` wrote it."""
    if not isinstance(alert, dict):
        raise BadNotice("is not an object; expected status, labels, annotations, startsAt, endsAt")
    status = alert.get("status")
    if status not in STATUSES:
        raise BadNotice(f"has the status {_shown(status)}; expected firing or resolved")
    labels = _texts(alert, "labels")
    starts = alert.get("startsAt")
    if unix_seconds(starts) is None:
        raise BadNotice(f"has the startsAt {_shown(starts)}; expected a time such as 2026-01-31T12:00:00Z")
    return Notice(
        received_at=received_at,
        status=status,
        labels=labels,
        annotations=_texts(alert, "annotations"),
        startsAt=_text(starts),
        endsAt=_text(alert.get("endsAt")),
        generatorURL=_text(alert.get("generatorURL")),
        fingerprint=_text(alert.get("fingerprint")) or _fingerprint(labels),
    )


def unix_seconds(text: Any) -> float | None:
    """An RFC 3339 time in unix seconds; None for what is none, and for Go's year 1, which means "not yet"."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.year not in _YEARS:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _texts(alert: Mapping[str, Any], key: str) -> dict[str, str]:
    value = alert.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise BadNotice(f"has {key} {_shown(value)}; expected an object of texts")
    return {_text(name): _text(text) for name, text in value.items()}


def _text(value: Any) -> str:
    """What can be written as UTF-8: JSON may hold half a surrogate pair, which cannot."""
    return value.encode("utf-8", errors="replace").decode() if isinstance(value, str) else ""


def _fingerprint(labels: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(labels.items())).encode()).hexdigest()[:16]


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:59] + "…"
