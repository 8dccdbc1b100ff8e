"""A run is watched through the samples that its generators write."""

import math
from pathlib import Path

import pytest

from loadtest.analysis.samples import End
from loadtest.run.watch import Watch
from loadtest.sample_file import SampleWriter


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def writer(folder: Path, name: str = "a") -> SampleWriter:
    made = SampleWriter(folder / f"{name}.samples")
    made.start(100.0)
    return made


def test_before_any_generator_writes_there_is_nothing(folder: Path) -> None:
    standing = Watch(folder, 0.05).look(100.0)
    assert not standing.started
    assert standing.offered == standing.in_flight == 0
    assert math.isnan(standing.p99)


def test_counts_are_exact_over_several_looks_and_files(folder: Path) -> None:
    first, second = writer(folder), writer(folder, "b")
    watch = Watch(folder, 0.05)
    rows = [first.begin(101.0), first.begin(101.1)]
    second.drop(101.2, 101.2)
    standing = watch.look(102.0)
    assert (standing.offered, standing.in_flight, standing.dropped, standing.completed) == (3, 2, 1, 0)
    assert standing.oldest_seconds == pytest.approx(1.0)
    first.end(rows[1], 101.1, 101.12, End.OK)
    third = first.begin(102.0)
    assert watch.look(102.5).completed == 1  # although the one before it is still open
    first.end(rows[0], 101.0, 103.0, End.TIMED_OUT)
    first.end(third, 102.0, 102.01, End.OK)
    standing = watch.look(104.0)
    assert (standing.offered, standing.completed, standing.failed, standing.dropped) == (4, 2, 1, 1)
    assert standing.in_flight == 0
    assert standing.oldest_seconds == 0
    assert standing.elapsed_seconds == pytest.approx(4.0)


def test_the_load_is_over_when_the_last_generator_is_through(folder: Path) -> None:
    writer(folder).start(100.0)
    writer(folder, "b").start(100.4)
    assert Watch(folder, 0.05).look(110.0).elapsed_seconds == pytest.approx(9.6)


def test_what_is_recent_counts_lost_arrivals_as_infinite_and_those_in_flight_by_their_age(folder: Path) -> None:
    samples = writer(folder)
    watch = Watch(folder, threshold_seconds=0.05, recent_seconds=5.0)
    samples.end(samples.begin(101.0), 101.0, 101.9, End.OK)  # slow, and long ago at the second look
    for number in range(97):
        samples.end(samples.begin(110 + number / 100), 110 + number / 100, 110.01 + number / 100, End.OK)
    samples.begin(111.0)
    samples.begin(111.5)
    samples.drop(111.6, 111.7)
    assert watch.look(102.0).p99 == pytest.approx(0.9)
    standing = watch.look(112.0)
    assert standing.recent_offered == 100
    assert standing.recent_completed == standing.recent_good == 97
    assert standing.recent_bad == 3
    assert standing.p50 == pytest.approx(0.01)
    assert standing.p99 == pytest.approx(1.0)  # the older of the two that wait
    assert standing.lateness_p99 == pytest.approx(0.1)  # of the drop
    samples.drop(112.0, 112.0)
    assert watch.look(112.1).p99 == math.inf  # two of 101


def test_many_rows_that_are_no_longer_recent_are_stepped_over(folder: Path) -> None:
    samples = writer(folder)
    for number in range(20_000):
        samples.end(samples.begin(100 + number / 1000), 0.0, 100.001 + number / 1000, End.OK)
    standing = Watch(folder, 0.05, 5.0).look(120.0)
    assert standing.recent_offered == 5000
    assert standing.offered == standing.completed == 20_000
