"""Prometheus keeps samples for as long as the error budget looks back, natively and in containers."""

import re
from pathlib import Path

from slo.config import load
from stack.settings import StackSettings


def days(retention: str) -> int:
    found = re.fullmatch(r"(\d+)d", retention)
    assert found, retention
    return int(found[1])


def test_the_budget_window_is_kept(root: Path) -> None:
    window = max(service.window_days for service in load(root / "slo.yaml").services)
    compose = re.search(r"\$\{TAILBOARD_RETENTION:-(\w+)\}", (root / "docker-compose.yml").read_text())
    assert compose
    assert compose[1] == StackSettings().retention
    assert days(compose[1]) > window


def test_alertmanager_holds_an_alert_as_long_as_in_the_native_stack(root: Path) -> None:
    """Its end is told within two minutes even if Prometheus is away when it comes: four times the resend delay."""
    delay = "--rules.alert.resend-delay=30s"
    assert delay in (root / "docker-compose.yml").read_text()
    assert delay in (root / "stack/parts.py").read_text()
