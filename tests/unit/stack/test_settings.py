"""The stack's settings: what is read, what is refused with one sentence, what the parts are given."""

import dataclasses
import os
from pathlib import Path

import pytest

from stack.settings import ROOT, SettingsError, StackSettings, variable

CPU = min(os.sched_getaffinity(0))


def test_defaults_are_those_of_the_design() -> None:
    settings = StackSettings.from_environment({})
    ports = {variable(f.name): f.default for f in dataclasses.fields(StackSettings) if f.name.endswith("_port")}
    assert ports == {
        "SERVICE_PORT": 8000,
        "SERVICE_ADMIN_PORT": 8001,
        "LOCUST_PORT": 8089,
        "LOCUST_METRICS_PORT": 9646,
        "PROMETHEUS_PORT": 9090,
        "ALERTMANAGER_PORT": 9093,
        "GRAFANA_PORT": 3000,
        "LIVE_PORT": 8050,
        "INBOX_PORT": 8060,
    }
    assert settings.state_dir == ROOT / ".tailboard"
    assert settings.rules_dir == ROOT / "prometheus" / "rules"
    assert settings.service_cpus == settings.generator_cpus == ()


def test_an_empty_variable_means_the_default() -> None:
    assert StackSettings.from_environment({"LIVE_PORT": " ", "TAILBOARD_STATE_DIR": ""}) == dataclasses.replace(
        StackSettings(), environment={"LIVE_PORT": " ", "TAILBOARD_STATE_DIR": ""}
    )


def test_everything_moves() -> None:
    settings = StackSettings.from_environment(
        {
            "PROMETHEUS_PORT": "19090",
            "TAILBOARD_STATE_DIR": "/somewhere/else",
            "TAILBOARD_RULES_DIR": "other/rules",
            "TAILBOARD_SERVICE_CPUS": str(CPU),
            "TAILBOARD_RETENTION": "12h",
        }
    )
    assert settings.prometheus_port == 19090
    assert settings.run_dir == Path("/somewhere/else/run")
    assert settings.rules_dir == ROOT / "other" / "rules"
    assert settings.service_cpus == (CPU,)
    assert settings.moved_ports()[9090] == 19090
    assert settings.moved_ports()[9093] == 9093


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("PROMETHEUS_PORT", "0", "a port from 1 to 65535"),
        ("PROMETHEUS_PORT", "65536", "a port from 1 to 65535"),
        ("SERVICE_PORT", "80a", "a port from 1 to 65535"),
        ("SERVICE_PORT", "٨٠٠٠", "a port from 1 to 65535"),  # digits, but not ours
        ("TAILBOARD_RETENTION", "-1d", "a length of time"),
        ("TAILBOARD_RETENTION", "1d; rm", "a length of time"),
        ("TAILBOARD_SERVICE_CPUS", "3-1", "numbers of CPUs"),
        ("TAILBOARD_SERVICE_CPUS", "first", "numbers of CPUs"),
        ("TAILBOARD_GENERATOR_CPUS", "9999", "CPUs that this process may use"),
        ("TAILBOARD_START_SECONDS", "nan", "seconds above 0"),
        ("TAILBOARD_START_SECONDS", "0", "seconds above 0"),
        ("SERVICE_HOST", "192.0.2.7", "expected 127.0.0.1 or 0.0.0.0"),
        ("TAILBOARD_STATEDIR", "/x", "did you mean TAILBOARD_STATE_DIR?"),
    ],
)
def test_a_bad_value_is_refused_in_one_sentence(name: str, value: str, expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        StackSettings.from_environment({name: value})
    assert str(caught.value).startswith(name)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_token_is_refused_without_being_shown() -> None:
    with pytest.raises(SettingsError) as caught:
        StackSettings.from_environment({"SERVICE_ADMIN_TOKEN": "two words"})
    assert "two words" not in str(caught.value)
    assert "secret" not in repr(StackSettings.from_environment({"SERVICE_ADMIN_TOKEN": "secret"}))


def test_a_name_of_the_containers_is_nobodys_mistake() -> None:
    StackSettings.from_environment({"TAILBOARD_IMAGE": "tailboard:local"})


def test_cpu_lists_and_ranges() -> None:
    assert StackSettings.from_environment({"TAILBOARD_SERVICE_CPUS": f"{CPU}-{CPU}, {CPU}"}).service_cpus == (CPU,)


def test_parts_get_all_ports_and_the_callers_environment_but_not_the_token() -> None:
    given = {"HOME": "/home/x", "INBOX_PORT": "18060", "SERVICE_ADMIN_TOKEN": "secret", "http_proxy": "http://proxy:1"}
    environment = StackSettings.from_environment(given).child_environment()
    assert environment["HOME"] == "/home/x"
    assert environment["INBOX_PORT"] == "18060"
    assert environment["SERVICE_PORT"] == "8000"
    assert environment["TAILBOARD_STATE_DIR"] == str(ROOT / ".tailboard")
    assert "127.0.0.1" in environment["NO_PROXY"].split(",")
    assert "secret" not in environment.values()
