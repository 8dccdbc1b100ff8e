"""Files of rows and bodies: what is read, and what is said of a bad one."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from loadtest import data_file
from loadtest.data_file import read_bodies, read_rows, shipped_files
from loadtest.rows import RowsError

Write = Callable[[str, str | bytes], str]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    def write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3) / 7,
        (np.arange(6).reshape(2, 3) / 7).astype(np.float32),
        (np.arange(6).reshape(2, 3) / 7).astype(np.float16),
        np.arange(24, dtype=np.int64).reshape(2, 3, 4),
        np.arange(6, dtype=np.uint8).reshape(3, 2),
        np.arange(6, dtype=">i4").reshape(3, 2),
        np.arange(6, dtype=">f8").reshape(2, 3).T,
        np.array([[True, False]]),
    ],
    ids=lambda array: f"{array.dtype.str} {array.shape}",
)
def test_a_npy_files_first_axis_counts_rows(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", array)
    rows = read_rows(str(tmp_path / "a.npy"))
    back = np.array([json.loads(row) for row in rows]).astype(array.dtype)
    assert np.array_equal(back, array)
    assert not any(" " in row for row in rows)


def test_a_csv_has_numbers_with_or_without_names(written: Write) -> None:
    assert read_rows(written("a.csv", "a,b\n1,2.50\n\n-3,+4\n5.,1e3\n")) == ("[1,2.50]", "[-3,4.0]", "[5.0,1e3]")
    assert read_rows(written("a.csv", "\ufeff1, 2\r\n")) == ("[1,2]",)
    for row in read_rows(written("a.csv", "01,.5,1_0\n")):
        assert json.loads(row) == [1, 0.5, 10]


def test_a_jsonl_file_has_an_instance_in_each_line(written: Write) -> None:
    assert read_rows(written("a.jsonl", '[1, 2]\n\n{"x": [3], "y": "é"}\n7\n')) == ("[1,2]", '{"x":[3],"y":"é"}', "7")


def test_bodies_are_sent_as_they_are(written: Write) -> None:
    assert read_bodies(written("a.jsonl", b'{"a": 1}\r\n\n{ "b":2}\n')) == (b'{"a": 1}', b'{ "b":2}')
    assert read_bodies(written("a.bin", b"\x00\xff\n\n")) == (b"\x00\xff\n\n",)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.npy", b"no", " is no .npy file of numbers; expected one written by numpy.save"),
        ("a.npy", b"", " is no .npy file of numbers; expected one written by numpy.save"),
        ("a.csv", "", " has no rows; expected numbers with commas between them"),
        ("a.csv", "a,b\n", " has no rows; expected"),
        ("a.csv", "a,b\n1,2,3\n", ", line 2 has 3 columns; expected 2, as in the lines before"),
        ("a.csv", "1,2\n1,x\n", ", line 2, column 2 is 'x'; expected a finite number"),
        ("a.csv", "a,1\n", ", line 1, column 1 is 'a'; expected a finite number"),
        ("a.csv", "1\ninf\n", ", line 2, column 1 is 'inf'; expected a finite number"),
        ("a.csv", '1\n"2\n', ", line 2 is no line of a CSV"),
        ("a.csv", b"\xff", " is no text (byte 0); expected UTF-8"),
        ("a.jsonl", "", " has no rows; expected one instance a line"),
        ("a.jsonl", "[1]\n[NaN]\n", ", line 2 is no JSON"),
        ("a.txt", "1\n", " has no known ending; expected .npy, .csv, .jsonl"),
    ],
)
def test_bad_rows_are_one_sentence(written: Write, name: str, content: str | bytes, sentence: str) -> None:
    path = written(name, content)
    with pytest.raises(RowsError) as caught:
        read_rows(path)
    assert str(caught.value).startswith(f"data {path}{sentence}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros(3), "has float64 of shape [3]; expected numbers with at least two axes, rows first"),
        (np.zeros((0, 3)), "has float64 of shape [0, 3]; expected numbers"),
        (np.zeros((2, 2), dtype=complex), "has complex128 of shape [2, 2]; expected numbers"),
        (np.array([["a"]]), "has <U1 of shape [1, 1]; expected numbers"),
        (np.array([[1, 2], [3, np.nan]]), ": row 2 is not finite; expected numbers JSON has"),
    ],
)
def test_an_array_that_is_no_rows(tmp_path: Path, array: np.ndarray, sentence: str) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(RowsError) as caught:
        read_rows(str(tmp_path / "a.npy"))
    assert sentence in str(caught.value)


def test_no_file_can_run_code(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[object()]], dtype=object), allow_pickle=True)
    with pytest.raises(RowsError, match=r"is no \.npy file of numbers"):
        read_rows(str(tmp_path / "a.npy"))


@pytest.mark.parametrize("name", ["none.npy", "none.csv", "none.jsonl"])
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(RowsError, match=rf"^data .*{name} cannot be read: No such file or directory; expected"):
        read_rows(str(tmp_path / name))
    with pytest.raises(RowsError, match=rf"^body_file .*{name} cannot be read: No such file or directory; expected"):
        read_bodies(str(tmp_path / name))


def test_files_are_bounded(written: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(data_file, "MOST_ROWS", 2)
    np.save(tmp_path / "a.npy", np.zeros((5, 1)))
    paths = [str(tmp_path / "a.npy"), written("a.csv", "1\n2\n3\n"), written("a.jsonl", "1\n2\n3\n")]
    assert [len(read_rows(path)) for path in paths] == [2, 2, 2]
    monkeypatch.setattr(data_file, "MOST_BYTES", 3)
    with pytest.raises(RowsError, match=r"has 6 bytes; expected at most 3"):
        read_rows(paths[1])
    with pytest.raises(RowsError, match="is empty; expected a body"):
        read_bodies(written("a.jsonl", "\n"))


def test_files_that_come_with_the_project() -> None:
    assert set(shipped_files()) >= {f"loadtest/data/{name}" for name in ("bodies.jsonl", "bursty.csv", "digits.csv")}
