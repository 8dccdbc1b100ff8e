"""What stands in the way of more, in words, from where the time of a trial went.

The live side fills `Measured.stages` with what it knows; every name may be missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Measured
from loadtest.analysis.words import rate_text, seconds_text, setting_text, share_text

QUEUE: Final = "queue_seconds"  # mean, from enqueue until the batch goes
MODEL: Final = "model_seconds"  # mean, of the batch a request was in
REST: Final = "rest_seconds"  # mean of all else: HTTP, parsing, the way there and back
GENERATOR_CPU: Final = "generator_cpu_share"  # of one core
SERVICE_CPU: Final = "service_cpu_share"  # of one core, the process that serves HTTP
BATCH_ROWS: Final = "batch_rows"  # mean
MODEL_WORKERS: Final = "model_workers"  # how many run the model at once, where that is no knob
ROWS_PER_REQUEST: Final = "rows_per_request"  # mean; 1 where missing
FIXED: Final = "cost_fixed_seconds"  # the learned b of b + a·rows
PER_ROW: Final = "cost_per_row_seconds"  # the learned a

BUSY: Final = 0.85  # of the time: a model that works so much is the limit, and the queue before it only follows
FULL_CPU: Final = 0.9
CLEARLY: Final = 1.05  # times as much; less is a tie
NO_FIXED_COST: Final = 0.05  # b/(a+b): what merging two requests can save at the most is less than the tie

Limiting = Literal["wait", "queue", "model", "HTTP", "generator", "unknown"]


@dataclass(frozen=True, slots=True)
class Limit:
    """What limits the throughput, and a sentence that says why."""

    what: Limiting
    told: str


def model_busy_share(trial: Measured) -> float | None:
    """Share of its time that a model worker computes (utilisation law: batches per second × seconds each).

    None where times or the number of workers are not known.
    """
    stages = trial.stages
    workers = trial.ask.knobs.workers or stages.get(MODEL_WORKERS)
    if not stages.get(MODEL) or not stages.get(BATCH_ROWS) or not workers:
        return None
    batches = trial.achieved_rate * stages.get(ROWS_PER_REQUEST, 1.0) / stages[BATCH_ROWS]
    return batches * stages[MODEL] / workers


def rate_alone(trial: Measured) -> float | None:
    """Requests per second that the model could do without merging any, from its learned cost; None where unknown."""
    stages = trial.stages
    rows, fixed, per_row = stages.get(ROWS_PER_REQUEST, 1.0), stages.get(FIXED), stages.get(PER_ROW)
    workers = trial.ask.knobs.workers or stages.get(MODEL_WORKERS)
    if fixed is None or per_row is None or not workers or (seconds := rows * (fixed + per_row)) <= 0:
        return None
    return workers / seconds


def limit(trial: Measured, generator_rate: float | None = None) -> Limit:
    """What limited `trial`, which is best one near the capacity; `generator_rate` is the generator's limit, if met."""
    if generator_rate is not None:
        return Limit(
            "generator",
            f"The load generator is the limit: it held {rate_text(generator_rate)}/s and no more, so what the service "
            "could do beyond is not known.",
        )
    stages, busy = trial.stages, model_busy_share(trial)
    if busy is not None and busy >= BUSY:
        return Limit(
            "model",
            f"The model is the limit: a worker computes {share_text(min(busy, 1.0))} of the time, "
            f"{seconds_text(stages[MODEL])} for a batch of {stages[BATCH_ROWS]:.3g} rows.",
        )
    known = {name: stages[name] for name in (QUEUE, MODEL, REST) if name in stages}
    if not known:
        return Limit("unknown", "What the limit is was not measured: the service told no stage times.")
    longest = max(known, key=lambda name: known[name])
    if stages.get(SERVICE_CPU, 0.0) >= FULL_CPU or longest == REST:
        cpu = f"; its process uses {share_text(stages[SERVICE_CPU])} of a core" if SERVICE_CPU in stages else ""
        return Limit(
            "HTTP",
            f"HTTP is the limit: of a request's mean time {seconds_text(known.get(REST, 0.0))} is spent outside of "
            f"queue and model{cpu}.",
        )
    if longest == QUEUE:
        return _queueing(trial.ask.knobs, known)
    return Limit(
        "model",
        f"The model's own time is the limit: {seconds_text(known[MODEL])} of a request's mean time is its batch's.",
    )


def _queueing(knobs: Knobs, known: Mapping[str, float]) -> Limit:
    queue, wait = known[QUEUE], knobs.max_wait_seconds
    if knobs.policy == "fixed" and wait >= 0.5 * queue:
        return Limit(
            "wait",
            f"The wait is the limit: requests spend {seconds_text(queue)} on average before their batch goes, and it "
            f"is held up to {setting_text(wait)} on purpose.",
        )
    return Limit(
        "queue",
        f"The queue is the limit: requests wait {seconds_text(queue)} on average for the batches before theirs.",
    )


def batching_told(chosen: Measured, single: Measured | None) -> str:
    """Whether batching helps this model; `single` is the fastest passed, else the slowest failed trial of batch 1."""
    fixed, per_row = chosen.stages.get(FIXED), chosen.stages.get(PER_ROW)
    batch = chosen.ask.knobs.max_batch_rows
    costs = ""
    if fixed is not None and per_row is not None and fixed + per_row > 0:
        share = max(fixed, 0.0) / (max(fixed, 0.0) + max(per_row, 0.0))
        costs = f"a call costs {seconds_text(max(fixed, 0.0))} and {seconds_text(max(per_row, 0.0))} more for each row"
        if share <= NO_FIXED_COST:
            return f"Batching does not help this model: {costs}, so merging requests saves next to nothing."
    because = f": {costs}" if costs else ""
    if batch == 1:
        return f"Batching does not help this model{because}; no larger batch carried clearly more."
    if single is not None and single.verdict == "PASS":
        gain = f"{chosen.rate / single.rate:.3g} times what one row at a time was seen to carry"
        return f"Batching helps this model{because}. Batches of up to {batch} rows carry {gain}."
    if single is not None:
        gain = f"one row at a time failed at {rate_text(single.rate)}/s"
        carried = f"Batches of up to {batch} rows carry {rate_text(chosen.rate)}/s"
        if chosen.rate < CLEARLY * single.rate:
            return f"{carried}; {gain}, and how much less it carries was not measured{because}."
        return f"Batching helps this model{because}. {carried}; {gain} already."
    untried = "was not measured: one row at a time was not tried."
    return (
        f"Batching helps this model by its cost{because}. How much {untried}"
        if costs
        else f"Whether it helps {untried}"
    )
