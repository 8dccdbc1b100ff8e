"""One configuration for old and new Prometheus and Alertmanager: both read it, and nothing in it is for one alone."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo.buckets import edge_text
from stack.binaries import Binaries
from stack.parts import PARTS, Context
from stack.settings import StackSettings

Run = Callable[..., subprocess.CompletedProcess[str]]

PROMETHEUS = ("prometheus/prometheus.yml", "deploy/compose/prometheus.yml")
ALERTMANAGER = ("prometheus/alertmanager.yml", "deploy/compose/alertmanager.yml")
# What only newer releases know, or what means another thing in them.
PROMETHEUS_TOO_NEW = {
    *("scrape_protocols", "fallback_scrape_protocol", "scrape_config_files", "query_offset", "rule_query_offset"),
    *("scrape_native_histograms", "native_histogram_bucket_limit", "native_histogram_min_bucket_factor"),
    *("scrape_classic_histograms", "always_scrape_classic_histograms", "convert_classic_histograms_to_nhcb"),
    *("storage", "retention", "otlp", "runtime", "metric_name_validation_scheme", "keep_dropped_targets"),
}
RULE_GROUP = {"name", "interval", "rules"}  # "labels", "limit" and "query_offset" came later
RULE = {"record", "alert", "expr", "for", "keep_firing_for", "labels", "annotations"}
WEBHOOK = {"url", "send_resolved", "http_config", "max_alerts"}  # "timeout", "url_file" and "payload" came later


def keys(node: Any) -> Iterator[str]:
    """Every key, however deep."""
    if isinstance(node, dict):
        yield from node
        for value in node.values():
            yield from keys(value)
    elif isinstance(node, list):
        for item in node:
            yield from keys(item)


def found(node: Any, wanted: str) -> Iterator[Any]:
    """The values of every key of that name, however deep."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == wanted:
                yield value
            yield from found(value, wanted)
    elif isinstance(node, list):
        for item in node:
            yield from found(item, wanted)


def rule_files(root: Path) -> list[Path]:
    files = sorted((root / "prometheus/rules").glob("*.yml"))
    assert files
    return files


@pytest.mark.parametrize("file", PROMETHEUS)
def test_prometheus_takes_it(file: str, root: Path, tmp_path: Path, each_binaries: Binaries, run: Run) -> None:
    """With the rules where the file expects them: beside it."""
    (tmp_path / "prometheus.yml").write_text((root / file).read_text())
    for name in ("rules", "targets"):
        (tmp_path / name).symlink_to(root / "prometheus" / name)
    done = run(each_binaries.promtool, "check", "config", tmp_path / "prometheus.yml")
    assert done.returncode == 0, done.stdout
    assert f"{len(rule_files(root))} rule files found" in done.stdout
    assert "WARNING" not in done.stdout


@pytest.mark.parametrize("file", ALERTMANAGER)
def test_alertmanager_takes_it(file: str, root: Path, each_binaries: Binaries, run: Run) -> None:
    done = run(each_binaries.amtool, "check-config", root / file)
    assert done.returncode == 0, done.stdout
    assert "2 inhibit rules" in done.stdout
    assert "2 receivers" in done.stdout


@pytest.mark.parametrize("file", ALERTMANAGER)
def test_every_shipped_alert_has_its_receiver(file: str, root: Path, each_binaries: Binaries, run: Run) -> None:
    documents = [yaml.safe_load(path.read_text()) for path in rule_files(root)]
    alerts = [rule for document in documents for rule in found(document, "rules") for rule in rule if "alert" in rule]
    routes = {(alert["alert"], alert["labels"]["severity"]) for alert in alerts}
    assert len(routes) >= 10
    for name, severity in sorted(routes):
        labels = (f"alertname={name}", f"severity={severity}", "job=inference")
        done = run(each_binaries.amtool, "config", "routes", "test", f"--config.file={root / file}", *labels)
        [receiver] = [line for line in done.stdout.splitlines() if not line.startswith("Warning:")]
        assert receiver == ("heartbeat" if name == "Watchdog" else "inbox"), (name, severity)


@pytest.mark.parametrize("file", PROMETHEUS)
def test_nothing_is_for_a_newer_prometheus_alone(file: str, root: Path) -> None:
    document = yaml.safe_load((root / file).read_text())
    assert len(set(keys(document))) > 8
    assert not set(keys(document)) & PROMETHEUS_TOO_NEW


def test_nothing_in_the_rules_is_either(root: Path) -> None:
    for path in rule_files(root):
        for group in yaml.safe_load(path.read_text())["groups"]:
            assert group.keys() <= RULE_GROUP, (path.name, group["name"])
            for rule in group["rules"]:
                assert rule.keys() <= RULE, (path.name, rule)


def test_le_is_written_as_every_release_stores_it(root: Path) -> None:
    """Prometheus 3 turns le="1" into le="1.0" on the way in, and a matcher for "1" would then find nothing."""
    written = [le for path in rule_files(root) for le in re.findall(r'\ble="([^"]*)"', path.read_text())]
    assert written
    assert all(le == edge_text(float(le)) for le in written if le != "+Inf")


@pytest.mark.parametrize("file", ALERTMANAGER)
def test_nothing_is_for_a_newer_alertmanager_alone(file: str, root: Path) -> None:
    document = yaml.safe_load((root / file).read_text())
    webhooks = [webhook for configs in found(document, "webhook_configs") for webhook in configs]
    assert webhooks
    assert all(webhook.keys() <= WEBHOOK for webhook in webhooks)
    for kind in ("matchers", "source_matchers", "target_matchers"):
        assert list(found(document, kind))
    for kind in ("matchers", "source_matchers", "target_matchers"):
        for matcher in (matcher for matchers in found(document, kind) for matcher in matchers):
            assert re.fullmatch(r'\w+(=|!=|=~|!~)"[^"]*"', matcher), f"{matcher} is read differently by newer releases"


def test_both_compose_and_native_have_one_alertmanager_configuration(root: Path) -> None:
    """But for where the inbox is."""
    native, compose = (yaml.safe_load((root / file).read_text()) for file in ALERTMANAGER)
    urls = [list(found(document, "url")) for document in (native, compose)]
    assert urls == [["http://127.0.0.1:8060/webhook"], ["http://inbox:8060/webhook"]]
    native["receivers"][0]["webhook_configs"][0]["url"] = compose["receivers"][0]["webhook_configs"][0]["url"]
    assert native == compose


def flags(root: Path, part: str, directory: Path, binaries: Binaries) -> dict[str, set[str]]:
    """The options that a part is started with, natively and by Compose."""
    settings = StackSettings(state_dir=directory)
    native = next(p for p in PARTS if p.name == part)
    argv = native.build(Context(settings, binaries, ""), native).argv[1:]
    command = yaml.safe_load((root / "docker-compose.yml").read_text())["services"][part]["command"]
    return {"native": set(argv), "compose": set(command)}


@pytest.mark.parametrize("part", ["prometheus", "alertmanager"])
def test_both_know_every_option_they_are_started_with(
    part: str, root: Path, tmp_path: Path, each_binaries: Binaries, run: Run
) -> None:
    known = run(getattr(each_binaries, part), "--help").stdout
    for where, options in flags(root, part, tmp_path, each_binaries).items():
        assert options
        for option in options:
            name = option.partition("=")[0].removeprefix("--")
            assert re.search(rf"--(\[no-\])?{re.escape(name)}\b", known), f"{where}: {option}"


def test_retention_is_an_option_and_no_cluster_listens(root: Path, tmp_path: Path, binaries: Binaries) -> None:
    for options in flags(root, "prometheus", tmp_path, binaries).values():
        assert any(option.startswith("--storage.tsdb.retention.time=") for option in options)
    for options in flags(root, "alertmanager", tmp_path, binaries).values():
        assert "--cluster.listen-address=" in options
