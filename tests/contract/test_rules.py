"""The shipped rules and configuration keep their promises: labels, texts, runbook, windows, old and new Prometheus."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from slo.buckets import batch_row_edges, duration_edges, edge_text
from slo.config import SCRAPE_SECONDS, SHORTEST_WINDOW_SECONDS, STACK_JOBS, load
from slo.durations import parse_duration

PROMISED = {  # alert -> its severities; other programs and people's receivers know these names
    "LatencySLOBreach": {"page"},
    "TargetDown": {"page", "ticket"},
    "InferenceTargetAbsent": {"page"},
    "SLOBucketMissing": {"page"},
    "ErrorRatioHigh": {"page"},
    "QueueSaturated": {"ticket"},
    "BatcherStalled": {"page"},
    "LoadShed": {"ticket"},
    "ClientServerGap": {"ticket"},
    "LoadGeneratorInvalid": {"ticket"},
    "Watchdog": {"none"},
}
# Older Prometheus refuses what it does not know; newer ones have these.
TOO_NEW = {"query_offset", "labels", "limit", "scrape_protocols", "fallback_scrape_protocol", "scrape_config_files"}


def groups(root: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((root / "prometheus/rules").glob("*.yml")):
        yield from yaml.safe_load(path.read_text())["groups"]


def rules(root: Path) -> list[dict[str, Any]]:
    return [rule for group in groups(root) for rule in group["rules"]]


def alerts(root: Path) -> list[dict[str, Any]]:
    return [rule for rule in rules(root) if "alert" in rule]


def without_strings(expression: str) -> str:
    """A route's regular expression has brackets of its own."""
    return re.sub(r'"(\\.|[^"\\])*"', '""', expression)


def test_the_promised_alerts_are_there_with_their_severities(root: Path) -> None:
    found: dict[str, set[str]] = {}
    for alert in alerts(root):
        found.setdefault(alert["alert"], set()).add(alert["labels"]["severity"])
    assert found == PROMISED


def test_the_breach_is_the_one_that_was_promised(root: Path) -> None:
    """Over budget in 30 s and in 2 m, at least 100 requests in 2 m, for 15 s, kept for 30 s."""
    [breach] = [alert for alert in alerts(root) if alert["alert"] == "LatencySLOBreach"]
    assert breach["expr"].splitlines() == [
        'job:slo_bad:ratio_rate30s{job="inference"} > 0.01',
        "and on (job) job:slo_bad:ratio_rate2m > 0.01",
        "and on (job) job:slo_requests:rate2m * 120 >= 100",
    ]
    assert (breach["for"], breach["keep_firing_for"]) == ("15s", "30s")


def test_every_alert_says_what_and_where(root: Path) -> None:
    for alert in alerts(root):
        assert alert["annotations"].keys() == {"summary", "description", "runbook_url"}
        assert alert["annotations"]["runbook_url"] == f"docs/runbook.md#{alert['alert'].lower()}"
        if alert["alert"] not in ("Watchdog", "InferenceTargetAbsent"):  # these have no value worth showing
            shown = alert["annotations"]["summary"] + alert["annotations"]["description"]
            assert "{{ $value" in shown or "{{ $labels" in shown, alert["alert"]


def test_the_runbook_has_a_heading_for_each_alert_and_no_other(root: Path) -> None:
    text = (root / "docs/runbook.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert len(headings) == len(set(headings))
    assert set(headings) == {alert["alert"] for alert in alerts(root)}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        for part in ("**Means.**", "**Look first.**", "**Do.**"):
            assert section.count(part) == 1, section.splitlines()[0]


def test_links_inside_the_runbook_lead_somewhere(root: Path) -> None:
    text = (root / "docs/runbook.md").read_text()
    headings = {heading.lower() for heading in re.findall(r"^## (.*)$", text, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= headings


def test_the_runbook_names_panels_that_exist(root: Path) -> None:
    shown = " ".join(path.read_text() for path in (root / "grafana/dashboards").glob("*.json"))
    text = (root / "docs/runbook.md").read_text()
    named = re.findall(r"\*(?:Latency vs throughput|Batcher|SLO|Stack health)\* → \"([^\"]+)\"", text)
    assert len(named) >= 8
    for panel in named:
        assert f'"title": "{panel}"' in shown, panel


def test_recordings_are_unique_and_named_by_level_metric_operation(root: Path) -> None:
    names = [rule["record"] for rule in rules(root) if "record" in rule]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"job:[a-z_]+:[a-z0-9_]+", name) for name in names)


def test_m11_no_range_is_shorter_than_four_scrapes(root: Path) -> None:
    ranges = [text for rule in rules(root) for text in re.findall(r"\[([^\]]+)\]", without_strings(rule["expr"]))]
    assert len(ranges) > 10
    assert min(parse_duration(text) for text in ranges) >= SHORTEST_WINDOW_SECONDS == 4 * SCRAPE_SECONDS


def test_matchers_are_quoted_and_only_old_keys_are_used(root: Path) -> None:
    for rule in rules(root):
        for block in re.findall(r"\{([^{}]*)\}", without_strings(rule["expr"])):
            assert re.fullmatch(r'(\w+(=|!=|=~|!~)""(,|$))+', block), rule["expr"]
        assert not rule.keys() & (TOO_NEW - {"labels"})
    for group in groups(root):
        assert group.keys() <= {"name", "interval", "rules"}


def test_no_regular_expression_is_dear_to_prometheus_3(root: Path) -> None:
    """It walks through a class rune by rune at each evaluation, and a negated one is nearly all of Unicode."""
    texts = [rule["expr"] for rule in rules(root)]
    texts += [path.read_text() for path in (root / "grafana/dashboards").glob("*.json")]
    assert not [text for text in texts if "[^" in text]


def test_the_stack_s_own_jobs_are_refused_as_services(root: Path) -> None:
    config = yaml.safe_load((root / "prometheus/prometheus.yml").read_text())
    services = {service.job for service in load(root / "slo.yaml").services}
    assert {job["job_name"] for job in config["scrape_configs"]} - services == set(STACK_JOBS)


def test_the_runbook_names_the_levers_where_there_is_too_much_load(root: Path) -> None:
    text = (root / "docs/runbook.md").read_text()
    sections = {part.splitlines()[0]: part.lower() for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]}
    for lever in ("batch", "workers", "shed", "scale"):
        assert lever in sections["LatencySLOBreach"], lever
        assert f"**{lever}" in text.split("\n## ")[0].lower(), lever
    for alert in ("ErrorRatioHigh", "LoadShed", "QueueSaturated"):
        assert "(#latencyslobreach)" in sections[alert] or "workers" in sections[alert], alert


def test_prometheus_scrapes_as_often_as_the_rules_assume(root: Path) -> None:
    config = yaml.safe_load((root / "prometheus/prometheus.yml").read_text())
    assert parse_duration(config["global"]["scrape_interval"]) == SCRAPE_SECONDS
    assert parse_duration(config["global"]["evaluation_interval"]) == SCRAPE_SECONDS
    assert config.keys() == {"global", "rule_files", "alerting", "scrape_configs"}
    for job in config["scrape_configs"]:
        assert job.keys() == {"job_name", "file_sd_configs"}
        [files] = [sd["files"] for sd in job["file_sd_configs"]]
        assert files == [f"targets/{job['job_name']}.yml"]
        assert (root / "prometheus" / files[0]).is_file()


@pytest.mark.parametrize(("thresholds"), [(), (0.05,), (0.0375, 0.3, 7.5)])
def test_edges_are_written_as_the_client_exposes_them(thresholds: tuple[float, ...]) -> None:
    """And as Prometheus 3 rewrites them on the way in: the shortest digits, ".0" on whole numbers, no exponent."""
    for edges in (duration_edges(*thresholds), batch_row_edges(1024)):
        registry = CollectorRegistry()
        Histogram("h", "h", buckets=edges, registry=registry).observe(0)
        text = generate_latest(registry).decode()
        exposed = [
            sample.labels["le"]
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "h_bucket"
        ]
        assert exposed == [*(edge_text(edge) for edge in edges), "+Inf"]
        assert all(re.fullmatch(r"\d+\.\d+", le) and str(float(le)) == le for le in exposed[:-1])


def test_every_le_in_a_rule_is_an_edge_of_the_histograms(root: Path) -> None:
    edges = {edge_text(edge) for edge in load(root / "slo.yaml").duration_edges}
    used = {le for rule in rules(root) for le in re.findall(r'le="([^"]*)"', rule["expr"])}
    assert used == {edge_text(service.threshold_seconds) for service in load(root / "slo.yaml").services} <= edges
