"""Configuration with moved ports: nothing but ports changes, and what was there before is gone."""

import dataclasses
import re
from pathlib import Path

import pytest
import yaml

from stack import grafana, render
from stack.errors import StackError
from stack.settings import ROOT, StackSettings


@pytest.fixture
def settings(tmp_path: Path) -> StackSettings:
    return StackSettings(state_dir=tmp_path, prometheus_port=19090, alertmanager_port=19093, inbox_port=18060)


def test_ports_move_in_one_pass_so_that_two_may_change_places() -> None:
    text = "http://127.0.0.1:8000/a localhost:8001 127.0.0.1:80001 10.127.0.0.1:8000x 127.0.0.1:5000"
    moved = render.move_ports(text, {8000: 8001, 8001: 8000})
    assert moved == "http://127.0.0.1:8001/a localhost:8000 127.0.0.1:80001 10.127.0.0.1:8000x 127.0.0.1:5000"


def test_with_default_ports_what_runs_is_what_is_in_the_repository(tmp_path: Path) -> None:
    settings = StackSettings(state_dir=tmp_path)
    for rendered in (render.prometheus(settings), render.alertmanager(settings)):
        assert rendered.read_text() == (ROOT / "prometheus" / rendered.name).read_text()


def test_every_target_and_the_webhook_follow_their_ports(settings: StackSettings) -> None:
    every = dataclasses.replace(settings, service_admin_port=18001, locust_metrics_port=19646)
    config = render.prometheus(every)
    targets = {
        file.stem: [target for group in yaml.safe_load(file.read_text()) for target in group["targets"]]
        for file in (config.parent / "targets").glob("*.yml")
    }
    assert targets == {
        "inference": ["127.0.0.1:18001"],
        "loadgen": ["127.0.0.1:19646"],
        "prometheus": ["127.0.0.1:19090"],
        "alertmanager": ["127.0.0.1:19093"],
        "inbox": ["127.0.0.1:18060"],
        "haproxy": [],
    }
    assert "http://127.0.0.1:18060/webhook" in render.alertmanager(every).read_text()


def test_prometheus_looks_for_nothing_outside_of_what_was_rendered(settings: StackSettings) -> None:
    """Its relative paths count from the rendered file, so each has to lead to something there."""
    config = render.prometheus(settings)
    document = yaml.safe_load(config.read_text())
    discoveries = [
        *(d for job in document["scrape_configs"] for d in job["file_sd_configs"]),
        *(d for manager in document["alerting"]["alertmanagers"] for d in manager["file_sd_configs"]),
    ]
    patterns = [*document["rule_files"], *(file for discovery in discoveries for file in discovery["files"])]
    assert len(patterns) >= 7
    for pattern in patterns:
        assert not Path(pattern).is_absolute()
        assert list(config.parent.glob(pattern)), pattern


def test_rules_are_those_of_the_rules_directory(settings: StackSettings, tmp_path: Path) -> None:
    rules = tmp_path / "broken on purpose"
    rules.mkdir()
    (rules / "one.yml").write_text("groups: []\n")
    config = render.prometheus(dataclasses.replace(settings, rules_dir=rules))
    assert [path.name for path in config.parent.glob("rules/*.yml")] == ["one.yml"]


def test_rendering_again_leaves_nothing_of_the_last_time_and_follows_no_link(settings: StackSettings) -> None:
    config = render.prometheus(settings)
    (config.parent / "targets" / "stale.yml").write_text("- targets: [127.0.0.1:1]\n")
    render.prometheus(settings)
    assert not (config.parent / "targets" / "stale.yml").exists()
    assert list((ROOT / "prometheus" / "rules").glob("*.yml")), "the rules behind the link must survive"


def test_no_rules_is_an_error_that_says_where(settings: StackSettings, tmp_path: Path) -> None:
    with pytest.raises(StackError, match=re.escape(f"{tmp_path / 'nowhere'} holds no *.yml files")):
        render.prometheus(dataclasses.replace(settings, rules_dir=tmp_path / "nowhere"))


def test_a_missing_file_of_the_repository_is_named(settings: StackSettings, tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"alertmanager\.yml cannot be read"):
        render.alertmanager(settings, source=tmp_path)


def test_grafana_gets_rendered_provisioning_and_no_accounts(settings: StackSettings, tmp_path: Path) -> None:
    source = tmp_path / "grafana"
    (source / "provisioning" / "datasources").mkdir(parents=True)
    (source / "provisioning" / "datasources" / "prometheus.yml").write_text("url: http://127.0.0.1:9090\n")
    environment = grafana.environment(settings, source)
    rendered = Path(environment["GF_PATHS_PROVISIONING"]) / "datasources" / "prometheus.yml"
    assert rendered.read_text() == "url: http://127.0.0.1:19090\n"
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert environment["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"


def test_a_grafana_without_its_home_is_said_to_be_so(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "grafana"
    program.parent.mkdir()
    program.touch()
    with pytest.raises(StackError, match=r"conf/defaults\.ini"):
        grafana.command(program)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "defaults.ini").touch()
    assert grafana.command(program) == (str(program), "server", "--homepath", str(tmp_path))
