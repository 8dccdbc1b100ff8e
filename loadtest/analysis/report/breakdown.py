"""Where the time of a request goes at the answer, and what keeps the service from carrying more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loadtest.analysis.order import percentile_name
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.trial import Measured
from loadtest.analysis.words import seconds_text, setting_text, share_text

BUSY: Final = 0.8  # of the workers' time: above it the queue in front of them makes the tail
STARVED: Final = 0.85  # of a core: a generator that uses more has little left
WAITED: Final = 0.5  # of the longest wait, as the mean time in the queue: then it is the wait that is paid for
LARGE: Final = 0.4  # of a request's time


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a request's time."""

    stage: str
    name: str
    meaning: str
    seconds: float
    share: float


PARTS: Final = (
    ("queue", "queue", "waits for a free worker and for company"),
    ("model", "model", "the run of the batch that it is in"),
    ("rest", "rest of the service", "reads, checks and writes"),
    ("outside", "network and generator", "before and after the service"),
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


def limits(found: Found) -> list[str]:
    """What keeps the chosen setting from more, in sentences; empty where the parts of its time are not known."""
    trials = at_the_answer(found)
    said = []
    if found.kind == "generator_limited":
        said.append("The generator: it could not send more on time, so the service's own limit was not reached.")
    elif shares := {part.stage: part for part in parts(trials)}:
        said.append(_limit(found, trials, shares))
    cpu = stage_mean(trials, "generator_cpu")
    if cpu is not None and cpu > STARVED and found.kind != "generator_limited":
        said.append(f"The generator's busiest process used {share_text(round(cpu, 2))} of a core: it has little left.")
    return said


def _limit(found: Found, trials: Sequence[Measured], shares: dict[str, Part]) -> str:
    busy = stage_mean(trials, "model_busy")
    wait = found.knobs.max_wait_seconds if found.knobs is not None else 0.0
    threshold = setting_text(found.slo.threshold_seconds)
    if busy is not None and busy >= BUSY:
        run = (
            f", and a run takes {seconds_text(shares['model'].seconds)} of the {threshold}" if "model" in shares else ""
        )
        return (
            f"The model: its workers run {share_text(round(busy, 2))} of the time{run}. "
            "A faster model or another worker would carry more; a longer wait would not."
        )
    if wait and "queue" in shares and shares["queue"].seconds >= WAITED * wait:
        return (
            f"The wait: requests spend {seconds_text(shares['queue'].seconds)} in the queue, where they may be held "
            f"for {setting_text(wait)} to fill a batch, while the workers have time left."
        )
    largest = max(shares.values(), key=lambda part: part.share)
    percentile = percentile_name(found.slo.objective)
    idle = "" if busy is None else f", though the workers run only {share_text(round(busy, 2))} of the time"
    told = (
        f"{share_text(round(largest.share, 2))} of a request's time, {seconds_text(largest.seconds)}, goes there{idle}"
    )
    match largest.stage:
        case "queue":
            return f"The queue: {told}. Requests come in bursts, and {percentile} is set by those at a burst's end."
        case "model":
            return f"The model: {told}. What is slow in {percentile} is the run itself, not a queue before it."
        case "rest":
            return f"The service around the model: {told}. Reading and writing requests costs more than answering them."
        case _:
            return f"The way to the service: {told}. Neither the model nor its queue is at its limit."
