"""Recordings of arrivals: what is read of them, and what is said of a bad one."""

from pathlib import Path

import pytest

from loadtest import trace_file
from loadtest.arrivals import Plan, Schedule, constant
from loadtest.trace_file import TraceError, read_trace


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str | bytes) -> str:
        path = tmp_path / "trace.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


@pytest.mark.parametrize(
    ("text", "instants"),
    [
        ("0\n0.5\n0.5\n3\n", [0, 0.5, 0.5, 3]),
        ("10.25\n10.5", [0, 0.25]),  # from the first on
        ("3\n1\n2\n", [0, 1, 2]),  # in order
        ("seconds\n1e1\n1.5e1\n", [0, 5]),
        ("\ufeffid,Seconds,x\r\n7,1,a\r\n\r\n8,4,b\r\n", [0, 3]),  # a spreadsheet's file
        ("# made up\ntime\n1\n# and on\n2\n", [0, 1]),
        ('TIMESTAMP,n\n"2023-11-16 18:17:03.9799600",5\n2023-11-16 18:17:04.0319601,6\n', [0, 0.0520001]),
        ("timestamp\n2023-11-16T18:17:03Z\n2023-11-16T18:17:05.5Z\n", [0, 2.5]),
        ("timestamp\n2023-11-16T18:17:03+01:00\n2023-11-16T17:17:03.000000001Z\n", [0, 1e-9]),
        ("2024-02-28 23:59:59\n2024-02-29 00:00:01\n", [0, 2]),
        ("time\n1700000000.25\n1700000000.75\n", [0, 0.5]),
    ],
)
def test_instants_count_from_the_first_arrival(written, text: str, instants: list[float]) -> None:
    assert list(read_trace(written(text)).instants) == pytest.approx(instants, rel=1e-12, abs=1e-15)


def test_replay_reproduces_the_gaps_of_a_recording_with_seven_digits(written) -> None:
    """To the recording's own step, 100 ns, in an hour: seconds since 1970 as floats would lose them."""
    ticks = [0, 520_000, 981_900, 10**7, 10**7 + 1, 36 * 10**9 - 1]
    lines = [
        f"2023-11-16 {18 + t // 36_000_000_000}:{t // 600_000_000 % 60:02}:{t // 10**7 % 60:02}.{t % 10**7:07}"
        for t in ticks
    ]
    trace = read_trace(written("TIMESTAMP\n" + "\n".join(lines)))
    schedule = Schedule(Plan(constant(1), trace=trace), 0.0)
    assert [round(schedule.take() * 1e7) for _ in ticks] == ticks


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", " has no arrivals; expected a CSV with a column timestamp, time or seconds, or one number"),
        ("seconds\n\n# none\n", " has no arrivals; expected"),
        ("when,what\n1,2\n", ", line 1: the columns are 'when, what'; expected a CSV with a column"),
        ("when\n1\n", ", line 1: 'when' is no instant; expected seconds"),
        ("1\n2\nx\n", ", line 3: 'x' is no instant; expected seconds"),
        ("1\nnan\n", ", line 2: 'nan' is no instant; expected seconds"),
        ("1\n1e300\n", ", line 2: '1e300' is no instant; expected seconds"),
        ("a,time\n1,2\n3\n", ", line 3: '' is no instant; expected seconds"),
        ("time\n2023-11-16 18:17:03\n5\n", ", line 3: '5' is no instant; expected a date and time, as in the lines"),
        ("time\n2023-11-16 18:17:03\n2023-13-16 18:17:03\n", ", line 3: '2023-13-16 18:17:03' is no instant"),
        ('time\n"2\n', ", line 2 is no line of a CSV: "),
        (b"\xff\xfe1\n", " is no text; expected"),
    ],
)
def test_a_bad_recording_is_one_sentence(written, text: str | bytes, sentence: str) -> None:
    path = written(text)
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert f"trace {path}{sentence}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read: No such file or directory; expected a CSV"):
        read_trace(str(tmp_path / "none"))
    with pytest.raises(TraceError, match="cannot be read: Is a directory"):
        read_trace(str(tmp_path))


def test_arrivals_are_bounded(written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "MOST_ARRIVALS", 3)
    assert len(read_trace(written("1\n2\n3\n"))) == 3
    assert len(read_trace(written("time\n1\n2\n3\n\n"))) == 3
    for text, line in [("1\n2\n3\n4\n", 4), ("time\n1\n2\n3\n4\n", 5)]:
        with pytest.raises(TraceError, match=f"line {line}: there are more than 3 arrivals"):
            read_trace(written(text))


def test_an_unchanged_file_is_read_once(written) -> None:
    first = read_trace(written("1\n2\n"))
    assert read_trace(written("1\n2\n5\n")) != first
    assert read_trace(written("1\n2\n5\n6\n7\n")) is not first
