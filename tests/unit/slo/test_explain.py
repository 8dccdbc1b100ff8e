"""What slo.yaml comes to, as a person reads it."""

from dataclasses import replace
from pathlib import Path

import pytest

from slo.config import SloFile, load
from slo.explain import explain
from slo.text import duration_words


@pytest.fixture
def slo(root: Path) -> SloFile:
    return load(root / "slo.yaml")


def test_the_shipped_file(slo: SloFile) -> None:
    text = explain(slo)
    assert "99% under 50 ms over 30 days = 7 h 12 min of budget" in text
    assert "At 10× burn (10% bad) a page after 30 s; by then 0.012% of the budget is gone." in text
    assert "Less than 1% bad never pages" in text
    assert "never with fewer than 100 requests in 2 min" in text
    [row] = [line.split() for line in text.splitlines() if line.split()[:1] == ["2%"]]
    assert row == ["2%", "2×", "15", "d", "1", "min", "20", "s", "never", "50", "s"]


def test_production_pages_by_pairs_of_windows(slo: SloFile) -> None:
    text = explain(replace(slo, services=(replace(slo.services[0], profile=slo.profiles[1]),)), [0.03])
    assert text.count(" burn) in ") == 4
    assert "over 14.4% (14.4× burn) in 5 min and in 1 h: a page" in text
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in text.splitlines() if "×   " in line}
    assert rows["2%"].startswith("2× 15 d never 1 d 12 h")
    assert rows["3%"].startswith("3× 10 d never 1 d ")
    assert rows["100%"].startswith("100× 7 h 12 min 9 min 35 s")
    assert "Less than 6% bad never pages" in text


def test_several_services_each_with_their_own_figures(slo: SloFile) -> None:
    other = replace(slo.services[0], job="embeddings", threshold_seconds=0.3, objective=0.9, window_days=7)
    text = explain(replace(slo, services=(*slo.services, other)))
    assert "embeddings (profile local)" in text
    assert "90% under 300 ms over 7 days = 16 h 48 min of budget: 10% of requests" in text
    assert text.count("Around the services") == 1


def test_every_alert_is_told_and_no_template_shows(slo: SloFile) -> None:
    text = explain(slo)
    assert "{{" not in text
    assert [line for line in text.splitlines() if line.endswith((" ", ";"))] == []
    for name in ("TargetDown", "InferenceTargetAbsent", "SLOBucketMissing", "ErrorRatioHigh", "QueueSaturated"):
        assert name in text
    for name in ("BatcherStalled", "LoadShed", "ClientServerGap", "LoadGeneratorInvalid", "Watchdog"):
        assert name in text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.4, "0.4 s"),
        (30, "30 s"),
        (80, "1 min 20 s"),
        (3600, "1 h"),
        (25920, "7 h 12 min"),
        (86399, "24 h"),
        (130000, "1 d 12 h"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words
