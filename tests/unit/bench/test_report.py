"""The report's text, and that it says what was not measured."""

import json

import pytest

from bench import report
from bench.__main__ import as_json
from bench.confirm import Confirmation
from bench.found import Found
from bench.large import Large, request
from bench.latency import Latency
from bench.metrics_cost import MetricsCost
from bench.open_loop import Answer
from bench.options import Options
from bench.overload import Overload
from bench.reading import Reading
from bench.servers import lineup
from bench.table import table
from bench.throughput import Throughput
from bench.yardstick import Calibration


def reading(rate: int, p99: float, errors: int = 0) -> Reading:
    return Reading(3 * rate + errors, 3.0, errors, 0, p99 / 2, p99)


def answer(**more: object) -> Answer:
    values: dict[str, object] = {
        "offered": 4_000,
        "dropped": 10,
        "good": 3_900,
        "refused": 80,
        "failed": 10,
        "good_latencies_within": {"1": 3_890},
        "latency_p50_seconds": 0.01,
        "latency_p99_seconds": None,
        "lateness_p99_seconds": 0.006,
        "cpu_share": 0.5,
        **more,
    }
    return Answer(**values)  # type: ignore[arg-type]


@pytest.fixture
def found() -> Found:
    throughput = Throughput(lineup(("sklearn",), ("mosec",)), (1, 32))
    throughput.readings = {
        ("ours sklearn 1 worker", 1): [reading(200, 0.006), reading(220, 0.006)],
        ("ours sklearn 1 worker", 32): [reading(4000, 0.02), reading(6000, 0.03)],
        ("mosec sklearn wait 5 ms", 32): [reading(2000, 0.03), reading(2000, 0.03)],
        ("mosec sklearn wait 1 ms", 32): [reading(2500, 0.04), reading(2500, 0.04)],
        ("mosec_lean sklearn wait 5 ms", 32): [reading(9000, 0.04, errors=500), reading(9000, 0.04)],
    }
    return Found(Options(), throughput)


def line(text: str, start: str) -> list[str]:
    """The cells of the first table row that begins so."""
    row = next(row for row in text.splitlines() if row.startswith(f"| {start}"))
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_a_table_is_aligned() -> None:
    assert table(("name", "n"), [("a", "1"), ("longer", "1,000")]) == (
        "| name   |     n |\n| ------ | ----: |\n| a      |     1 |\n| longer | 1,000 |"
    )


def test_cells_are_medians_with_spread_and_errors(found: Found) -> None:
    text = report.text(found, "a machine")
    rows = [line(row, "ours, 1 worker") for row in text.splitlines() if row.startswith("| ours, 1 worker")]
    assert rows[1] == ["ours, 1 worker", "", "32", "5,000", "12.50 ms", "25.00 ms", "40%"]
    row = line(text, "mosec_lean, wait 5 ms")
    assert row == ["mosec_lean, wait 5 ms", "500 errors, does not count", "32", "9,000", "20.00 ms", "40.00 ms", "0%"]


def test_the_better_setting_of_each_stands_for_it(found: Found) -> None:
    best = report.best_table(found.throughput, found.throughput.servers)
    assert line(best, "ours") == ["ours", "5,000 (1 worker, c=32)", "", "210 (1 worker, c=1)", ""]
    assert line(best, "mosec ") == ["mosec", "2,500 (wait 1 ms, c=32)", "2.00 ×", "never", "-"]
    assert line(best, "mosec_lean") == ["mosec_lean", "never", "-", "never", "-"]


def test_targets_say_met_missed_or_not_measured(found: Found) -> None:
    text = report.targets_table(found.verdicts())
    mosec = line(text, "requests/s at p99 ≤ 50 ms, sklearn, against mosec ")
    assert mosec[1:] == ["≥ 1.8 ×", "2.00 × (5,000/s against 2,500/s)", "yes", "+11.1%"]
    assert line(text, "requests/s at p99 ≤ 50 ms, sklearn, against mosec_lean")[3] == "not measured"
    assert line(text, "cost of all metrics")[1:] == ["≤ 5.0%", "-", "not measured", ""]


def test_a_run_that_was_cut_short_says_so_first(found: Found) -> None:
    assert "Interrupted" not in report.text(found, "a machine")
    found.interrupted = True
    assert report.text(found, "a machine").startswith(
        "# Bench: ours beside peers\n\n**Interrupted: this is what had been measured by then.**\n\na machine\n"
    )


def test_before_anything_was_measured_there_is_a_report_all_the_same() -> None:
    text = report.text(Found(Options(), Throughput(lineup(("sklearn",), ("mosec",)), (1,))), "a machine")
    assert "## One row" not in text
    assert "| yes " not in text


def test_failures_are_named_with_their_reason(found: Found) -> None:
    found.throughput.failures["mosec sklearn wait 5 ms"] = "it did not answer within 120 s"
    assert "## Not measured\n\n**mosec sklearn wait 5 ms**: it did not answer within 120 s\n" in report.text(found, "-")


def test_slow_moments_are_marked(found: Found) -> None:
    quick, slow = Calibration(0.005, 0.001), Calibration(0.005, 0.0013)
    found.calibrations = [("a", quick), ("b", quick), ("ours sklearn 1 worker c=32", slow)]
    text = report.text(found, "a machine")
    assert line(text, "ours, 1 worker        | slow moment")[2] == "32"
    assert sum("| slow moment" in row for row in text.splitlines()) == 1
    assert "1 of them found the machine more than 25% slower than usual" in text
    assert "moved by 0% (median), 40% at most" in text


def test_pinned_or_not_is_said(found: Found) -> None:
    assert "Nothing is pinned" in report.text(found, "-")
    found.options = Options(pin=True)
    assert "The generator is pinned to the first CPU" in report.text(found, "-")


def test_the_other_parts(found: Found) -> None:
    found.confirmations = [Confirmation("sklearn", "1 worker", 5000, 0.8, 1.0, answer())]
    found.latencies = [Latency("onnx", "0 workers", served=[0.0004], bare=[0.0001]), Latency("onnx", "1 worker")]
    found.larges = [Large("onnx", "0 workers", served={2: [900.0], 3: [950.0]}, bare=[1000.0], errors=7)]
    found.metrics_cost = MetricsCost([(96.0, 100.0), (98.0, 100.0)])
    found.overloads = [Overload(3, 10.0, answer())]
    text = report.text(found, "a machine")
    assert line(text, "sklearn, 1 worker") == [
        "sklearn, 1 worker", "p99 beyond its bound, the client was late", "4,000 (80%)",
        "4,000", "3,990", "3,900", "10.00 ms", "-", "6.00 ms", "50%",
    ]  # fmt: skip
    assert line(text, "onnx, 0 workers") == ["onnx, 0 workers", "0.40 ms", "0.10 ms", "0.30 ms"]
    assert line(text, "onnx, 0 workers | 7")[1:] == ["7 errors, in runs left out", "3", "950", "1,000", "0.95 ×"]
    assert "Metrics take 3.0%, the median of 2 pairs taken in turns (too few to say how certain)." in text
    assert line(text, "3 ×")[1:8] == ["4,000", "3,890", "10", "80", "10", "10", "77.8%"]


def test_everything_is_in_the_json_too(found: Found) -> None:
    found.overloads = [Overload(3, 10.0, answer())]
    values = json.loads(json.dumps(as_json(found, "a machine")))
    assert values["throughput"][1]["readings"][1]["requests"] == 18_000
    assert values["overload"][0]["answer"]["latency_p99_seconds"] is None
    assert {target["met"] for target in values["targets"]} == {"yes", "no", "not measured"}


def test_a_large_request_is_json_and_then_its_bytes() -> None:
    asked = request()
    length = int(asked.headers["Inference-Header-Content-Length"])
    head, tail = json.loads(asked.body[:length]), asked.body[length:]
    assert len(tail) == 512 * 20 * 4 == head["inputs"][0]["parameters"]["binary_data_size"]
