"""Inside the service: what waits, what is flushed and why, and where the time of a request goes."""

from typing import Any

from slo import names
from slo.config import Service
from slo.dashboards.frame import framed
from slo.dashboards.panels import (
    AMBER,
    BLUE,
    GREEN,
    GREY,
    PER_SECOND,
    RATIO,
    RED,
    ROWS,
    SECONDS,
    TEAL,
    VIOLET,
    WINDOW,
    Query,
    density,
    figure,
    lines,
)
from slo.expressions import job_requests, mean, quantile, ratio, selector, total_rate

_TRIGGER_COLORS = dict(zip(names.TRIGGERS, (GREEN, AMBER, BLUE, RED, GREY), strict=True))


def batcher_dashboard(service: Service, uid: str) -> dict[str, Any]:
    """For whoever tunes the batch, or looks for what limits the service."""
    job = service.job

    def of(metric: str, **matchers: str) -> str:
        return selector(metric, job=job, **matchers)

    def total(metric: str, **matchers: str) -> str:
        return total_rate(of(metric, **matchers), WINDOW, by="")

    depth, capacity = f"sum({of(names.QUEUE_DEPTH_ROWS)})", f"sum({of(names.QUEUE_CAPACITY_ROWS)})"
    batches = total(f"{names.BATCH_ROWS}_count")
    rows_per_batch = ratio(total(f"{names.BATCH_ROWS}_sum"), batches)
    queue_wait = mean(names.QUEUE_WAIT, WINDOW, by="", job=job)
    model_time = mean(names.MODEL_DURATION, WINDOW, by="", job=job)
    answered = {"outcome": "ok"}
    whole = ratio(
        total_rate(job_requests(service, "_sum", **answered), WINDOW, by=""),
        total_rate(job_requests(service, "_count", **answered), WINDOW, by=""),
    )
    busy = f"{total(f'{names.MODEL_DURATION}_sum')} / count({of(names.QUEUE_CAPACITY_ROWS)})"
    panels = [
        figure(
            "Largest batch",
            "The knob max_batch_rows: rows that one run of the model may take.",
            Query(f"max({of(names.MAX_BATCH_ROWS)})", "rows"),
            ROWS,
            [(None, BLUE)],
            no_value="no service",
        ),
        figure(
            "Longest hold",
            "The knob max_wait_seconds: how long a request may be held for others to join it.",
            Query(f"max({of(names.MAX_WAIT_SECONDS)})", "wait"),
            SECONDS,
            [(None, BLUE)],
            no_value="no service",
        ),
        figure(
            "Rows a batch",
            "Mean rows in one run of the model. Near 1 under load, batching buys nothing: the batch is capped, or "
            "every request comes alone.",
            Query(rows_per_batch, "rows"),
            ROWS,
            [(None, BLUE)],
            decimals=1,
        ),
        figure(
            "Queue",
            "Share of the queue's capacity in rows that is taken. Beyond 100% requests are answered with 429.",
            Query(ratio(depth, capacity), "taken"),
            RATIO,
            [(None, GREEN), (0.5, AMBER), (0.8, RED)],
            decimals=1,
            no_value="no service",
        ),
        figure(
            "Model busy",
            "Model workers at work, on average, per replica. At the number of workers the model itself is the limit.",
            Query(busy, "workers"),
            ROWS,
            [(None, BLUE)],
            decimals=2,
            no_value="no service",
        ),
        figure(
            "Worker restarts",
            "Model workers that died or hung and were replaced, in the last hour.",
            Query(f"round(sum(increase({of(names.WORKER_RESTARTS)}[1h])))", "restarts"),
            ROWS,
            [(None, GREEN), (1, RED)],
            decimals=0,
            no_value="no service",
        ),
        lines(
            "Where the time goes",
            "Mean time of an answered request: waiting in the queue, in the model (one run of its batch), and the "
            "rest: HTTP, parsing, hand-over. Tune what is largest.",
            [
                Query(queue_wait, "queue wait", AMBER),
                Query(model_time, "model", VIOLET),
                Query(f"clamp_min({whole} - {queue_wait} - {model_time}, 0)", "the rest", GREY),
            ],
            SECONDS,
            stacked=True,
        ),
        lines(
            "Queue wait",
            "From enqueue to the start of the batch. A p99 that follows the longest hold is batching by choice; one "
            "above it is a queue that grows.",
            [
                Query(quantile(0.99, of(f"{names.QUEUE_WAIT}_bucket"), WINDOW, by=""), "p99", VIOLET),
                Query(quantile(0.5, of(f"{names.QUEUE_WAIT}_bucket"), WINDOW, by=""), "p50", BLUE),
                Query(f"max({of(names.MAX_WAIT_SECONDS)})", "longest hold", GREY, dashed=True),
            ],
            SECONDS,
            logarithmic=True,
        ),
        lines(
            "Queue depth",
            "Rows that wait for a model worker, against the capacity beyond which requests are shed.",
            [Query(depth, "waiting", BLUE, fill=True), Query(capacity, "capacity", RED, dashed=True)],
            ROWS,
        ),
        lines(
            "Rows a batch",
            "Rows in one run of the model. At the cap the model is kept busy and more rows would still help; far below "
            "it the cap does not matter.",
            [
                Query(quantile(0.95, of(f"{names.BATCH_ROWS}_bucket"), WINDOW, by=""), "p95", VIOLET),
                Query(rows_per_batch, "mean", BLUE),
                Query(f"max({of(names.MAX_BATCH_ROWS)})", "cap", GREY, dashed=True),
            ],
            ROWS,
        ),
        lines(
            "Why batches are flushed",
            "full: the cap was reached. wait: the longest hold was over. idle: a worker was free and waiting longer "
            "did not pay. deadline: a request would have missed its deadline. drain: shutting down.",
            [
                Query(total(f"{names.BATCH_ROWS}_count", trigger=trigger), trigger, color)
                for trigger, color in _TRIGGER_COLORS.items()
            ],
            "ops",
            stacked=True,
        ),
        lines(
            "Refused and lost",
            "Requests that got no result, by reason. queue_full and unlikely are overload; deadline is a queue too "
            "long for its requests; invalid is the callers' own.",
            [
                Query(total(names.REJECTED, reason=reason), reason, color)
                for reason, color in zip(
                    names.REJECT_REASONS, (RED, AMBER, VIOLET, TEAL, GREY, BLUE, "#c2255c"), strict=True
                )
            ],
            PER_SECOND,
        ),
        lines(
            "Cost of a run",
            "What the adaptive policy has learned: a run costs the fixed part once and the other part per row. A large "
            "fixed part is what batching saves; where it is near 0 batching buys nothing.",
            [
                Query(f"max({of(names.COST_FIXED_SECONDS)})", "fixed", VIOLET),
                Query(f"max({of(names.COST_PER_ROW_SECONDS)})", "per row", BLUE),
                Query(
                    quantile(0.99, of(f"{names.MODEL_DURATION}_bucket"), WINDOW, by=""),
                    "p99 of a run",
                    GREY,
                    dashed=True,
                ),
            ],
            SECONDS,
            logarithmic=True,
        ),
        density(
            "Rows a batch, distribution",
            "How many runs of the model took how many rows.",
            f"sum by (le) (rate({of(f'{names.BATCH_ROWS}_bucket')}[{WINDOW}]))",
            ROWS,
        ),
    ]
    return framed(uid, "Batcher", f"Inside {job}: queue, batches and the model.", panels)
