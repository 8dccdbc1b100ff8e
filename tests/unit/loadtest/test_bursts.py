"""The bursty recording that comes with the project is what its maker makes, and bursty."""

from pathlib import Path

import numpy as np

from loadtest.bursts import arrivals, as_csv
from loadtest.trace_file import read_trace


def test_the_file_is_what_the_program_writes(root: Path) -> None:
    assert (root / "loadtest/data/bursty.csv").read_text() == as_csv(arrivals())
    assert list(read_trace(str(root / "loadtest/data/bursty.csv")).instants) == arrivals()


def test_gaps_vary_far_more_than_those_of_poisson_arrivals() -> None:
    gaps = np.diff(arrivals())
    assert np.std(gaps) / np.mean(gaps) > 1.8  # 1 for Poisson
    assert arrivals(seed=5) != arrivals()
