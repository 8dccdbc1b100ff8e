"""PromQL, put together from the names of `slo.names`: what counts, what is good, a quantile, a mean.

Rules, rule tests and dashboards share these, so that a panel and a page never disagree about what "good" is.
`window` is a range as text: "30s", or "$__rate_interval" in a dashboard.
"""

import re
from typing import Final

from slo import names
from slo.buckets import edge_text
from slo.config import Service

# Templates such as {name} stand for one path segment, however a web framework spells them in the label. Spelled as
# "all printable ASCII but the slash": Prometheus 3 walks through a class rune by rune at each evaluation of a rule, and
# [^/] is all of Unicode, which made our rules ten times as dear as in Prometheus 2.
_PATH_SEGMENT: Final = "[!-.0-~]+"
ROUTES_REGEX: Final = "|".join(re.sub(r"\{\w+\}", _PATH_SEGMENT, route) for route in names.INFERENCE_ROUTES)
EVERY_JOB: Final = ".+"


def selector(metric: str, **matchers: str) -> str:
    """`metric{a="x",b=~"y"}`; a value that starts with =, !=, =~ or !~ brings its own operator."""
    parts = []
    for label, value in matchers.items():
        operator = next((op for op in ("=~", "!~", "!=", "=") if value.startswith(op)), "")
        parts.append(f'{label}{operator or "="}"{value.removeprefix(operator)}"')
    return f"{metric}{{{','.join(parts)}}}" if parts else metric


def job_requests(service: Service, suffix: str, **matchers: str) -> str:
    """Series of the request histogram that count towards the SLO: inference routes, every outcome but client_error."""
    counting = {"job": service.job, "route": f"=~{ROUTES_REGEX}", "outcome": "!=client_error"}
    return selector(names.REQUEST_DURATION + suffix, **counting | matchers)


def good_requests(service: Service) -> str:
    """Series that count the good ones: answered 2xx, and within the threshold, which is an exact bucket edge."""
    return job_requests(service, "_bucket", outcome="ok", le=edge_text(service.threshold_seconds))


def total_rate(series: str, window: str, by: str = "job") -> str:
    """Sum of the rates of counters, per `by` (a list of labels with commas; empty for one number)."""
    return f"sum by ({by}) (rate({series}[{window}]))" if by else f"sum(rate({series}[{window}]))"


def ratio(part: str, whole: str) -> str:
    """part / whole, and no sample at all (rather than NaN) where the whole is 0."""
    return f"{part} / ({whole} > 0)"


def quantile(q: float, buckets: str, window: str, by: str = "job") -> str:
    """Quantile of a histogram; NaN where nothing was observed, the last finite edge when the truth lies beyond it."""
    return f"histogram_quantile({q:g}, {total_rate(buckets, window, f'{by}, le' if by else 'le')})"


def mean(metric: str, window: str, by: str = "job", **matchers: str) -> str:
    """Mean of a histogram, and no sample where nothing was observed."""
    return ratio(
        total_rate(selector(f"{metric}_sum", **matchers), window, by),
        total_rate(selector(f"{metric}_count", **matchers), window, by),
    )
