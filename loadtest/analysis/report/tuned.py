"""What `loadtest tune` leaves behind, each made purely from what was found: report.html, frontier.json, tuned.env."""

from typing import Final

from loadtest.analysis.frontier_file import About, FrontierError, dumps, loads
from loadtest.analysis.report import answer, breakdown, frontier_plots, goodput
from loadtest.analysis.report.axes import Figure
from loadtest.analysis.report.page import rendered
from loadtest.analysis.report.prices import prices
from loadtest.analysis.tuned_env import tuned_env
from loadtest.analysis.tuner.found import Found

__all__ = ["About", "FrontierError", "dumps", "html", "loads", "tuned_env"]


NEAR: Final = 1.15  # the factor around the answer's rate within which most of a search takes place
CROWDED: Final = 8  # trials in there that deserve a plot of their own


def html(found: Found, about: About, target_rate: float | None = None) -> str:
    """The report, one file that needs no network; with `target_rate` it says how many replicas carry that."""
    specs: dict[str, Figure] = {}
    priced = prices(found)
    frontiers = [frontier for frontier in found.frontiers if frontier.valid()]
    if frontiers:
        specs["frontier"] = frontier_plots.latency_by_throughput(found)
    if found.rate is not None:
        close = [trial for each in frontiers for trial in each.valid() if 1 / NEAR <= trial.rate / found.rate <= NEAR]
        if len(close) >= CROWDED:
            specs["near"] = frontier_plots.latency_by_throughput(found, NEAR)
    if any(each.passed_rate for each in frontiers) and len({each.knobs.max_batch_rows for each in frontiers}) > 1:
        specs["goodput"] = goodput.goodput_by_batch(found)
    if sum(price.rate is not None for price in priced) > 2:
        specs["price"] = goodput.price_curve(priced, found.slo.threshold_seconds)
    trials = breakdown.at_the_answer(found)
    return rendered(
        "tuned.html",
        specs,
        found=found,
        about=about,
        answer=answer,
        parts=breakdown.parts(trials),
        besides=breakdown.besides(trials),
        prices=priced,
        target_rate=target_rate,
    )
