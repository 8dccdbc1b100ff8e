"""The parts as data: contracts about ports, order of stopping, who gets the token."""

import dataclasses
import itertools
from pathlib import Path

import pytest

from stack import banner, parts
from stack.binaries import Binaries
from stack.component import Component
from stack.errors import StackError
from stack.settings import StackSettings

BINARIES = Binaries(Path("/x/prometheus"), Path("/x/promtool"), Path("/x/alertmanager"), Path("/x/amtool"))


@pytest.fixture
def settings(tmp_path: Path) -> StackSettings:
    return dataclasses.replace(
        StackSettings.from_environment({"SERVICE_MODEL": "synthetic", "LANG": "C"}),
        state_dir=tmp_path,
        service_cpus=(0,),
        generator_cpus=(1,),
    )


@pytest.fixture
def components(settings: StackSettings, monkeypatch: pytest.MonkeyPatch) -> dict[str, Component]:
    monkeypatch.setenv("PATH", "")  # no Grafana here
    context = parts.Context(settings, BINARIES, "the-token")
    return {part.name: part.build(context, part) for part in parts.choose(None)}


def test_everything_listens_on_loopback_and_is_looked_for_there(components: dict[str, Component]) -> None:
    for component in components.values():
        assert component.ready_url.startswith("http://127.0.0.1:")
        assert "0.0.0.0" not in " ".join(component.argv)
    assert "--web-host 127.0.0.1" in " ".join(components["locust"].argv)
    assert "--web.listen-address=127.0.0.1:9090" in components["prometheus"].argv
    assert "--cluster.listen-address=" in components["alertmanager"].argv


def test_only_the_service_knows_the_token(components: dict[str, Component]) -> None:
    assert components["service"].environment["SERVICE_ADMIN_TOKEN"] == "the-token"
    for name, component in components.items():
        told = [*component.environment.values(), *component.argv]
        assert name == "service" or not any("the-token" in text for text in told)


def test_load_stops_first_then_the_service_and_what_records_comes_last(components: dict[str, Component]) -> None:
    order = {name: component.stop_order for name, component in components.items()}
    assert order["locust"] < order["service"] < order["prometheus"] == order["alertmanager"] == order["inbox"]
    assert max(order.values()) == order["inbox"]


def test_a_stop_takes_at_most_fifteen_seconds(components: dict[str, Component]) -> None:
    ordered = sorted(components.values(), key=lambda component: component.stop_order)
    stages = itertools.groupby(ordered, key=lambda component: component.stop_order)
    assert sum(max(component.stop_seconds for component in stage) for _, stage in stages) < 15


def test_a_longer_drain_is_granted_when_it_is_asked_for(settings: StackSettings) -> None:
    asked = dataclasses.replace(settings, environment={"SERVICE_DRAIN_TIMEOUT_SECONDS": "30"})
    context = parts.Context(asked, None, "t")
    service = next(part for part in parts.PARTS if part.name == "service")
    assert service.build(context, service).stop_seconds > 30


def test_the_cpus_are_those_of_the_settings(components: dict[str, Component]) -> None:
    assert components["service"].cpus == (0,)
    assert components["locust"].cpus == (1,)
    assert components["prometheus"].cpus == ()


def test_settings_of_the_service_are_passed_through(components: dict[str, Component], tmp_path: Path) -> None:
    environment = components["service"].environment
    assert environment["SERVICE_MODEL"] == "synthetic"
    assert environment["SERVICE_MODEL_CACHE_DIR"] == str(tmp_path / "models")


def test_every_port_is_claimed_once_by_the_variable_that_moves_it(settings: StackSettings) -> None:
    claims = [claim for part in parts.PARTS for claim in part.claims(settings)]
    assert len({claim.variable for claim in claims}) == len(claims) == 9
    assert sorted(claim.port for claim in claims) == sorted(settings.moved_ports().values())


def test_parts_are_chosen_by_name_and_kept_in_order() -> None:
    assert [part.name for part in parts.choose(["alertmanager", "inbox"])] == ["inbox", "alertmanager"]


@pytest.mark.parametrize("names", [["prometeus"], []])
def test_an_unknown_part_is_refused_with_the_names_of_all(names: list[str]) -> None:
    with pytest.raises(StackError, match="no part of the stack; expected some of service, locust, live"):
        parts.choose(names)


def test_grafana_is_a_part_only_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "grafana" not in [part.name for part in parts.choose(None)]
    (tmp_path / "grafana").touch(mode=0o755)
    assert "grafana" in [part.name for part in parts.choose(None)]


def test_the_table_has_a_line_for_every_url(components: dict[str, Component]) -> None:
    urls = {name: url for component in components.values() for name, url in component.urls.items()}
    table = banner.table(urls)
    assert len(urls) == len(table.splitlines()) == 8
    for url in urls.values():
        assert url in table
    assert "\x1b" not in table
    assert "\x1b[" in banner.table(urls, color=True)


def test_the_hints_name_the_token_file_or_the_variable_but_never_the_token(tmp_path: Path) -> None:
    urls = {"locust": "http://127.0.0.1:8089", "service_admin": "http://127.0.0.1:8001"}
    assert f"$(cat {tmp_path / 'admin-token'})" in banner.hints(urls, tmp_path / "admin-token", tmp_path)
    assert "$SERVICE_ADMIN_TOKEN" in banner.hints(urls, None, tmp_path)
    assert "Start load" not in banner.hints({}, None, tmp_path)
