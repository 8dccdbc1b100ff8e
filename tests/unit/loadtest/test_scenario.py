"""The scenario file: every setting by example, as Locust's configuration files are read."""

import re
from pathlib import Path

import configargparse
import pytest

from loadtest.arguments import add_settings
from loadtest.data_file import read_bodies, read_rows
from loadtest.settings import LoadSettings
from loadtest.trace_file import read_trace

SETTINGS = [name.replace("_", "-") for name in LoadSettings.names()]


@pytest.fixture
def text(root: Path) -> str:
    return (root / "loadtest/scenario.conf").read_text()


def read(path: Path) -> LoadSettings:
    parser = configargparse.ArgumentParser()
    parser.add_argument("--config", is_config_file_arg=True)
    add_settings(parser)
    return LoadSettings().with_values(vars(parser.parse_args(["--config", str(path)])))


def test_as_it_stands_it_names_every_setting_and_changes_none(root: Path, text: str) -> None:
    assert sorted(re.findall(r"^([a-z-]+) =", text, re.MULTILINE)) == sorted(SETTINGS)
    assert read(root / "loadtest/scenario.conf") == LoadSettings()


def test_each_example_is_a_setting_that_can_be_used(root: Path, text: str, tmp_path: Path) -> None:
    examples = [
        (name, value) for name, value in re.findall(r"^# ([a-z-]+) = (.+)", text, re.MULTILINE) if name != "host"
    ]
    assert {name for name, _ in examples} == set(SETTINGS) - {"timeout-seconds"}
    for name, value in examples:
        lines = [f"{name} = {value}"] + (["trace = t"] if value == "trace" else [])
        (tmp_path / "own.conf").write_text("\n".join(lines))
        assert str(getattr(read(tmp_path / "own.conf"), name.replace("-", "_"))) in (value, f"{value}.0")


def test_the_files_in_it_exist_and_can_be_sent(root: Path) -> None:
    folder = root / "loadtest/data"
    assert len(read_rows(str(folder / "digits.csv"))) == 20
    assert len(read_bodies(str(folder / "bodies.jsonl"))) == 4
    assert len(read_trace(str(folder / "bursty.csv"))) == 834
