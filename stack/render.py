"""Configuration of Prometheus, Alertmanager and Grafana with the ports of this run, written into the run directory.

The files in the repository are complete for the default ports; nothing but ports (and Grafana's paths) changes on the
way, so what the tests check is what runs.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from stack.errors import StackError
from stack.settings import ROOT, StackSettings

_ADDRESS = re.compile(r"\b(127\.0\.0\.1|localhost):([0-9]{1,5})\b")


def move_ports(text: str, moved: Mapping[int, int]) -> str:
    """Every `127.0.0.1:port` in `text` at its new port, all in one pass, so that two ports may change places."""
    return _ADDRESS.sub(lambda match: f"{match[1]}:{moved.get(int(match[2]), int(match[2]))}", text)


def prometheus(settings: StackSettings, source: Path = ROOT / "prometheus") -> Path:
    """Writes run/prometheus/; returns the path of its prometheus.yml. `rules/` there leads to the rules directory."""
    rules = settings.rules_dir
    if not any(rules.glob("*.yml")):
        raise StackError(
            f"{rules} holds no *.yml files, so nothing would alert; expected Prometheus rules there (make generate "
            "writes them, TAILBOARD_RULES_DIR moves the place)"
        )
    target = _fresh(settings.run_dir / "prometheus")
    (target / "targets").mkdir()
    for file in [source / "prometheus.yml", *sorted((source / "targets").glob("*.yml"))]:
        _render(file, target / file.relative_to(source), settings)
    (target / "rules").symlink_to(rules, target_is_directory=True)
    return target / "prometheus.yml"


def alertmanager(settings: StackSettings, source: Path = ROOT / "prometheus") -> Path:
    """Writes run/alertmanager/; returns the path of its alertmanager.yml."""
    target = _fresh(settings.run_dir / "alertmanager")
    _render(source / "alertmanager.yml", target / "alertmanager.yml", settings)
    return target / "alertmanager.yml"


def _render(source: Path, target: Path, settings: StackSettings) -> None:
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StackError(f"{source} cannot be read ({error}); expected the file of the repository") from error
    target.write_text(move_ports(text, settings.moved_ports()), encoding="utf-8")


def _fresh(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)  # a link in it is removed, never followed
    directory.mkdir(parents=True)
    return directory
