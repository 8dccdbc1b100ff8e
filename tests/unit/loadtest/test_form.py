"""What is posted to start or edit a run: completed, or refused with one sentence."""

from collections.abc import Sequence

import pytest

from loadtest.form import Now, complete_form
from loadtest.settings import LoadSettings, SettingsError
from loadtest.target import TargetError, parse_target

BOTH = ("ClosedLoopUser", "OpenLoopUser")


def now(running: bool = False, cap: int = 0, user_classes: Sequence[str] = BOTH, **settings: object) -> Now:
    return Now(
        LoadSettings().with_values(settings),
        running,
        cap,
        user_classes,
        "OpenLoopUser",
        {**LoadSettings().as_dict(), "stop_timeout": 0, "num_users": None},
    )


def test_an_empty_form_starts_the_settings_in_force() -> None:
    assert complete_form({}, now(rate=50)) == {
        "user_count": ["120"],
        "spawn_rate": ["120.0"],
        "user_classes": ["OpenLoopUser"],
    }


def test_blank_fields_are_as_good_as_none() -> None:
    form = complete_form({"user_count": [""], "spawn_rate": [" "], "host": [""]}, now())
    assert form["user_count"] == ["240"]
    assert "host" not in form


def test_what_is_given_is_kept_and_trimmed() -> None:
    form = complete_form(
        {"user_count": ["7"], "spawn_rate": ["2.5"], "host": ["http://x:1"], "rate": [" 20 "], "run_time": ["60s"]},
        now(),
    )
    assert form == {
        "user_count": ["7"],
        "spawn_rate": ["2.5"],
        "host": ["http://x:1"],
        "rate": ["20.0"],
        "run_time": ["60s"],
        "user_classes": ["OpenLoopUser"],
    }


@pytest.mark.parametrize(("running", "cap", "expected"), [(False, 900, "240"), (True, 900, "900"), (True, 100, "240")])
def test_an_edit_never_lowers_the_cap_by_itself(running: bool, cap: int, expected: str) -> None:
    assert complete_form({"rate": ["100"]}, now(running, cap, ["OpenLoopUser"]))["user_count"] == [expected]


@pytest.mark.parametrize(
    ("chosen", "running", "in_use", "expected"),
    [
        ((), False, BOTH, ["OpenLoopUser"]),
        (BOTH, False, BOTH, ["OpenLoopUser"]),  # Locust ticks all by default
        (("ClosedLoopUser",), False, BOTH, ["ClosedLoopUser"]),
        (BOTH, True, ["ClosedLoopUser"], ["ClosedLoopUser"]),  # its Edit dialog posts all again
    ],
)
def test_user_classes(chosen: Sequence[str], running: bool, in_use: Sequence[str], expected: list[str]) -> None:
    assert complete_form({"user_classes": chosen}, now(running, 5, in_use))["user_classes"] == expected


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("rate", "-5", "rate is '-5'; expected a number above 0"),
        ("rate", "", "rate is ''; expected a number above 0"),
        ("user_count", "0", "user_count is '0'; expected a whole number from 1 to 20000: the cap"),
        ("user_count", "2.5", "user_count is '2.5'; expected a whole number"),
        ("user_count", "20001", "user_count is '20001'; expected a whole number"),
        ("spawn_rate", "0", "spawn_rate is '0'; expected a number above 0"),
        ("spawn_rate", "inf", "spawn_rate is 'inf'; expected a number above 0"),
        ("spawn_rate", "fast", "spawn_rate is 'fast'; expected a number above 0"),
        ("ratee", "5", "ratee is no field of this form; expected user_count, "),
        ("host", "ftp://x", "host is 'ftp://x'; expected http://HOST:PORT"),
    ],
)
def test_a_bad_field_is_one_sentence(field: str, value: str, sentence: str) -> None:
    with pytest.raises((SettingsError, TargetError)) as caught:
        complete_form({field: [value]}, now())
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "target"),
    [("http://127.0.0.1:8000", ("127.0.0.1", 8000)), ("http://name/", ("name", 80)), ("http://[::1]:9", ("::1", 9))],
)
def test_targets(url: str, target: tuple[str, int]) -> None:
    assert parse_target(url) == target


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:8000", "https://x", "http://x/predict", "http://x:99999", "http://", "http://u@x", "http://x?a=1"],
)
def test_targets_that_are_none(url: str) -> None:
    with pytest.raises(TargetError, match="expected http://HOST:PORT"):
        parse_target(url)
