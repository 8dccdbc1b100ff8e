"""README says what is so: its settings table is the dataclasses', its ports are the programs', its commands exist."""

import dataclasses
import re
from pathlib import Path

from service import settings as service_settings
from stack.settings import StackSettings


def section(text: str, name: str) -> list[list[str]]:
    """The rows of the table between two markers, without its heading."""
    found = re.search(rf"<!-- {name}\b[^>]*-->\n(.*?)<!-- /{name} -->", text, re.DOTALL)
    assert found, f"README has no <!-- {name} --> markers"
    lines = [line for line in found[1].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_the_services_settings_are_all_told_with_their_defaults(root: Path) -> None:
    told = section((root / "README.md").read_text(), "settings")
    expected = [[f"`{name}`", default, meaning] for name, default, meaning in service_settings.table()]
    assert told == expected


def test_the_stacks_own_settings_are_all_told(root: Path) -> None:
    told = {row[0].strip("`"): row[1] for row in section((root / "README.md").read_text(), "stack-settings")}
    for field in dataclasses.fields(StackSettings):
        variable = field.metadata.get("variable", "")
        if variable.startswith("TAILBOARD_"):
            assert told.pop(variable) == field.metadata["meaning"]
    assert told == {}


def test_each_port_is_told_with_the_variable_that_moves_it(root: Path) -> None:
    text = (root / "README.md").read_text()
    for field in dataclasses.fields(StackSettings):
        if field.name.endswith("_port"):
            assert f"`{field.metadata['variable']}`" in text
            assert f":{field.default}" in text


def test_each_command_of_readme_is_a_target_of_the_makefile(root: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (root / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", (root / "README.md").read_text()))
    assert named
    assert named <= targets
