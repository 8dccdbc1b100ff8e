"""What a generator writes about its arrivals can be read while it writes, and after it was killed."""

import math
from pathlib import Path

import pytest

from loadtest.analysis.samples import End
from loadtest.sample_file import SampleFileError, SampleWriter, read_rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "worker-0.samples"


def test_a_row_is_there_from_the_moment_its_arrival_is_due(path: Path) -> None:
    writer = SampleWriter(path, worker=3)
    began, rows = read_rows(path)
    assert math.isnan(began)
    assert len(rows) == 0
    writer.start(9.5)
    first, second = writer.begin(10.0), writer.begin(11.0)
    writer.drop(12.0, 12.25)
    writer.end(second, 11.5, 11.75, End.FAILED)
    began, rows = read_rows(path)  # not closed: as if the process had been killed
    assert began == 9.5
    assert list(rows["scheduled"]) == [10.0, 11.0, 12.0]
    assert list(rows["end"]) == [End.IN_FLIGHT, End.FAILED, End.DROPPED]
    assert list(rows["worker"]) == [3, 3, 3]
    assert (rows["sent"][1], rows["done"][1]) == (11.5, 11.75)
    assert math.isnan(rows["sent"][2])
    assert rows["done"][2] == 12.25
    writer.end(first, 10.0, 13.0, End.OK)
    assert read_rows(path)[1]["done"][0] == 13.0


def test_many_rows_and_only_they_are_in_the_closed_file(path: Path) -> None:
    writer = SampleWriter(path)
    for number in range(200_000):
        writer.end(writer.begin(float(number)), number + 0.25, number + 0.5, End.OK)
    writer.close()
    writer.close()
    rows = read_rows(path)[1]
    assert len(rows) == 200_000
    assert path.stat().st_size < 200_000 * rows.dtype.itemsize + 100
    assert bool((rows["done"] == rows["scheduled"] + 0.5).all())


def test_what_is_no_file_of_samples_is_refused_in_a_sentence(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SampleFileError, match=r"worker-0.samples: No such file"):
        read_rows(path)
    path.write_bytes(b"something else, and long enough for a head")
    with pytest.raises(SampleFileError, match="holds no samples"):
        read_rows(path)
    writer = SampleWriter(path)
    writer.begin(1.0)
    writer.begin(2.0)
    writer.close()
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(SampleFileError, match="is cut off: 1 of 2 rows are left"):
        read_rows(path)
    with pytest.raises(SampleFileError, match="expected room for the samples"):
        SampleWriter(tmp_path / "missing" / "x.samples")
