"""Where the time of a trial went, as the service's own counts say it. Pure."""

from loadtest.analysis.tuner import limit
from loadtest.tune.admin import Reading
from slo import names


def stages(before: Reading, after: Reading, seconds: float, generator_cpu_share: float) -> dict[str, float]:
    """Means of the load between the two readings, which lasted `seconds`; names as in `loadtest.analysis.tuner.limit`.

    What was not observed is not there.
    """
    found: dict[str, float] = {limit.GENERATOR_CPU: generator_cpu_share}
    request = after.mean_since(before, names.REQUEST_DURATION)
    queue = after.mean_since(before, names.QUEUE_WAIT)
    model = after.mean_since(before, names.MODEL_DURATION)
    rows = after.mean_since(before, names.BATCH_ROWS)
    for name, value in ((limit.QUEUE, queue), (limit.MODEL, model), (limit.BATCH_ROWS, rows)):
        if value is not None:
            found[name] = value
    if request is not None and queue is not None and model is not None:
        found[limit.REST] = max(0.0, request - queue - model)
    requests = after.count_since(before, names.REQUEST_DURATION)
    if requests and rows is not None:
        found[limit.ROWS_PER_REQUEST] = after.sum_since(before, names.BATCH_ROWS) / requests
    if seconds > 0 and after.cpu_seconds is not None and before.cpu_seconds is not None:
        found[limit.SERVICE_CPU] = max(0.0, after.cpu_seconds - before.cpu_seconds) / seconds
    gauges = {
        limit.FIXED: names.COST_FIXED_SECONDS,
        limit.PER_ROW: names.COST_PER_ROW_SECONDS,
        limit.MODEL_WORKERS: names.MODEL_WORKERS,
    }
    for name, gauge in gauges.items():
        value = after.gauges.get(gauge)
        if value is not None and value == value:  # NaN until it has learned
            found[name] = value
    return found
