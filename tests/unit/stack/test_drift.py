"""Rules that are not what slo.yaml gives are found out before Prometheus pages by them."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from slo.config import SloFile, load
from stack import native
from stack.drift import drifted
from stack.native import NativeStack
from stack.settings import ROOT, RULES, StackSettings


@pytest.fixture
def slo() -> SloFile:
    return load(ROOT / "slo.yaml")


def test_the_shipped_rules_are_what_the_shipped_file_gives(slo: SloFile) -> None:
    assert drifted(slo, RULES) == []


def test_another_threshold_is_noticed(slo: SloFile) -> None:
    [service] = slo.services
    slower = dataclasses.replace(slo, services=(dataclasses.replace(service, threshold_seconds=0.1),))
    assert drifted(slower, RULES) == ["inference.yml", "stack.yml"]


def test_so_is_a_rule_that_somebody_edited_and_a_file_that_is_gone(slo: SloFile, tmp_path: Path) -> None:
    rules = shutil.copytree(RULES, tmp_path / "rules")
    (rules / "stack.yml").unlink()
    edited = (rules / "inference.yml").read_text().replace("> 0.01", "> 0.02", 1)
    (rules / "inference.yml").write_text("# a comment changes nothing\n" + edited)
    assert drifted(slo, rules) == ["inference.yml", "stack.yml"]


def test_a_start_says_it_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other.yaml"
    other.write_text((ROOT / "slo.yaml").read_text().replace("threshold_seconds: 0.05 ", "threshold_seconds: 0.1 "))
    said: list[str] = []
    settings = StackSettings.from_environment({"SLO_FILE": str(other), "TAILBOARD_STATE_DIR": str(tmp_path / "state")})
    stack = NativeStack(settings, said.append, only=("service",))

    def taken(claims: object) -> None:
        raise native.StackError("far enough")

    monkeypatch.setattr(native.ports, "check", taken)
    with pytest.raises(native.StackError, match="far enough"):
        stack.start()
    [warning] = said
    assert warning.startswith("warning: inference.yml and stack.yml in prometheus/rules are not what ")
    assert f"`python -m slo generate --slo {other}` writes them anew" in warning
