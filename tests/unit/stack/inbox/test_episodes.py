"""From notices to what a person sees: what fires, what is unknown since a restart, what is over."""

import pytest

from stack.inbox.episodes import HISTORY, MISSED_SECONDS, arrange, duration_text, iso_text
from stack.inbox.held import Held, HeldAlert
from stack.inbox.notice import Notice, unix_seconds

NOON = unix_seconds("2026-01-31T12:00:00Z") or 0.0


def notice(
    name: str, status: str = "firing", at: float = 10, starts: float = 0, ends: float | None = None, **labels: str
) -> Notice:
    """Times are seconds after noon."""
    return Notice(
        received_at=NOON + at,
        status=status,
        labels={"alertname": name, **labels},
        annotations={"summary": f"{name} happened"},
        startsAt=iso_text(NOON + starts),
        endsAt="0001-01-01T00:00:00Z" if ends is None else iso_text(NOON + ends),
        generatorURL="http://127.0.0.1:9090/graph",
        fingerprint=name,
    )


def test_repeated_notices_of_one_stretch_are_one_episode() -> None:
    first, again = notice("A", at=15), notice("A", at=300)
    (episode,) = arrange([again, first], [again], NOON).firing
    assert (episode.started, episode.arrived, episode.last_heard) == (NOON, NOON + 15, NOON + 300)
    assert episode.ended is None


def test_a_resolved_one_lasted_from_start_to_end_as_alertmanager_says() -> None:
    inbox = arrange([notice("A", "resolved", at=75, ends=70), notice("A", at=15)], [], NOON)
    assert inbox.firing == []
    (episode,) = inbox.history
    assert (episode.ended or 0) - episode.started == 70
    assert episode.arrived == NOON + 15


def test_two_stretches_of_one_alert_are_two_episodes() -> None:
    second = notice("A", at=115, starts=100)
    inbox = arrange([second, notice("A", "resolved", at=75, ends=70), notice("A", at=15)], [second], NOON)
    assert [episode.started - NOON for episode in inbox.firing] == [100]
    assert [episode.started - NOON for episode in inbox.history] == [0]


def test_what_fired_before_the_restart_is_not_said_to_fire_now() -> None:
    before, after = notice("A", at=10), notice("B", at=90, starts=80)
    inbox = arrange([after, before], [after, before], started_at=NOON + 60)
    assert [episode.name for episode in inbox.firing] == ["B"]
    assert [episode.name for episode in inbox.unconfirmed] == ["A"]
    heard_again = notice("A", at=120)
    inbox = arrange([heard_again, after, before], [heard_again, after], started_at=NOON + 60)
    assert sorted(episode.name for episode in inbox.firing) == ["A", "B"]


def test_the_text_is_the_newest_and_says_of_when_it_is() -> None:
    sent = notice("A", at=10)
    (episode,) = arrange([sent], [sent], NOON).firing
    assert (episode.summary, episode.written) == ("A happened", NOON + 10)
    held = Held(NOON + 100, {"A": HeldAlert({"summary": "A goes on"}, NOON + 70)}, {})
    (episode,) = arrange([sent], [sent], NOON, held).firing
    assert (episode.summary, episode.written, episode.last_heard) == ("A goes on", NOON + 70, NOON + 10)
    older = Held(NOON + 100, {"A": HeldAlert({"summary": "older"}, NOON + 5)}, {})
    (episode,) = arrange([sent], [sent], NOON, older).firing
    assert (episode.summary, episode.written) == ("A happened", NOON + 10)


def test_what_alertmanager_holds_fires_even_if_it_was_heard_of_before_the_restart() -> None:
    before = notice("A", at=10)
    held = Held(NOON + 100, {"A": HeldAlert({}, NOON + 70)}, {})
    inbox = arrange([before], [before], NOON + 60, held)
    assert [episode.name for episode in inbox.firing] == ["A"]
    assert inbox.unconfirmed == inbox.forgotten == []


def test_what_alertmanager_has_not_held_for_a_while_is_not_said_to_fire() -> None:
    sent = notice("A", at=10)
    for missing_seconds, expected in ((MISSED_SECONDS - 1, "firing"), (MISSED_SECONDS, "forgotten")):
        held = Held(NOON + 1000, {}, {"A": NOON + 1000 - missing_seconds})
        inbox = arrange([sent], [sent], NOON, held)
        shown = {"firing": inbox.firing, "forgotten": inbox.forgotten}
        assert [episode.name for episode in shown.pop(expected)] == ["A"]
        assert list(shown.values()) == [[]]
        assert inbox.history == inbox.unconfirmed == []


def test_one_that_has_just_come_is_not_missed() -> None:
    sent = notice("A", at=1000)
    held = Held(NOON + 1001, {}, {"A": NOON + 900})  # missing since before it came: it had fired earlier
    assert [episode.name for episode in arrange([sent], [sent], NOON, held).firing] == ["A"]


def test_an_alert_that_fires_is_shown_even_when_its_notice_is_no_longer_among_the_recent() -> None:
    assert [episode.name for episode in arrange([], [notice("A")], NOON).firing] == ["A"]


def test_pages_come_first_then_tickets_then_the_rest_the_newest_on_top() -> None:
    firing = [
        notice("old page", severity="page", starts=0),
        notice("strange", severity="Sev9", starts=9),
        notice("ticket", severity="ticket", starts=5),
        notice("new page", severity="page", starts=4),
        notice("bare", starts=8),
    ]
    inbox = arrange(firing, firing, NOON)
    assert [episode.name for episode in inbox.firing] == ["new page", "old page", "ticket", "strange", "bare"]
    assert [episode.severity for episode in inbox.firing] == ["page", "page", "ticket", "other", "other"]
    assert inbox.firing[-1].severity_label == "no severity"


def test_history_is_newest_first_and_bounded() -> None:
    over = [notice(f"n{i}", "resolved", at=i, ends=i) for i in range(HISTORY + 7)]
    inbox = arrange(over, [], NOON)
    assert len(inbox.history) == HISTORY
    assert inbox.history[0].name == f"n{HISTORY + 6}"
    assert inbox.older == 7


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "//[", "docs/runbook.md#a", ""])
def test_only_web_addresses_become_links(url: str) -> None:
    bad = Notice(NOON, "firing", {}, {"runbook_url": url}, iso_text(NOON), "", url, "f")
    (episode,) = arrange([bad], [bad], NOON).firing
    assert episode.runbook_url is episode.query_url is None
    assert episode.runbook == url


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 m 00 s"),
        (125, "2 m 05 s"),
        (7620, "2 h 07 m"),
        (360000, "4 d 04 h"),
    ],
)
def test_durations_in_two_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
