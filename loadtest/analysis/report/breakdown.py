"""Where the time of a request goes at the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loadtest.analysis.tuner import limit
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.trial import Measured
from loadtest.analysis.words import seconds_text, share_text


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a request's time."""

    stage: str  # as in `tuner.limit`
    css: str
    name: str
    meaning: str
    seconds: float
    share: float


PARTS: Final = (
    (limit.QUEUE, "queue", "queue", "waits for a free worker and for company"),
    (limit.MODEL, "model", "model", "the run of the batch that it is in"),
    (limit.REST, "rest", "HTTP and the rest", "reads, checks and writes"),
)


def at_the_answer(found: Found) -> tuple[Measured, ...]:
    """The trials of the chosen setting at its rate: the confirmations, or of a partial search those that passed."""
    if found.confirmations:
        return found.confirmations
    return tuple(
        trial
        for trial in found.trials
        if trial.ask.knobs == found.knobs and trial.rate == found.rate and trial.verdict == "PASS"
    )


def parts(trials: Sequence[Measured]) -> list[Part]:
    """Mean seconds of a request in each part, over the trials that know them; empty if none does."""
    means = [(part, mean) for part in PARTS if (mean := stage_mean(trials, part[0])) is not None]
    total = sum(mean for _, mean in means)
    return [Part(*part, seconds=mean, share=mean / total) for part, mean in means] if total else []


def stage_mean(trials: Sequence[Measured], name: str) -> float | None:
    """The mean of a stage over the trials that have it."""
    known = [trial.stages[name] for trial in trials if name in trial.stages]
    return sum(known) / len(known) if known else None


def besides(trials: Sequence[Measured]) -> str:
    """What the parts leave out, in a sentence: how busy both ends were, and what the client saw."""
    said = []
    service, generator = stage_mean(trials, limit.SERVICE_CPU), stage_mean(trials, limit.GENERATOR_CPU)
    if service is not None:
        said.append(f"the service's own process used {share_text(round(service, 2))} of a core")
    if generator is not None:
        said.append(f"the generator's busiest process {share_text(round(generator, 2))} of one")
    if trials:
        said.append(f"seen from the generator, half of the answers came within {seconds_text(trials[-1].p50)}")
    told = "; ".join(said)
    return f"{told[:1].upper()}{told[1:]}." if told else ""
