"""Every series that a rule or a panel reads is exported: asked of a Prometheus that scrapes the real programs."""

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from slo import names
from stack.binaries import BinariesError, obtain
from stack.native import NativeStack
from stack.settings import StackSettings

PARTS = ("service", "locust", "inbox", "prometheus", "alertmanager")
WITHIN_SECONDS = 120


def expressions(root: Path) -> list[str]:
    """Of every panel, with a window in the place of Grafana's variable, and of every rule."""
    found = []
    for path in (root / "grafana/dashboards").glob("*.json"):
        for panel in json.loads(path.read_text())["panels"]:
            found += [target["expr"].replace("$__rate_interval", "20s") for target in panel["targets"]]
    for path in (root / "prometheus/rules").glob("*.yml"):
        for group in yaml.safe_load(path.read_text())["groups"]:
            found += [rule["expr"] for rule in group["rules"]]
    return found


def selectors(expression: str) -> set[str]:
    """The vector selectors in a PromQL expression, with their matchers and without their range."""
    known = {value for key, value in vars(names).items() if key.isupper() and isinstance(value, str)}
    found = re.findall(r'[a-zA-Z_][\w:]*(?:\{(?:"(?:\\.|[^"\\])*"|[^{}"])*\})?', expression)
    return {
        text
        for text in found
        if re.sub(r"_(bucket|count|sum)$", "", text.partition("{")[0]) in known or text.startswith("job:")
    }


def never_here(selector: str) -> bool:
    """What only exists when something is wrong."""
    # `ALERTS` and `ALERTS_FOR_STATE`; the watchdog has no `for`, and so none of the latter.
    return selector.startswith(names.ALERTS) and "Watchdog" not in selector


@pytest.mark.timeout(400)
def test_every_series_that_is_read_is_exported(
    root: Path, tmp_path: Path, free_port: Callable[[], int], missing: Callable[[str], None]
) -> None:
    try:
        obtain(say=lambda line: None)
    except BinariesError as error:
        missing(str(error))
    ports = (
        "SERVICE",
        "SERVICE_ADMIN",
        "LOCUST",
        "LOCUST_METRICS",
        "PROMETHEUS",
        "ALERTMANAGER",
        "GRAFANA",
        "LIVE",
        "INBOX",
    )
    settings = StackSettings.from_environment(
        {name: value for name, value in os.environ.items() if not name.startswith(("SERVICE_", "TAILBOARD_"))}
        | {f"{name}_PORT": str(free_port()) for name in ports}
        | {
            "TAILBOARD_STATE_DIR": str(tmp_path / "state"),
            "SERVICE_MODEL": "digits?trees=10",
            "SERVICE_MODEL_WORKERS": "0",
            "SERVICE_MODEL_CACHE_DIR": str(tmp_path / "models"),
        }
    )
    with NativeStack(settings, say=lambda line: None, only=PARTS) as stack:
        load = {"user_count": 20, "spawn_rate": 20, "host": stack.urls["service"], "arrivals": "poisson", "rate": 40}
        started = requests.post(f"{stack.urls['locust']}/swarm", data=load, timeout=30)
        assert started.json()["success"], started.text
        note = [{"labels": {"alertname": "Hello", "job": "test", "severity": "ticket"}}]
        requests.post(f"{stack.urls['alertmanager']}/api/v2/alerts", json=note, timeout=30).raise_for_status()

        def ask(query: str) -> list[Any]:
            url = f"{stack.urls['prometheus']}/api/v1/query"
            answer = requests.get(url, params={"query": query}, timeout=30).json()
            assert answer["status"] == "success", f"{query}: {answer}"
            result: list[Any] = answer["data"]["result"]
            return result

        for expression in expressions(root):
            ask(expression)  # valid in this Prometheus, whatever it gives
        unseen = {one for expression in expressions(root) for one in selectors(expression) if not never_here(one)}
        assert len(unseen) > 60
        end = time.monotonic() + WITHIN_SECONDS
        while unseen and time.monotonic() < end:
            time.sleep(5)
            unseen = {selector for selector in unseen if not ask(f"count({selector})")}
        assert unseen == set()
