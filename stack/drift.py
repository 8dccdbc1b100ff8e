"""Whether the rules that Prometheus is about to load are those that slo.yaml gives: if not, it pages by another SLO."""

from pathlib import Path

import yaml

from slo.config import SloFile
from slo.rules import rule_files


def drifted(slo: SloFile, rules: Path) -> list[str]:
    """Names of the rule files that `slo` gives and that `rules` has otherwise or not at all."""
    return [name for name, expected in rule_files(slo).items() if _content(rules / name) != expected]


def _content(path: Path) -> object:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None  # Prometheus itself says what is wrong with a file that cannot be read
