"""Every mistake in slo.yaml is one sentence that says which file, where in it, and what was expected."""

from pathlib import Path

import pytest
import yaml

from slo.config import BurnRate, SloError, load

SHIPPED = Path(__file__).parents[3] / "slo.yaml"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "slo.yaml"
    path.write_text(text)
    return path


def changed(tmp_path: Path, **service: object) -> Path:
    """The shipped file with fields of its first service replaced; None removes one."""
    document = yaml.safe_load(SHIPPED.read_text())
    for key, value in service.items():
        document["services"][0].pop(key, None)
        if value is not None:
            document["services"][0][key] = value
    return written(tmp_path, yaml.safe_dump(document))


def profile_changed(tmp_path: Path, profile: str, **fields: object) -> Path:
    document = yaml.safe_load(SHIPPED.read_text())
    document["services"][0]["profile"] = profile
    for key, value in fields.items():
        document["profiles"][profile].pop(key, None)
        if value is not None:
            document["profiles"][profile][key] = value
    return written(tmp_path, yaml.safe_dump(document))


def burn(**fields: object) -> list[dict[str, object]]:
    return [{"factor": 14.4, "long": "1h", "short": "5m", "severity": "page"} | fields]


def refusal(path: Path) -> str:
    with pytest.raises(SloError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:")
    assert "\n" not in message
    return message.removeprefix(f"{path}:").strip()


def test_the_shipped_file() -> None:
    slo = load(SHIPPED)
    service = slo.service("inference")
    assert (service.objective, service.budget, service.threshold_seconds) == (0.99, 0.01, 0.05)
    assert service.window_days == 30
    assert service.profile.name == "local"
    assert service.profile.burn_rates == (BurnRate(1, long_seconds=120, short_seconds=30, severity="page"),)
    assert (service.profile.min_requests, service.profile.for_seconds) == (100, 15)
    assert service.profile.keep_firing_for_seconds == 30
    production = slo.profiles[1]
    assert [b.factor for b in production.burn_rates] == [14.4, 6, 3, 1]
    assert [b.severity for b in production.burn_rates] == ["page", "page", "ticket", "ticket"]
    assert 0.05 in slo.duration_edges


def test_a_threshold_between_edges_becomes_an_edge(tmp_path: Path) -> None:
    assert 0.0375 in load(changed(tmp_path, threshold_seconds=0.0375)).duration_edges


def test_an_unknown_job_is_named_with_those_there_are() -> None:
    with pytest.raises(SloError, match="no service with job 'nope' in the SLO file; it has: inference"):
        load(SHIPPED).service("nope")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"objective": 0}, "services[0].objective is 0; expected a share above 0 and below 1, such as 0.99"),
        ({"objective": 1}, "services[0].objective is 1; expected a share above 0 and below 1, such as 0.99"),
        ({"objective": 99}, "services[0].objective is 99; expected a share above 0 and below 1, such as 0.99"),
        ({"objective": -0.5}, "services[0].objective is -0.5; expected a share above 0 and below 1, such as 0.99"),
        ({"objective": True}, "services[0].objective is True; expected a share between 0 and 1, such as 0.99"),
        ({"objective": float("nan")}, "services[0].objective is nan; expected a share between 0 and 1, such as 0.99"),
        ({"objective": "99%"}, "services[0].objective is '99%'; expected a share between 0 and 1, such as 0.99"),
        ({"objective": None}, "services[0].objective is missing"),
        ({"objective": 0.9999999999999}, "services[0].objective is 0.9999999999999; expected at most 0.999999"),
        ({"window_days": None}, "services[0].window_days is missing"),
        ({"threshold_seconds": "5e-2"}, "services[0].threshold_seconds is '5e-2'; expected seconds as a number"),
        ({"threshold_seconds": float("inf")}, "services[0].threshold_seconds is inf; expected seconds as a number"),
        ({"job": "loadgen"}, "services[0].job is 'loadgen'; expected a job of its own: loadgen, inbox, haproxy"),
        ({"job": "stack"}, "services[0].job is 'stack'; expected another name: the generated files and rule groups"),
        ({"job": "a-breach-2m"}, "services[0].job is 'a-breach-2m'; expected another name"),
        ({"job": "a-budget"}, "services[0].job is 'a-budget'; expected another name"),
        ({"job": ""}, "services[0].job is ''; expected a Prometheus job"),
        (
            {"profile": "production", "window_days": 1},
            "services[0].window_days is 1; expected at least the longest window of its profile production, which is 3d",
        ),
        (
            {"threshold_seconds": 50},
            "services[0].threshold_seconds is 50; expected seconds between 0.001 and 10",
        ),
        (
            {"threshold_seconds": 0.0005},
            "services[0].threshold_seconds is 0.0005; expected seconds between 0.001 and 10",
        ),
        (
            {"threshold_seconds": "50ms"},
            "services[0].threshold_seconds is '50ms'; expected seconds as a number, such as 0.05",
        ),
        ({"window_days": 0}, "services[0].window_days is 0; expected a whole number of days, at least 1"),
        ({"window_days": 1.5}, "services[0].window_days is 1.5; expected a whole number of days, at least 1"),
        ({"window_days": "30d"}, "services[0].window_days is '30d'; expected a whole number of days, at least 1"),
        ({"profile": "staging"}, "services[0].profile is 'staging'; expected one of local, production"),
        ({"profile": ["local"]}, "services[0].profile is ['local']; expected one of local, production"),
        (
            {"job": 'a"} or up{'},
            "services[0].job is 'a\"} or up{'; expected a Prometheus job: letters, digits, _ and -",
        ),
        ({"job": 7}, "services[0].job is 7; expected a Prometheus job: letters, digits, _ and -"),
        (
            {"treshold_seconds": 0.1},
            "services[0].treshold_seconds is an unknown key; "
            "expected job, objective, threshold_seconds, window_days, profile",
        ),
    ],
)
def test_a_wrong_service_is_refused(tmp_path: Path, fields: dict[str, object], expected: str) -> None:
    assert refusal(changed(tmp_path, **fields)).startswith(expected)


@pytest.mark.parametrize(
    ("profile", "fields", "expected"),
    [
        ("local", {"windows": ["30s"]}, "profiles.local.windows is ['30s']; expected two durations, the shorter first"),
        ("local", {"windows": ["2m", "30s"]}, "profiles.local.windows is ['2m', '30s']; expected two durations"),
        ("local", {"windows": "30s"}, "profiles.local.windows is '30s'; expected two durations"),
        (
            "local",
            {"windows": ["15s", "2m"]},
            "profiles.local.windows[0] is '15s'; expected at least 20s, four scrapes of 5s",
        ),
        ("local", {"windows": ["30s", "2 min"]}, "profiles.local.windows[1] is '2 min'; expected a duration such as"),
        ("local", {"for": 15}, "profiles.local.for is 15; expected a duration with its unit, such as 30s or 2m"),
        ("local", {"for": "soon"}, "profiles.local.for is 'soon'; expected a duration such as 30s, 2m, 1h30m or 3d"),
        ("local", {"for": ""}, "profiles.local.for is ''; expected a duration such as"),
        ("local", {"keep_firing_for": "-5s"}, "profiles.local.keep_firing_for is '-5s'; expected a duration such as"),
        ("local", {"min_requests": 0}, "profiles.local.min_requests is 0; expected a whole number of requests"),
        ("local", {"min_requests": None}, "profiles.local.min_requests is missing"),
        ("local", {"windows": None}, "profiles.local has neither of windows and burn_rates; expected one"),
        ("local", {"burn_rates": burn()}, "profiles.local has both of windows and burn_rates; expected one"),
        ("local", {"window": ["30s", "2m"]}, "profiles.local.window is an unknown key; expected windows, burn_rates"),
        ("production", {"burn_rates": []}, "profiles.production.burn_rates is []; expected a list of burn rates"),
        ("production", {"burn_rates": burn(factor=0)}, "profiles.production.burn_rates[0].factor is 0; expected"),
        (
            "production",
            {"burn_rates": burn(short="1h")},
            "profiles.production.burn_rates[0].short is '1h'; expected less than long, which is 1h",
        ),
        (
            "production",
            {"burn_rates": burn(severity="critical")},
            "profiles.production.burn_rates[0].severity is 'critical'; expected one of page, ticket",
        ),
        (
            "production",
            {"burn_rates": burn(short="15s")},
            "profiles.production.burn_rates[0].short is '15s'; expected at least 20s, four scrapes of 5s",
        ),
        (
            "production",
            {"burn_rates": [*burn(), *burn(factor=6, severity="ticket")]},
            "profiles.production.burn_rates[1].long is '1h' again; expected each once, since it names the alert",
        ),
        (
            "production",
            {"burn_rates": [{"factor": 6}]},
            "profiles.production.burn_rates[0].long is missing",
        ),
        ("production", {"burn_rates": burn(factr=2)}, "profiles.production.burn_rates[0].factr is an unknown key"),
        ("local", {"min_requests": 99.5}, "profiles.local.min_requests is 99.5; expected a whole number of requests"),
        (
            "production",
            {"burn_rates": burn(factor=100)},
            "profiles.production.burn_rates[0].factor is 100, which can never fire for services[0].objective 0.99; "
            "expected less than 100",
        ),
    ],
)
def test_a_wrong_profile_is_refused(tmp_path: Path, profile: str, fields: dict[str, object], expected: str) -> None:
    assert refusal(profile_changed(tmp_path, profile, **fields)).startswith(expected)


def test_m4_a_burn_rate_that_cannot_fire_is_refused_for_the_service_that_it_is_for(tmp_path: Path) -> None:
    """The profile is fine for the first service; with the second one's lax objective there are not enough requests."""
    document = yaml.safe_load(SHIPPED.read_text())
    document["services"][0]["profile"] = "production"
    document["services"].append({**document["services"][0], "job": "lax", "objective": 0.9})
    assert refusal(written(tmp_path, yaml.safe_dump(document))) == (
        "profiles.production.burn_rates[0].factor is 14.4, which can never fire for services[1].objective 0.9; "
        "expected less than 10"
    )


def test_several_services_with_both_profiles(tmp_path: Path) -> None:
    document = yaml.safe_load(SHIPPED.read_text())
    document["services"].append(
        {**document["services"][0], "job": "embeddings", "threshold_seconds": 0.3, "profile": "production"}
    )
    slo = load(written(tmp_path, yaml.safe_dump(document)))
    assert [(service.job, service.profile.name) for service in slo.services] == [
        ("inference", "local"),
        ("embeddings", "production"),
    ]
    assert {0.05, 0.3} <= set(slo.duration_edges)


def test_a_burn_rate_that_can_just_fire_is_taken(tmp_path: Path) -> None:
    slo = load(profile_changed(tmp_path, "production", burn_rates=burn(factor=99.9)))
    assert slo.services[0].profile.burn_rates[0].factor == 99.9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the file is empty; expected a mapping with services, profiles"),
        ("- 1\n", "the file is [1]; expected a mapping with services, profiles"),
        ("services: []\nprofiles: {local: {windows: [30s, 2m], min_requests: 1}}", "services is []; expected a list"),
        ("services: [{}]\nprofiles: {}", "profiles is {}; expected a mapping with at least one profile"),
        ("profiles: {}", "services is missing"),
        ("services: [1\n", "line 2, column 1: not valid YAML:"),
        ("a: 1\na: 2\n", "line 2, column 1: not valid YAML: key 'a' is given twice"),
        ("a: \x00", "not valid YAML:"),
        ("? [a]\n: 1\n", "line 1, column 3: not valid YAML:"),
        ("services: &s [*s]\nprofiles: {local: {windows: [30s, 2m], min_requests: 1}}", "services[0] is "),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    assert refusal(written(tmp_path, text)).startswith(expected)


def test_a_job_given_twice_is_refused(tmp_path: Path) -> None:
    document = yaml.safe_load(SHIPPED.read_text())
    document["services"].append(document["services"][0])
    expected = "services[1].job is 'inference' again; expected each job once"
    assert refusal(written(tmp_path, yaml.safe_dump(document))) == expected


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nope.yaml").startswith("no such file")
    assert refusal(tmp_path).startswith("cannot be read")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "slo.yaml"
    path.write_bytes(b"\xff\xfe\xfa")
    assert refusal(path).startswith("not valid YAML")
