"""wrk's report as numbers, and requests as scripts for it."""

from pathlib import Path

import pytest

from bench.wrk import Request, WrkError, command, parse, script

GOOD = """\
Running 3s test @ http://127.0.0.1:28000/predict
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     6.83ms    1.42ms  41.06ms   90.44%
    Req/Sec     9.42k   628.11    10.33k    73.33%
  Latency Distribution
     50%  6.61ms
     75%    7.12ms
     90%    7.93ms
     99%   11.02ms
  28119 requests in 3.00s, 7.21MB read
Requests/sec:   9361.25
Transfer/sec:      2.40MB
"""


def test_a_good_run() -> None:
    reading = parse(GOOD)
    assert (reading.requests, reading.seconds, reading.errors) == (28119, 3.0, 0)
    assert reading.p50_seconds == pytest.approx(0.00661)
    assert reading.p99_seconds == pytest.approx(0.01102)
    assert reading.good_per_second == pytest.approx(9373)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("870.00us", 0.00087), ("11.02ms", 0.01102), ("1.25s", 1.25), ("1.10m", 66.0), ("0.00us", 0.0)],
)
def test_units_of_latency(written: str, seconds: float) -> None:
    reading = parse(GOOD.replace("99%   11.02ms", f"99%   {written}"))
    assert reading.p99_seconds == pytest.approx(seconds)
    assert reading.p50_seconds == pytest.approx(0.00661), "the other line is untouched"


def test_a_run_of_minutes() -> None:
    assert parse(GOOD.replace("requests in 3.00s", "requests in 2.00m")).seconds == pytest.approx(120)


def test_replies_other_than_2xx_are_no_throughput() -> None:
    reading = parse(GOOD.replace("7.21MB read\n", "7.21MB read\n  Non-2xx or 3xx responses: 8119\n"))
    assert (reading.not_2xx, reading.socket_errors, reading.errors) == (8119, 0, 8119)
    assert reading.good_per_second == pytest.approx(20_000 / 3)


def test_socket_errors_and_timeouts_add_up() -> None:
    line = "  Socket errors: connect 1, read 20, write 300, timeout 4000\n"
    reading = parse(GOOD.replace("7.21MB read\n", "7.21MB read\n" + line + "  Non-2xx or 3xx responses: 5\n"))
    assert (reading.socket_errors, reading.not_2xx, reading.errors) == (4321, 5, 4326)


def test_without_a_reply_there_is_no_latency() -> None:
    text = GOOD.replace("28119 requests", "0 requests").replace("6.61ms", "0.00us").replace("11.02ms", "0.00us")
    reading = parse(text)
    assert reading.p50_seconds is None
    assert reading.p99_seconds is None
    assert reading.good_per_second == 0


@pytest.mark.parametrize("text", ["", "unable to connect to 127.0.0.1:1 Connection refused\n", "\x1b PANIC: lua"])
def test_what_is_no_report_is_refused_with_what_was_said(text: str) -> None:
    with pytest.raises(WrkError, match="wrk gave no report but said: ") as caught:
        parse(text)
    assert (text.strip()[:20] or "nothing") in str(caught.value)


def test_the_script_carries_any_byte() -> None:
    text = script(Request("/p", b'{"a"\n\x00\xff\\1', {"X-One": "1"}))
    assert text == (
        'wrk.method = "POST"\nwrk.headers["X-One"] = "1"\nwrk.body = "\\123\\034\\097\\034\\010\\000\\255\\092\\049"\n'
    )


def test_the_command_has_whole_seconds_and_one_thread() -> None:
    line = command(Path("/bin/wrk"), Path("/x.lua"), "http://127.0.0.1:1/p", 64, 0.4)
    assert line == ["/bin/wrk", "-t1", "-c64", "-d1s", "--latency", "-s", "/x.lua", "http://127.0.0.1:1/p"]
