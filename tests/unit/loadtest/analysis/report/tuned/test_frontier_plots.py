"""The plots of a search, by the values in them."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from loadtest.analysis.report.axes import Figure
from loadtest.analysis.report.frontier_plots import RateAxis, knee, latency_by_throughput
from loadtest.analysis.report.goodput import goodput_by_batch
from loadtest.analysis.report.prices import prices
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.frontier import Frontier
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Ask, Measured
from loadtest.analysis.verdict import Objective

FoundOf = Callable[[str], Found]


def points(figure: Figure) -> list[Figure]:
    return [trace for trace in figure["data"] if "error_y" in trace]


def test_every_valid_trial_is_a_point_hollow_if_it_failed(found_of: FoundOf) -> None:
    found = found_of("generator limited")
    figure = latency_by_throughput(found)
    valid = [trial for trial in found.trials if trial.verdict != "INVALID"]
    assert sum(len(trace["x"]) for trace in points(figure)) == len(valid) < len(found.trials)
    hollow = sum(color == "@card" for trace in points(figure) for color in trace["marker"]["color"])
    assert hollow == sum(trial.verdict == "FAIL" for trial in valid) > 0


def test_lost_ones_are_in_the_band_and_intervals_without_end_reach_it(found_of: FoundOf) -> None:
    found = found_of("chosen")
    figure = latency_by_throughput(found)
    (band,) = [shape for shape in figure["layout"]["shapes"] if shape["type"] == "rect"]
    top = 10 ** figure["layout"]["yaxis"]["range"][1]
    lowest = 10 ** figure["layout"]["yaxis"]["range"][0]
    edge = lowest * (top / lowest) ** band["y0"]
    drawn = [y for trace in points(figure) for y in trace["y"]]
    assert sum(y > edge for y in drawn) == sum(math.isinf(trial.p99) for trial in found.trials) > 0
    assert all(y < top for y in drawn)
    for trace in points(figure):
        for y, up, down in zip(trace["y"], trace["error_y"]["array"], trace["error_y"]["arrayminus"], strict=True):
            assert up >= 0
            assert lowest <= y - down
            assert y + up < top
    endless = [t for t in found.trials if math.isinf(t.p99_interval[1]) and math.isfinite(t.p99)]
    reaching = sum(
        y <= edge < y + up
        for trace in points(figure)
        for y, up in zip(trace["y"], trace["error_y"]["array"], strict=True)
    )
    assert reaching == len(endless) > 0


def test_the_chosen_point_and_the_knee_are_marked(found_of: FoundOf) -> None:
    found = found_of("chosen")
    figure = latency_by_throughput(found)
    words = {each["text"].split("</b>")[0].removeprefix("<b>"): each for each in figure["layout"]["annotations"]}
    assert set(words) == {"chosen", "knee"}
    assert f"{found.rate:,.0f}/s" in words["chosen"]["text"]
    (ring,) = [trace for trace in figure["data"] if trace.get("name") == "chosen"]
    assert ring["x"] == [found.rate]
    assert ring["y"] == [max(trial.p99 for trial in found.confirmations)]
    assert figure["data"][-4]["line"]["width"] > figure["data"][0]["line"]["width"]  # the chosen line is on top
    partial = latency_by_throughput(found_of("partial"))
    assert [each["text"].split("</b>")[0] for each in partial["layout"]["annotations"]] == ["<b>best"]


def test_near_the_answer_only_the_trials_around_it_are_drawn(found_of: FoundOf) -> None:
    found = found_of("chosen")
    assert found.rate is not None
    figure = latency_by_throughput(found, 1.1)
    close = [trial for trial in found.trials if found.rate / 1.1 <= trial.rate <= found.rate * 1.1]
    assert sum(len(trace["x"]) for trace in points(figure)) == len(close) > 8
    low, high = figure["layout"]["xaxis"]["range"]
    assert found.rate * 0.85 < low < found.rate < high < found.rate * 1.15


def test_batches_have_a_colour_each_and_waits_a_dash(found_of: FoundOf) -> None:
    figure = latency_by_throughput(found_of("chosen"))
    named = {key["name"]: key["color"] for key in figure["keys"]}
    colors = [named[str(size)] for size in (1, 2, 4, 8, 16, 32, 64, 128)]
    assert colors == [f"batch{n}" for n in range(8)]
    assert "wait: solid 0 s, dashed 5 ms" in named


def measured(rate: float, p99: float, *, knobs: Knobs, verdict: str | None = None, share: float = 1.0) -> Measured:
    held = "PASS" if p99 <= 0.05 else "FAIL"
    return Measured(
        Ask(knobs, rate, 10.0, 1.0, 1, "bracket"), verdict or held, (), round(rate * 10 * share), rate, rate, p99 / 3,
        p99 / 2, p99, (p99 * 0.9, p99 * 1.1), False, 12.0,
    )  # fmt: skip


ONE = Knobs(1, 0.0)
MANY = Knobs(32, 0.0)


def frontier(*trials: Measured) -> Frontier:
    return Frontier(ONE, 0.05, trials)


def test_the_knee_has_the_most_throughput_per_latency() -> None:
    low, bend, high = (measured(rate, p99, knobs=ONE) for rate, p99 in ((100, 0.01), (300, 0.012), (400, 0.04)))
    assert knee(frontier(low, bend, high)) is bend
    assert knee(frontier(bend, high)) is None  # two rates show no bend
    close = [measured(rate, 0.02, knobs=ONE) for rate in (300, 310, 320)]
    assert knee(frontier(*close)) is None
    failed = measured(900, 0.06, knobs=ONE)
    lost = measured(3000, math.inf, knobs=ONE)
    assert knee(frontier(low, bend, high, failed, lost)) is bend
    assert knee(frontier(failed, lost, measured(950, 0.07, knobs=ONE))) is None


def test_rates_that_are_far_apart_are_drawn_logarithmically() -> None:
    near, far = RateAxis([100, 300, 500]), RateAxis([10, 5000], marked=5000)
    assert not near.logarithmic
    assert near.layout()["range"][0] == 0
    assert far.logarithmic
    low, high = far.layout()["range"]
    assert low < 1
    assert (math.log10(5000) - low) / (high - low) <= 0.81  # room for words beside it
    assert far.place(100) == 2
    assert near.place(100) == 100


def test_goodput_is_the_largest_passed_rate_of_each_batch(found_of: FoundOf) -> None:
    found = found_of("chosen")
    (trace,) = goodput_by_batch(found)["data"]
    assert trace["x"] == [1, 2, 4, 8, 16, 32, 64, 128]
    for size, height, up in zip(trace["x"], trace["y"], trace["error_y"]["array"], strict=True):
        passed = max(f.passed_rate or 0 for f in found.frontiers if f.knobs.max_batch_rows == size)
        assert height == passed
        assert up > 0


def test_a_batch_that_only_failed_is_hollow_at_its_smallest_failed_rate() -> None:
    trials = (measured(100, 0.06, knobs=ONE), measured(100, 0.02, knobs=MANY), measured(200, 0.04, knobs=MANY))
    found = Found("partial", Objective(0.05, 0.99), trials, 1.0, knobs=MANY, rate=200.0)
    (trace,) = goodput_by_batch(found)["data"]
    assert trace["y"] == [100, 200]
    assert trace["error_y"]["arrayminus"] == [100, 0]  # it may carry anything below
    assert trace["marker"]["color"][0] == "@card" != trace["marker"]["color"][1]


def priced(*trials: Measured, rate: float = 300.0, knobs: Knobs = ONE) -> dict[float, tuple[float | None, bool]]:
    found = Found("partial", Objective(0.05, 0.99), trials, 1.0, knobs=knobs, rate=rate)
    return {price.threshold_seconds: (price.share, price.at_least) for price in prices(found)}


def test_a_price_is_read_off_straight_in_the_reciprocal_of_the_tail() -> None:
    # 1/p99 falls from 100 to 20 to 10 while the rate doubles twice.
    told = priced(*(measured(rate, p99, knobs=ONE) for rate, p99 in ((100, 0.01), (200, 0.05), (400, 0.1))), rate=200)
    assert told[0.02][0] == pytest.approx(0.5 * 2 ** ((100 - 50) / 80))
    assert told[0.01][0] == pytest.approx(0.5)
    assert told[0.005] == (None, False)
    assert told[0.05] == (1.0, False)
    assert told[0.1] == (pytest.approx(2.0), True)  # what a looser SLO gives was not searched for


def test_no_line_is_drawn_to_a_trial_that_was_cut_short() -> None:
    trials = [measured(200, 0.05, knobs=ONE), measured(400, 0.2, knobs=ONE, share=0.3)]
    assert priced(*trials, rate=200)[0.1] == (1.0, True)


def test_a_looser_threshold_never_keeps_less() -> None:
    small = [measured(100, 0.008, knobs=ONE), measured(290, 0.02, knobs=ONE), measured(400, 0.3, knobs=ONE)]
    large = [measured(300, 0.09, knobs=MANY), measured(302, 0.15, knobs=MANY)]
    shares = [share for share, _ in priced(*small, *large).values() if share is not None]
    assert shares == sorted(shares)
    assert len(shares) >= 4


def test_without_an_answer_there_are_no_prices(found_of: FoundOf) -> None:
    assert prices(found_of("cannot meet")) == []
    assert prices(replace(found_of("chosen"), rate=None, knobs=None)) == []
