"""How long until an alert fires and clears, by arithmetic that a person can redo. promtool judges it in tests/ops."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.config import Service, load
from slo.delays import Limit, Watch, clears_after, fires_after, watches


@pytest.fixture(scope="module")
def local(root: Path) -> Service:
    return load(root / "slo.yaml").services[0]


@pytest.fixture(scope="module")
def production(root: Path) -> Service:
    slo = load(root / "slo.yaml")
    return replace(slo.services[0], profile=slo.profiles[1])


def test_the_alerts_on_shares_of_requests_are_read_from_the_rules(local: Service, production: Service) -> None:
    found = {watch.alert: watch for watch in watches(local)}
    assert found.keys() == {"LatencySLOBreach", "ErrorRatioHigh", "LoadShed"}
    assert found["LatencySLOBreach"] == Watch(
        "LatencySLOBreach", "page", (Limit(30, 0.01, 5), Limit(120, 0.01, 5)), 100, 120, 15, 30
    )
    burning = [watch.limits for watch in watches(production) if watch.alert == "LatencySLOBreach"]
    assert burning[0] == (Limit(300, 0.144, 5), Limit(3600, 0.144, 60))
    assert burning[3] == (Limit(21600, 0.01, 60), Limit(259200, 0.01, 60))


@pytest.mark.parametrize(
    ("share", "seconds"),
    [
        (0.005, None),
        (0.01, None),  # on the limit is not over it
        (0.02, 80),  # 13 of 24 scrapes at 2% are over 1%, then 15 s
        (0.1, 30),  # 3 of 24, then 15 s
        (1.0, 20),  # the first scrape, then 15 s
    ],
)
def test_a_breach_of_the_local_profile_fires_after(local: Service, share: float, seconds: int | None) -> None:
    assert fires_after(watches(local)[0], share) == seconds


def test_a_slow_window_adds_its_own_interval(production: Service) -> None:
    """All bad: 14.4% of an hour is 520 s, one scrape more, and the hour is computed once a minute."""
    assert fires_after(watches(production)[0], 1.0) == 520 + 60 - 5
    assert fires_after(watches(production)[0], 1.0, step_seconds=60) == 540


def test_it_clears_when_the_short_window_is_nearly_clean_and_it_was_kept_for_long_enough(local: Service) -> None:
    assert clears_after(watches(local)[0], 1.0) == 30 + 30
    assert clears_after(watches(local)[0], 0.02) == 20 + 30  # two of the six scrapes may still be bad


@given(st.floats(0.001, 1), st.floats(0.001, 1))
def test_the_worse_it_is_the_sooner_it_fires_and_the_later_it_clears(one: float, other: float) -> None:
    watch = Watch("A", "page", (Limit(30, 0.05, 5), Limit(120, 0.05, 5)), 100, 120, 15, 30)
    low, high = sorted((one, other))
    slow, fast = fires_after(watch, low), fires_after(watch, high)
    assert (slow is None) == (low <= 0.05)
    if slow is not None and fast is not None:
        assert fast <= slow <= 120 + 15
        assert clears_after(watch, low) <= clears_after(watch, high) <= 30 + 30
