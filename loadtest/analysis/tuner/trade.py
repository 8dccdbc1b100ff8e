"""What a tighter or a looser objective costs or gives, from what was measured on the way."""

from collections.abc import Iterable
from dataclasses import dataclass

from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Measured
from loadtest.analysis.words import rate_text, setting_text, share_text


@dataclass(frozen=True, slots=True)
class Trade:
    """The largest rate that was measured with its percentile within `threshold_seconds`, of any setting."""

    threshold_seconds: float
    rate: float
    knobs: Knobs
    share: float  # of the rate that was found for the objective

    def told(self) -> str:
        kept = "you keep" if self.share <= 1 else "you get"
        return (
            f"At {setting_text(self.threshold_seconds)} {kept} {share_text(self.share)}: {rate_text(self.rate)}/s "
            f"with {self.knobs.told()}."
        )


def trade(trials: Iterable[Measured], rate: float, threshold_seconds: float) -> Trade | None:
    """For another threshold; None where no trial was as fast. One trial each: an indication, not confirmed."""
    fast = [
        trial
        for trial in trials
        if trial.verdict != "INVALID"
        and not trial.ended_early
        and not trial.backlog_grows
        and trial.p99 <= threshold_seconds
    ]
    if not fast:
        return None
    best = max(fast, key=lambda trial: (trial.rate, [-size for size in trial.ask.knobs.size]))
    return Trade(threshold_seconds, best.rate, best.ask.knobs, best.rate / rate)
