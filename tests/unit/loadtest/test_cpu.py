"""CPU share by two fake clocks."""

import pytest

from loadtest.cpu import CpuShare


def test_shares_of_a_core() -> None:
    wall, cpu = [100.0], [5.0]
    share = CpuShare(lambda: wall[0], lambda: cpu[0])
    assert (share.recent(), share.of_run()) == (0.0, 0.0)
    wall[0], cpu[0] = 104.0, 6.0
    share.begin()
    wall[0], cpu[0] = 106.0, 7.0
    assert share.recent() == 0.5
    wall[0], cpu[0] = 106.5, 7.5
    assert share.recent() == 0.5  # too soon after the last look to say anything new
    wall[0], cpu[0] = 108.0, 9.0
    assert share.recent() == pytest.approx(1.0)
    assert share.of_run() == pytest.approx(0.75)
