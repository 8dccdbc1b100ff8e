"""What is posted to start or edit a run: completed, or refused with one sentence."""

from collections.abc import Sequence

import pytest

from loadtest.arrivals import Trace
from loadtest.form import Now, complete_form
from loadtest.settings import LoadSettings, SettingsError
from loadtest.target import TargetError, host_header, parse_target
from loadtest.trace_file import TraceError

BOTH = ("ClosedLoopUser", "OpenLoopUser")


def now(running: bool = False, cap: int = 0, user_classes: Sequence[str] = BOTH, **settings: object) -> Now:
    def trace_at(path: str) -> Trace:
        if "bursty" not in path:
            raise TraceError(f"trace {path} cannot be read")
        return Trace([0, 0, 0.5, 0.9, 5])

    return Now(
        LoadSettings().with_values(settings),
        running,
        cap,
        user_classes,
        "OpenLoopUser",
        {**LoadSettings().as_dict(), "stop_timeout": 0, "num_users": None},
        command_line=LoadSettings().with_values({"data": "/home/me/mine.csv", "trace": "old.csv"}),
        shipped=("loadtest/data/bodies.jsonl", "loadtest/data/bursty.csv"),
        trace_at=trace_at,
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


@pytest.mark.parametrize("name", ["data", "body_file", "trace"])
@pytest.mark.parametrize(
    "value",
    [
        "/etc/passwd.csv",
        "loadtest/data/../../slo.yaml.csv",
        "../data/bursty.csv",
        "loadtest/data/none.csv",
        "./loadtest/data/bursty.csv",
        "slo.yaml",
    ],
)
def test_a_page_cannot_make_the_generator_send_any_file(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        complete_form({name: [value]}, now())
    assert str(caught.value) == (
        f"{name} is {value!r}; expected the file named on the command line, or one in loadtest/data: "
        "bodies.jsonl, bursty.csv"
    )


def test_where_nothing_may_be_named_the_sentence_says_so() -> None:
    with pytest.raises(SettingsError, match="or one in loadtest/data: it is empty"):
        complete_form(
            {"data": ["a.csv"]}, Now(LoadSettings(), False, 0, BOTH, "", LoadSettings().as_dict(), shipped=())
        )


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("data", "", ""),
        ("data", "/home/me/mine.csv", "/home/me/mine.csv"),  # the command line's
        ("data", "now.npy", "now.npy"),  # in force
        ("body_file", "bodies.jsonl", "loadtest/data/bodies.jsonl"),
        ("body_file", " loadtest/data/bodies.jsonl ", "loadtest/data/bodies.jsonl"),
        ("trace", "bursty.csv", "loadtest/data/bursty.csv"),
    ],
)
def test_files_that_a_form_may_name(name: str, value: str, kept: str) -> None:
    before = now(data="now.npy") if name == "data" else now()
    assert complete_form({name: [value]}, before)[name] == [kept]


def test_the_command_lines_file_of_another_setting_may_not_be_named() -> None:
    with pytest.raises(SettingsError, match=r"body_file is '/home/me/mine\.csv'; expected the file named"):
        complete_form({"body_file": ["/home/me/mine.csv"]}, now())


def test_of_a_trace_the_fullest_stretch_decides_the_cap() -> None:
    posted = {"arrivals": ["trace"], "trace": ["bursty.csv"], "timeout_seconds": ["1"]}
    assert complete_form(posted, now())["user_count"] == ["5"]  # 1.2 x 4 within a second, rounded up
    assert complete_form({**posted, "trace_speed": ["5"]}, now())["user_count"] == ["6"]


def test_a_trace_that_cannot_be_read_is_refused_at_once() -> None:
    with pytest.raises(SettingsError, match=r"trace old\.csv cannot be read"):
        complete_form({"arrivals": ["trace"], "trace": ["old.csv"]}, now())


@pytest.mark.parametrize(
    ("url", "target"),
    [("http://127.0.0.1:8000", ("127.0.0.1", 8000)), ("http://name/", ("name", 80)), ("http://[::1]:9", ("::1", 9))],
)
def test_targets(url: str, target: tuple[str, int]) -> None:
    assert parse_target(url) == target


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8000",
        "https://x",
        "http://x/predict",
        "http://x:99999",
        "http://",
        "http://u@x",
        "http://x?a=1",
        "http://x#a",
        "http://x:0",
        "http://a b",
    ],
)
def test_targets_that_are_none(url: str) -> None:
    with pytest.raises(TargetError, match="expected http://HOST:PORT"):
        parse_target(url)


def test_what_is_wrong_with_a_target_is_said() -> None:
    with pytest.raises(TargetError, match="the lean client speaks plain HTTP, no TLS"):
        parse_target("https://x")
    with pytest.raises(TargetError) as caught:
        parse_target("http://x:80/v2/models/m/infer?a=1")
    assert str(caught.value) == (
        "host is 'http://x:80/v2/models/m/infer?a=1'; expected http://HOST:PORT alone, and the path in --path "
        "(path=/v2/models/m/infer?a=1)"
    )


@pytest.mark.parametrize(("host", "text"), [("::1", "[::1]:9"), ("name", "name:9"), ("127.0.0.1", "127.0.0.1:9")])
def test_the_host_header_has_an_ipv6_address_in_brackets(host: str, text: str) -> None:
    assert host_header(host, 9) == text


def test_a_shape_class_is_refused() -> None:
    with pytest.raises(SettingsError, match="shape_class is 'x'; expected Default"):
        complete_form({"shape_class": ["x"]}, now())
    complete_form({"shape_class": ["Default"]}, now())
