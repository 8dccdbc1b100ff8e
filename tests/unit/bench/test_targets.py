"""Verdicts: what is met, what is not, and that what was not measured is never called met."""

import pytest

from bench.confirm import Confirmation
from bench.found import Found
from bench.large import Large
from bench.latency import Latency
from bench.metrics_cost import MetricsCost
from bench.open_loop import Answer
from bench.options import Options
from bench.overload import Overload
from bench.reading import Cell, Reading
from bench.servers import lineup
from bench.targets import at_least, at_most, ratio
from bench.throughput import Throughput


def cell(rate: float, p99: float, errors: int = 0, connections: int = 32) -> Cell:
    return Cell("any", connections, (Reading(round(rate) + errors, 1.0, errors, 0, p99 / 2, p99),))


def answer(**more: object) -> Answer:
    values: dict[str, object] = {
        "offered": 15_000,
        "dropped": 0,
        "good": 5_000,
        "refused": 10_000,
        "failed": 0,
        "good_latencies_within": {"1": 4_900},
        "latency_p50_seconds": 0.01,
        "latency_p99_seconds": 0.02,
        "lateness_p99_seconds": 0.001,
        "cpu_share": 0.5,
        **more,
    }
    return Answer(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "met", "margin"),
    [(None, "not measured", ""), (0.9, "yes", "+0.0%"), (0.99, "yes", "+10.0%"), (0.81, "no", "-10.0%")],
)
def test_at_least(value: float | None, met: str, margin: str) -> None:
    verdict = at_least("share", value, 0.9, "{:.2f} ×".format)
    assert (verdict.target, verdict.met, verdict.margin) == ("≥ 0.90 ×", met, margin)
    assert verdict.found == ("-" if value is None else f"{value:.2f} ×")


@pytest.mark.parametrize(
    ("value", "met", "margin"),
    [
        (None, "not measured", ""),
        (0.05, "yes", "0.0% to spare"),
        (-0.01, "yes", "6.0% to spare"),
        (0.08, "no", "3.0% too much"),
    ],
)
def test_at_most(value: float | None, met: str, margin: str) -> None:
    verdict = at_most("cost", value, 0.05, "{:.1%}".format)
    assert (verdict.target, verdict.met, verdict.margin) == ("≤ 5.0%", met, margin)


OURS = [cell(1000, 0.004), cell(9000, 0.04), cell(20_000, 0.06)]


@pytest.mark.parametrize(
    ("ours", "theirs", "met", "found"),
    [
        (OURS, [cell(4500, 0.05)], "yes", "2.00 × (9,000/s against 4,500/s)"),
        (OURS, [cell(5001, 0.01)], "no", "1.80 × (9,000/s against 5,001/s)"),
        (OURS, [cell(4500, 0.05), cell(9000, 0.051)], "yes", "2.00 × (9,000/s against 4,500/s)"),
        (OURS, [], "not measured", "peer was not measured"),
        ([], [cell(1, 0.01)], "not measured", "ours was not measured"),
        ([], [], "not measured", "ours was not measured"),
        (OURS, [cell(100, 0.01, errors=50)], "not measured", "peer was not measured"),
        ([cell(100, 0.01, errors=50)], [cell(1, 0.01)], "not measured", "ours was not measured"),
        (OURS, [cell(100, 0.2), cell(9, 0.1, connections=1)], "yes", "peer never keeps that p99, ours does"),
        (OURS, [cell(100, 0.2)], "undecided", "peer never kept that p99, but was not tried with one connection"),
        (
            OURS,
            [cell(100, 0.2), cell(9, 0.1, errors=9, connections=1)],
            "undecided",
            "peer never kept that p99, but was not tried with one connection",
        ),
        ([cell(100, 0.2)], [cell(1, 0.01)], "no", "ours never keeps that p99"),
        ([cell(100, 0.2)], [cell(100, 0.2)], "no", "ours never keeps that p99"),
    ],
)
def test_ratio(ours: list[Cell], theirs: list[Cell], met: str, found: str) -> None:
    verdict = ratio("sklearn", "peer", 0.05, 1.8, ours, theirs)
    assert (verdict.met, verdict.found) == (met, found)
    assert verdict.what == "requests/s at p99 ≤ 50 ms, sklearn, against peer"
    assert verdict.target == "≥ 1.8 ×"


def nothing_found(*peers: str) -> Found:
    return Found(Options(peers=peers), Throughput(lineup(("sklearn", "onnx"), peers), (1, 32)))


def test_nothing_measured_meets_nothing() -> None:
    verdicts = nothing_found("mosec", "ray").verdicts()
    assert {verdict.met for verdict in verdicts} == {"not measured"}
    assert [verdict.what for verdict in verdicts] == [
        "requests/s at p99 ≤ 50 ms, sklearn, against mosec",
        "requests/s at p99 ≤ 50 ms, sklearn, against mosec_lean",
        "requests/s at p99 ≤ 50 ms, sklearn, against ray",
        "requests/s at p99 ≤ 50 ms, onnx, against mosec_onnx",
        "requests/s at p99 ≤ 10 ms, onnx, against mosec_onnx",
        "p50 with one connection, added to the bare sklearn call",
        "p50 with one connection, added to the bare onnx call",
        "rows/s in requests of 512 rows, over the bare sklearn runtime",
        "rows/s in requests of 512 rows, over the bare onnx runtime",
        "cost of all metrics, of requests/s",
        "overload at 3 ×: 2xx inside the deadline, of the model's capacity",
        "overload at 10 ×: 2xx inside the deadline, of the model's capacity",
        "open-loop arrivals/s from one core, all sent, over FastHttpUser's closed loop",
        "dispatch lateness p99 at half of 1.3 × FastHttpUser's rate",
        "p99 against a server with known delays, off by",
        "memory over ten million requests, grown since the first million",
    ]


def test_parts_that_broke_off_half_way_meet_nothing() -> None:
    found = nothing_found("mosec")
    found.latencies = [Latency("onnx", "1 worker"), Latency("sklearn", "1 worker", served=[0.001])]
    found.larges = [Large("onnx", "1 worker"), Large("sklearn", "1 worker", served={2: []}, bare=[1000.0])]
    assert {verdict.met for verdict in found.verdicts()} == {"not measured"}


def test_the_better_setting_counts_and_is_named() -> None:
    found = nothing_found("mosec")
    found.latencies = [
        Latency("onnx", "1 worker", served=[0.0006, 0.0006], bare=[0.0001, 0.0001]),
        Latency("onnx", "0 workers", served=[0.0003, 0.0005, 0.00035], bare=[0.0002, 0.0001, 0.0001]),
        Latency("sklearn", "1 worker", served=[0.002], bare=[0.001]),
    ]
    found.larges = [
        Large("onnx", "1 worker", served={2: [900.0, 1000.0, 800.0], 3: [850.0]}, bare=[1000.0]),
        Large("onnx", "0 workers", served={2: [700.0]}, bare=[1000.0]),
    ]
    by_what = {verdict.what: verdict for verdict in found.verdicts()}
    added = by_what["p50 with one connection, added to the bare onnx call, 0 workers"]
    assert (added.found, added.met, added.margin) == ("0.25 ms", "yes", "0.05 ms to spare")
    slow = by_what["p50 with one connection, added to the bare sklearn call, 1 worker"]
    assert (slow.found, slow.met, slow.margin) == ("1.00 ms", "no", "0.50 ms too much")
    large = by_what["rows/s in requests of 512 rows, over the bare onnx runtime, 1 worker"]
    assert (large.found, large.met) == ("0.90 ×", "yes")


def test_a_service_quicker_than_its_model_is_noise() -> None:
    found = nothing_found("mosec")
    found.latencies = [Latency("sklearn", "1 worker", served=[0.003], bare=[0.005])]
    verdict = next(verdict for verdict in found.verdicts() if "bare sklearn call" in verdict.what)
    assert (verdict.found, verdict.met, verdict.margin) == ("-2.00 ms", "undecided", "too much noise")


def pairs(*costs: float) -> list[tuple[float, float]]:
    return [(100.0 - cost, 100.0) for cost in costs]


def test_the_cost_of_metrics_is_that_of_the_median_pair() -> None:
    assert MetricsCost(pairs(4, 50, 3)).cost == pytest.approx(0.04)
    assert MetricsCost().cost is None
    assert MetricsCost().interval is None


def test_the_interval_of_a_median_by_coin_tosses() -> None:
    assert MetricsCost(pairs(1, 2, 3, 4)).interval is None, "all four on one side happens in one of eight cases"
    assert MetricsCost(pairs(5, 1, 4, 2, 3)).interval == (pytest.approx(0.01), pytest.approx(0.05))
    twelve = MetricsCost(pairs(*range(12, 0, -1)))
    assert twelve.interval == (pytest.approx(0.03), pytest.approx(0.10)), "2 · (1 + 12 + 66) / 4096 = 3.9% outside"


@pytest.mark.parametrize(
    ("costs", "met", "margin"),
    [
        ((1, 2, 3, 4, 4.9), "yes", "2.0% to spare"),
        ((1, 2, 3, 4, 30), "undecided", "too much noise"),
        ((-64, 4), "undecided", "too much noise"),
        ((6, 7, 8, 9, 30), "no", "3.0% too much"),
        ((), "not measured", ""),
    ],
)
def test_noise_leaves_the_cost_of_metrics_undecided(costs: tuple[float, ...], met: str, margin: str) -> None:
    found = nothing_found("mosec")
    found.metrics_cost = MetricsCost(pairs(*costs))
    verdict = next(verdict for verdict in found.verdicts() if verdict.what.startswith("cost of all metrics"))
    assert (verdict.met, verdict.margin) == (met, margin)


def test_overload_counts_only_what_was_in_time() -> None:
    found = nothing_found("mosec")
    found.overloads = [Overload(3, 10.0, answer())]
    three, ten = (verdict for verdict in found.verdicts() if verdict.what.startswith("overload"))
    assert (three.found, three.met) == ("98.0%", "yes")
    assert ten.met == "not measured"
    found.overloads = [Overload(3, 10.0, answer(good_latencies_within={"1": 4_749}))]
    assert next(verdict for verdict in found.verdicts() if verdict.what.startswith("overload")).met == "no"


@pytest.mark.parametrize(("p99", "holds"), [(0.05, True), (0.0501, False), (None, False)])
def test_a_rate_is_confirmed_by_p99_over_all_arrivals(p99: float | None, holds: bool) -> None:
    assert Confirmation("onnx", "1 worker", 1000, 0.95, 5, answer(latency_p99_seconds=p99)).holds is holds


def test_complete_means_all_that_was_asked_for() -> None:
    found = nothing_found("mosec")
    assert found.complete
    found.throughput.failures["mosec sklearn wait 5 ms"] = "it did not answer"
    assert not found.complete
    found.throughput.failures.clear()
    found.interrupted = True
    assert not found.complete
