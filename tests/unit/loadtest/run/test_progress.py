"""What is shown while a run goes on."""

import io
import math
from dataclasses import replace

from loadtest.run.progress import Progress, line
from loadtest.run.watch import Standing

STANDING = Standing(
    elapsed_seconds=12.0,
    offered=6000,
    completed=5900,
    failed=7,
    dropped=2,
    in_flight=4,
    oldest_seconds=0.03,
    recent_seconds=5.0,
    recent_offered=2500,
    recent_completed=2490,
    recent_good=2490,
    recent_bad=10,
    p50=0.004,
    p95=0.008,
    p99=0.0123,
    lateness_p99=0.0004,
)


def test_the_numbers_that_matter_are_in_the_line() -> None:
    text = line(STANDING, seconds=60, warmup_seconds=5, rate=500, threshold_seconds=0.05)
    parts = (
        "48 s left",
        "500",
        "498",
        "p99 12.3 ms",
        "50.0 ms ✓",
        "4 in flight, oldest 30.0 ms",
        "7 failed, 2 dropped",
    )
    for part in parts:
        assert part in text
    assert "warm-up" not in text


def test_a_breach_a_loss_and_the_warm_up_show() -> None:
    lost = replace(STANDING, elapsed_seconds=3.0, p99=math.inf)
    text = line(lost, seconds=60, warmup_seconds=5, rate=math.nan, threshold_seconds=0.05)
    assert text.startswith("warm-up, 57 s left")
    assert "✗" in text
    assert "closed loop" in text
    assert "∞" in text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_line_and_a_file_one_every_few_seconds() -> None:
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        progress = Progress(stream, columns=20)
        for second in range(11):
            progress.show(f"at {second} and so much more that it does not fit", float(second))
        progress.end()
    assert "\n" not in terminal.getvalue()
    assert "at 10 and so much m\r" in terminal.getvalue().replace("\x1b[K", "")
    assert [each[:5] for each in file.getvalue().splitlines()] == ["at 0 ", "at 5 ", "at 10"]
