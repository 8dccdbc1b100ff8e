"""Numbers as people read them."""

import pytest

from slo.text import percent, seconds


@pytest.mark.parametrize(
    ("share", "text"), [(0.01, "1%"), (0.144, "14.4%"), (0.0005, "0.05%"), (1, "100%"), (1 - 0.999, "0.1%")]
)
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(("value", "text"), [(0.05, "50 ms"), (1, "1 s"), (1.5, "1.5 s"), (0.2 * 0.05, "10 ms")])
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text
