"""Load settings: a bad value is one sentence, a good one has its type, and the plan follows."""

from typing import Any

import pytest

from loadtest.arrivals import Share, Trace
from loadtest.settings import LoadSettings, SettingsError, parse_headers, parse_rows, parse_steps

BAD = [
    ("rate", "-5", "rate is '-5'; expected a number above 0 and at most 100000 arrivals per second"),
    ("rate", 0, "rate is 0; expected a number above 0 and at most 100000 arrivals per second"),
    ("rate", "nan", "rate is 'nan'; expected a number above 0 and at most 100000 arrivals per second"),
    ("rate", "inf", "rate is 'inf'; expected a number above 0 and at most 100000 arrivals per second"),
    ("rate", "100001", "rate is '100001'; expected a number above 0 and at most 100000 arrivals per second"),
    ("rate", "many", "rate is 'many'; expected a number above 0 and at most 100000 arrivals per second"),
    ("rate", "", "rate is ''; expected a number above 0 and at most 100000 arrivals per second"),
    ("arrivals", "burst", "arrivals is 'burst'; expected one of constant, poisson, ramp, steps, spike, trace"),
    ("seed", "-1", "seed is '-1'; expected a whole number from 0 to 9223372036854775807"),
    ("seed", "1.5", "seed is '1.5'; expected a whole number from 0 to 9223372036854775807"),
    ("seed", "²", "seed is '²'; expected a whole number from 0 to 9223372036854775807"),
    ("timeout_seconds", 0, "timeout_seconds is 0; expected a number above 0 and at most 600 seconds"),
    ("ramp_to_rate", -1, "ramp_to_rate is -1; expected a number from 0 to 100000 arrivals per second"),
    ("ramp_seconds", 0, "ramp_seconds is 0; expected a number above 0 and at most 604800 seconds"),
    ("spike_after_seconds", -1, "spike_after_seconds is -1; expected a number from 0 to 604800 seconds"),
    ("rows_per_request", "0", "expected a whole number from 1 to 4096, or a mix such as 1,8,64"),
    ("rows_per_request", "1,", "expected a whole number from 1 to 4096, or a mix such as 1,8,64"),
    ("rows_per_request", "5000", "expected a whole number from 1 to 4096, or a mix such as 1,8,64"),
    ("steps", "100", "steps is '100'; expected rate:seconds pairs such as 100:30,200:30"),
    ("steps", "100:0", "seconds above 0"),
    ("steps", "-1:5", "rates from 0 to 100000"),
    ("steps", "0:5,0:5", "not all 0"),
    ("steps", "nan:5", "rates from 0 to 100000"),
    ("steps", "1:2:3", "steps is '1:2:3'"),
    ("path", "predict", "a path that begins with /"),
    ("path", "", "a path that begins with /"),
    ("path", "/a b", "without spaces"),
    ("path", "/a\r\nX: y", "a path that begins with /"),
    ("path", "/</script>", "a path that begins with /"),
    ("path", "/a<b", "a path that begins with /"),
    ("path", "/a>b", "a path that begins with /"),
    ("path", "/é", "such as /predict or /v2/models/NAME/infer"),
    ("path", "/" + 2048 * "a", "at most 2048 characters"),
    ("data", "rows.txt", "the name of a file that ends in .npy or .csv or .jsonl"),
    ("data", "a\n.csv", "the name of a file that ends in .npy"),
    ("body_file", "<b>", "the name of a file, one line"),
    ("trace_speed", 0, "trace_speed is 0; expected a number above 0 and at most 10000 seconds of trace per second"),
]


@pytest.mark.parametrize(("name", "value", "sentence"), BAD, ids=[f"{name}={value}" for name, value, _ in BAD])
def test_a_bad_value_is_one_sentence(name: str, value: Any, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        LoadSettings().with_values({name: value})
    said = str(caught.value)
    assert sentence in said
    assert said.startswith(f"{name} is {value!r:.80}"[:80])
    assert "; expected " in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("rate", "250.5", 250.5),
        ("rate", 1e5, 1e5),
        ("seed", " 7 ", 7),
        ("seed", 0, 0),
        ("arrivals", "steps", "steps"),
        ("rows_per_request", "1,8,64", "1,8,64"),
        ("ramp_to_rate", "0", 0.0),
        ("spike_after_seconds", 0, 0.0),
        ("steps", "10:1,0:5,20:1", "10:1,0:5,20:1"),
        ("path", " /v2/models/a%20b/infer?x=1&y=2 ", "/v2/models/a%20b/infer?x=1&y=2"),
        ("data", "", ""),
        ("data", " my rows.csv", "my rows.csv"),
        ("body_file", "any", "any"),
        ("header", "", ""),
        ("header", "A:b", "A: b"),
        ("header", " A: b | C:  d:e |", "A: b | C: d:e"),
        ("header", ["A: b", "C: x|y"], "A: b | C: x|y"),  # the option was repeated
        ("trace_speed", "2", 2.0),
    ],
)
def test_a_good_value_is_kept_in_its_type(name: str, value: Any, kept: Any) -> None:
    got = getattr(LoadSettings().with_values({name: value}), name)
    assert got == kept
    assert type(got) is type(getattr(LoadSettings(), name))


def test_other_names_are_not_settings_and_stay_out() -> None:
    assert LoadSettings().with_values({"num_users": -3, "host": None}) == LoadSettings()


def test_settings_survive_the_way_to_a_worker() -> None:
    settings = LoadSettings().with_values({"rate": 3, "arrivals": "spike", "seed": 9})
    assert LoadSettings().with_values(settings.as_dict()) == settings


def test_lists_are_parsed() -> None:
    assert parse_steps("100:30, 0:1.5") == [(100, 30), (0, 1.5)]
    assert parse_rows(" 1, 8 ") == (1, 8)


@pytest.mark.parametrize(
    ("given", "at", "rate"),
    [
        ({"arrivals": "constant", "rate": 40}, 9, 40),
        ({"arrivals": "poisson", "rate": 40}, 9, 40),
        ({"arrivals": "ramp", "rate": 40, "ramp_to_rate": 60, "ramp_seconds": 10}, 5, 50),
        ({"arrivals": "steps", "steps": "10:1,20:1"}, 1.5, 20),
        ({"arrivals": "trace", "trace": "t", "trace_speed": 3}, 9, 3),
        ({"arrivals": "spike", "rate": 4, "spike_rate": 9, "spike_after_seconds": 3, "spike_seconds": 2}, 4, 9),
    ],
)
def test_each_kind_of_arrivals_has_its_curve(given: dict[str, Any], at: float, rate: float) -> None:
    settings = LoadSettings().with_values(given)
    assert settings.curve().rate(at) == rate
    trace = Trace([0, 1])
    plan = settings.plan(Share(1, 2), 4.0, trace)
    assert plan.even is (given["arrivals"] == "constant")
    assert plan.trace is (trace if given["arrivals"] == "trace" else None)
    assert (plan.seed, plan.share, plan.begun) == (1, Share(1, 2), 4.0)
    assert settings.plan(Share(), trace=trace).begun == 0


@pytest.mark.parametrize(
    ("given", "cap"),
    [
        ({"rate": 100, "timeout_seconds": 2}, 240),
        ({"rate": 101, "timeout_seconds": 1}, 122),  # rounded up
        ({"rate": 0.1, "timeout_seconds": 1}, 1),
        ({"rate": 100_000}, 20_000),  # more users than that no process bears
        ({"arrivals": "ramp", "rate": 1, "ramp_to_rate": 500, "timeout_seconds": 1}, 600),  # the peak counts
    ],
)
def test_the_default_cap_lets_every_request_wait_for_its_timeout(given: dict[str, Any], cap: int) -> None:
    assert LoadSettings().with_values(given).default_cap() == cap


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"timeout_seconds": 9}, True),
        ({"rows_per_request": "8"}, True),
        ({"path": "/v2/models/m/infer", "data": "a.csv", "header": "A: b"}, True),
        ({"body_file": "b"}, True),
        ({"rate": 9}, False),
        ({"seed": 9}, False),
        ({"arrivals": "trace", "trace": "t"}, False),
        ({"trace_speed": 2}, False),
    ],
)
def test_only_some_settings_decide_when_requests_start(change: dict[str, Any], same: bool) -> None:
    assert LoadSettings().same_arrivals(LoadSettings().with_values(change)) is same


BAD_HEADERS = ["none", ": x", "A b: x", "A: b | c", "A: é", "A: b\r\nC: d", "A: <b>", "Ä: b", "A: b" + 2048 * "c"]


@pytest.mark.parametrize("text", BAD_HEADERS)
def test_a_bad_header_is_one_sentence(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^header .*; expected Name: value in plain letters") as caught:
        LoadSettings().with_values({"header": text})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding", "Connection"])
def test_headers_that_follow_from_the_request_are_not_set(name: str) -> None:
    with pytest.raises(SettingsError, match=f"header has '{name}', which follows from the request"):
        LoadSettings().with_values({"header": f"A: b | {name}: 5"})


def test_a_header_that_may_be_a_secret_is_not_told() -> None:
    settings = LoadSettings().with_values({"header": "Authorization: Bearer abc | Content-Type: text/csv"})
    assert parse_headers(settings.header) == (("Authorization", "Bearer abc"), ("Content-Type", "text/csv"))
    assert settings.as_told()["header"] == "Authorization: (not shown) | Content-Type: text/csv"
    assert settings.as_told() | {"header": settings.header} == settings.as_dict()
    with pytest.raises(SettingsError) as caught:
        LoadSettings().with_values({"header": "Authorization: Bearer é"})
    assert "Bearer" not in str(caught.value)


def test_settings_that_need_or_exclude_each_other() -> None:
    with pytest.raises(SettingsError, match="trace is ''; expected the file to replay, because arrivals is 'trace'"):
        LoadSettings().with_values({"arrivals": "trace"})
    with pytest.raises(SettingsError, match=r"data is 'a\.csv' and body_file is 'b'; expected one of them, or none"):
        LoadSettings().with_values({"data": "a.csv"}).with_values({"body_file": "b"})


def test_a_traces_cap_is_what_its_fullest_stretch_needs() -> None:
    trace = Trace([0, 0, 0.1, 9, 9.5, 9.9, 10.05])
    settings = LoadSettings().with_values({"arrivals": "trace", "trace": "t", "timeout_seconds": 1})
    assert settings.default_cap(trace) == 4  # 1.2 x 3 within a second
    assert settings.with_values({"trace_speed": 2}).default_cap(trace) == 5  # 1.2 x 4 within two of its seconds
    assert LoadSettings().default_cap(trace) == 240  # other arrivals do not care
    with pytest.raises(ValueError, match="no trace came"):
        settings.plan(Share())


RAMP = {"arrivals": "ramp"}
SPIKE = {"arrivals": "spike"}
REPLAY = {"arrivals": "trace", "trace": "t"}


@pytest.mark.parametrize(
    ("before", "after", "begun"),
    [
        ({}, {"rate": 500}, 8),  # flat: no place to be at
        ({}, {"arrivals": "constant"}, 8),
        ({}, RAMP, 0),
        (RAMP, {}, 0),
        (RAMP, RAMP, 8),
        (RAMP, {**RAMP, "timeout_seconds": 9}, 8),
        (RAMP, {**RAMP, "spike_rate": 9}, 8),  # has no say in a ramp
        (RAMP, {**RAMP, "ramp_to_rate": 9}, 0),
        (RAMP, SPIKE, 0),
        (SPIKE, {**SPIKE, "spike_seconds": 1}, 0),
        ({"arrivals": "steps"}, {"arrivals": "steps", "rate": 7}, 8),
        ({}, REPLAY, 0),
        (REPLAY, {}, 0),
        (REPLAY, {**REPLAY, "trace_speed": 4}, 2),  # 8 seconds of trace are over, and stay so
        (REPLAY, {**REPLAY, "trace": "u"}, 0),
    ],
)
def test_where_a_curve_stands_when_it_takes_over(before: dict[str, Any], after: dict[str, Any], begun: float) -> None:
    assert LoadSettings().with_values(after).begun_after(LoadSettings().with_values(before), 8.0) == begun
