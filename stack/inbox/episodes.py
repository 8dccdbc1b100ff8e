"""What a person wants to see: not notices but episodes, each from when an alert fired to when it cleared. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from stack.inbox.held import Held, HeldAlert
from stack.inbox.notice import Notice, unix_seconds

HISTORY: Final = 200  # episodes on the page
# "Resolved" comes as much as a group_interval after an alert has ended, which Alertmanager knows at once.
MISSED_SECONDS: Final = 15.0
_SEVERITIES: Final = ("page", "ticket")  # the order on the page; all else comes after
_SHOWN_APART: Final = ("alertname", "severity")


@dataclass(frozen=True, slots=True)
class Episode:
    """One stretch of one alert. Times in unix seconds; `ended` None while it fires."""

    name: str
    severity: str  # page | ticket | other: also the style on the page
    severity_label: str
    summary: str
    description: str
    labels: Sequence[tuple[str, str]]
    query_url: str | None
    runbook_url: str | None
    runbook: str
    started: float
    arrived: float  # when the first notice of it came
    last_heard: float
    written: float  # when summary and description got their figures
    ended: float | None


@dataclass(frozen=True, slots=True)
class Inbox:
    """The page's lists.

    `unconfirmed`: firing when last heard, before this inbox was started, and Alertmanager does not answer.
    `forgotten`: never said to be resolved, but Alertmanager has not held it for a while.
    """

    firing: Sequence[Episode]
    unconfirmed: Sequence[Episode]
    forgotten: Sequence[Episode]
    history: Sequence[Episode]
    older: int  # episodes that are known but not shown


def arrange(
    recent: Iterable[Notice], unresolved: Sequence[Notice], started_at: float, held: Held | None = None
) -> Inbox:
    """`recent` newest first. An alert fires until it is said to be resolved, however long that was ago, unless
    Alertmanager answers (`held`) and no longer knows it.
    """
    firing_keys = {_key(notice) for notice in unresolved}
    arrivals: dict[tuple[str, str], float] = {}
    latest: dict[tuple[str, str], Notice] = {}
    for notice in [*recent, *unresolved]:
        key = _key(notice)
        latest.setdefault(key, notice)
        arrivals[key] = min(arrivals.get(key, notice.received_at), notice.received_at)
    firing: dict[str, list[Episode]] = {"firing": [], "unconfirmed": [], "forgotten": []}
    over: list[Episode] = []
    for key, notice in latest.items():
        if key in firing_keys:
            current = held.alerts.get(notice.fingerprint) if held else None
            state = _state(notice, started_at, held, current)
            firing[state].append(_episode(notice, arrivals[key], True, current))
        else:
            over.append(_episode(notice, arrivals[key], False, None))
    over.sort(key=_when, reverse=True)
    return Inbox(
        firing=sorted(firing["firing"], key=_urgency),
        unconfirmed=sorted(firing["unconfirmed"], key=_urgency),
        forgotten=sorted(firing["forgotten"], key=_urgency),
        history=over[:HISTORY],
        older=max(0, len(over) - HISTORY),
    )


def _state(notice: Notice, started_at: float, held: Held | None, current: HeldAlert | None) -> str:
    if current is not None:
        return "firing"
    if held is None:
        return "firing" if notice.received_at >= started_at else "unconfirmed"
    missing_since = held.missing_since.get(notice.fingerprint, held.asked_at)
    return "forgotten" if held.asked_at - max(missing_since, notice.received_at) >= MISSED_SECONDS else "firing"


def duration_text(seconds: float) -> str:
    """8 s, 3 m 05 s, 2 h 07 m, 3 d 04 h: two units are enough for a person."""
    whole = max(0, round(seconds))
    for unit, name, smaller, smaller_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= unit:
            return f"{whole // unit} {name} {whole % unit // smaller:02d} {smaller_name}"
    return f"{whole} s"


def clock_text(seconds: float) -> str:
    """UTC, for readers without JavaScript; the page turns it into their own time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def iso_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _key(notice: Notice) -> tuple[str, str]:
    return notice.fingerprint, notice.startsAt


def _when(episode: Episode) -> float:
    return episode.ended or episode.last_heard


def _urgency(episode: Episode) -> tuple[int, float]:
    rank = _SEVERITIES.index(episode.severity) if episode.severity in _SEVERITIES else len(_SEVERITIES)
    return rank, -episode.started


def _episode(notice: Notice, arrived: float, firing: bool, current: HeldAlert | None) -> Episode:
    label = notice.labels.get("severity", "")
    newer = current is not None and current.written_at >= notice.received_at
    annotations = current.annotations if current is not None and newer else notice.annotations
    runbook = annotations.get("runbook_url", "")
    started = unix_seconds(notice.startsAt) or notice.received_at
    return Episode(
        name=notice.alertname,
        severity=label if label in _SEVERITIES else "other",
        severity_label=label or "no severity",
        summary=annotations.get("summary", ""),
        description=annotations.get("description", ""),
        labels=_chips(notice.labels),
        query_url=_link(notice.generatorURL),
        runbook_url=_link(runbook),
        runbook=runbook,
        started=started,
        arrived=arrived,
        last_heard=notice.received_at,
        written=current.written_at if current is not None and newer else notice.received_at,
        ended=None if firing else max(started, unix_seconds(notice.endsAt) or notice.received_at),
    )


def _chips(labels: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted((name, value) for name, value in labels.items() if name not in _SHOWN_APART)


def _link(url: str) -> str | None:
    """Only what leads to a web page: a `javascript:` URL in an annotation must not become a link."""
    try:
        return url if urlsplit(url).scheme in ("http", "https") else None
    except ValueError:
        return None
