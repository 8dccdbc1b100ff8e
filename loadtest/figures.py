"""How Locust's own statistics round: to three digits instead of two, and never up. Pure."""


def bucket_response_time(milliseconds: float) -> float:
    """The key under which Locust counts a response time: at most 1% below it above 1 ms, never above it.

    Locust takes a percentile from these keys and the maximum from the exact times, so that rounding up would show a
    p99 above the maximum. Takes the place of `locust.stats.bucket_response_time`.
    """
    if milliseconds < 10:
        return int(milliseconds * 100) / 100
    if milliseconds < 100:
        return int(milliseconds * 10) / 10
    step = 1
    while milliseconds >= 1000 * step:
        step *= 10
    return int(milliseconds / step) * step
