"""What `loadtest tune` leaves behind, each made purely from what was found: report.html, frontier.json, tuned.env."""

from loadtest.analysis.frontier_file import About, FrontierError, dumps, loads
from loadtest.analysis.report import answer, breakdown, frontier_plots, trade
from loadtest.analysis.report.axes import Figure
from loadtest.analysis.report.page import rendered
from loadtest.analysis.tuned_env import tuned_env
from loadtest.analysis.tuner.found import Found

__all__ = ["About", "FrontierError", "dumps", "html", "loads", "tuned_env"]


def html(found: Found, about: About, target_rate: float | None = None) -> str:
    """The report, one file that needs no network; with `target_rate` it says how many replicas carry that."""
    specs: dict[str, Figure] = {}
    prices = trade.prices(found)
    if any(frontier.valid() for frontier in found.frontiers):
        specs["frontier"] = frontier_plots.latency_by_throughput(found)
        passed = any(frontier.passed_rate for frontier in found.frontiers)
        if passed and len({frontier.knobs.max_batch_rows for frontier in found.frontiers}) > 1:
            specs["goodput"] = frontier_plots.goodput_by_batch(found)
    if sum(price.rate is not None for price in prices) > 2:
        specs["price"] = frontier_plots.price_curve(prices, found.slo.threshold_seconds)
    return rendered(
        "tuned.html",
        specs,
        found=found,
        about=about,
        answer=answer,
        parts=breakdown.parts(breakdown.at_the_answer(found)),
        limits=breakdown.limits(found),
        prices=prices,
        headrooms=trade.HEADROOMS,
        replicas=_replicas(found, target_rate),
        target_rate=target_rate,
    )


def _replicas(found: Found, target_rate: float | None) -> list[trade.Replicas]:
    if not found.confirmed or found.rate is None:
        return []
    targets = [target_rate] if target_rate else trade.usual_targets(found.rate)
    return [trade.replicas(found.rate, target) for target in targets]
