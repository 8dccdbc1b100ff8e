"""Settings from the environment: defaults, moved ports, and one sentence for a bad value."""

from pathlib import Path

import pytest

from stack.live.settings import LiveSettings, SettingsError


def test_defaults(tmp_path: Path) -> None:
    settings = LiveSettings.from_environment({"DASHBOARDS_DIR": str(tmp_path), "LIVE_PORT": ""})
    assert (settings.host, settings.port, settings.prometheus_url) == ("127.0.0.1", 8050, "http://127.0.0.1:9090")
    assert {link.name: link.port for link in settings.links} == {
        "Locust": 8089, "Prometheus": 9090, "Alertmanager": 9093, "Alert inbox": 8060, "Service": 8000,
    }  # fmt: skip


def test_moved_ports_reach_the_links_and_prometheus(tmp_path: Path) -> None:
    environment = {"PROMETHEUS_PORT": "9999", "INBOX_PORT": "8061", "DASHBOARDS_DIR": str(tmp_path)}
    settings = LiveSettings.from_environment(environment)
    assert settings.prometheus_url == "http://127.0.0.1:9999"
    assert {"Prometheus": 9999, "Alert inbox": 8061}.items() <= {
        link.name: link.port for link in settings.links
    }.items()


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("LIVE_PORT", "http", "LIVE_PORT is 'http'; expected a port from 0 to 65535"),
        ("INBOX_PORT", "65536", "INBOX_PORT is '65536'; expected a port from 0 to 65535"),
        ("PROMETHEUS_URL", "localhost:9090", "PROMETHEUS_URL is 'localhost:9090'; expected an address such as"),
        ("PROMETHEUS_URL", "http://x:port", "PROMETHEUS_URL is 'http://x:port'; expected an address such as"),
        ("LIVE_QUERY_TIMEOUT_SECONDS", "0", "LIVE_QUERY_TIMEOUT_SECONDS is '0'; expected seconds above 0, at most 60"),
        ("DASHBOARDS_DIR", "/nowhere", "DASHBOARDS_DIR is '/nowhere'; expected a directory of Grafana dashboards"),
    ],
)
def test_a_bad_value_is_one_sentence(tmp_path: Path, variable: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        LiveSettings.from_environment({"DASHBOARDS_DIR": str(tmp_path), variable: value})
    assert str(refusal.value).startswith(message)
