"""What slo.yaml comes to, in plain words: the budget, what would page and after how long, and what clears it."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from slo.alerts import service_alerts, stack_alerts
from slo.config import Service, SloFile
from slo.delays import Watch, clears_after, fires_after, watches
from slo.durations import parse_duration
from slo.text import duration_words, percent, seconds
from slo.tuned import Tuned

# Times the rate that would just use up the budget by the end of the window.
BURNS: Final = (0.5, 2, 10, 20)
_RANGE: Final = re.compile(r"\[(\w+)\]")
_BREACH: Final = "LatencySLOBreach"


def explain(slo: SloFile, shares: Sequence[float] = (), tuned: Tuned | None = None) -> str:
    """The whole file. `shares` of bad requests are explained beside the usual ones, `tuned` beside the budget."""
    parts = ["\n".join(_service(service, shares, tuned)) for service in slo.services]
    return "\n\n".join([*parts, "\n".join(_around(slo))])


def _service(service: Service, shares: Sequence[float], tuned: Tuned | None) -> Iterator[str]:
    objective, threshold = percent(service.objective), seconds(service.threshold_seconds)
    window = _days(service.window_days)
    budget = duration_words(service.budget * service.window_days * 86400)
    breaches = [watch for watch in watches(service) if watch.alert == _BREACH]
    yield f"{service.job} (profile {service.profile.name})"
    yield f"  A request is good when it is answered 2xx within {threshold}; client errors and probes do not count."
    yield (
        f"  {objective} under {threshold} over {window} = {budget} of budget: {percent(service.budget)} of requests, "
        "or all of them for that long."
    )
    if tuned is not None and tuned.job in ("", service.job):
        yield from _capacity(service, tuned)
    yield ""
    yield f"  {_BREACH} fires when the share of bad requests (slow, failed or shed) is"
    for watch in breaches:
        yield f"    {_condition(watch, service)}"
    yield ""
    yield "  If from now on, with steady traffic,"
    yield from _table(service, breaches, shares)
    yield "  (at the latest, counted from the first bad request; Alertmanager's group_wait comes on top)"
    yield ""
    yield from _sentences(service, breaches)
    yield ""
    yield "  Also told:"
    yield from _others(service)


def _capacity(service: Service, tuned: Tuned) -> Iterator[str]:
    """How much traffic fits inside the objective, and how much of it may be bad."""
    knobs = f"batch {tuned.max_batch_rows}, wait {seconds(tuned.max_wait_seconds)}, {tuned.policy}"
    rate = f"{tuned.rate:,.0f}" if tuned.rate >= 100 else f"{tuned.rate:.3g}"
    said = f"  The tuner confirmed {rate} requests/s for {tuned.model} ({knobs}; {tuned.day})"
    if (tuned.objective, tuned.threshold_seconds) != (service.objective, service.threshold_seconds):
        other = f"{percent(tuned.objective)} under {seconds(tuned.threshold_seconds)}"
        yield f"{said}, but inside another objective, {other}: tune again."
        return
    yield f"{said}: above it expect the objective to break. At that rate"
    yield f"  {tuned.rate * service.budget:.3g} requests a second may be bad."


def _condition(watch: Watch, service: Service) -> str:
    limit = watch.limits[0].above
    windows = " and in ".join(duration_words(each.window_seconds) for each in watch.limits)
    lasting = f", for {duration_words(watch.for_seconds)}" if watch.for_seconds else ""
    rate = watch.fewest_requests / watch.fewest_in_seconds
    return (
        f"over {percent(limit)} ({limit / service.budget:g}× burn) in {windows}{lasting}: a {watch.severity}; never "
        f"with fewer than {watch.fewest_requests} requests in {duration_words(watch.fewest_in_seconds)} "
        f"({rate:.2g} a second)"
    )


def _table(service: Service, breaches: Sequence[Watch], shares: Sequence[float]) -> Iterator[str]:
    usual = [burn * service.budget for burn in BURNS if burn * service.budget < 1]
    head = ("this is bad", "burn", "budget gone in", "page after", "ticket after", "after recovery clears in")
    rows: list[tuple[str, ...]] = [head]
    for share in sorted({*(round(share, 12) for share in (*usual, *shares)), 1.0}):
        burn = share / service.budget
        gone = service.window_days * 86400 / burn
        by = {severity: _first(breaches, severity, share) for severity in ("page", "ticket")}
        firing = [clears_after(watch, share) for watch in breaches if fires_after(watch, share) is not None]
        rows.append(
            (
                percent(share),
                f"{burn:.3g}×",
                duration_words(gone) if burn > 1 else "never",
                *(duration_words(after) if after is not None else "never" for after in by.values()),
                duration_words(max(firing)) if firing else "-",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "    " + "   ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _sentences(service: Service, breaches: Sequence[Watch]) -> Iterator[str]:
    share = min(1.0, 10 * service.budget)
    first = _first(breaches, "page", share)
    burn = f"{share / service.budget:.3g}× burn ({percent(share)} bad)"
    if first is None:
        yield f"  At {burn} nobody is paged."
        return
    spent = share / service.budget * first / (service.window_days * 86400)
    gone = percent(float(f"{spent:.2g}"))
    yield f"  At {burn} a page after {duration_words(first)}; by then {gone} of the budget is gone."
    slowest = min(limit.above for watch in breaches if watch.severity == "page" for limit in watch.limits)
    yield f"  Less than {percent(slowest)} bad never pages, however long it lasts."


def _first(breaches: Sequence[Watch], severity: str, share: float) -> int | None:
    times = [fires_after(watch, share) for watch in breaches if watch.severity == severity]
    return min((time for time in times if time is not None), default=None)


def _others(service: Service) -> Iterator[str]:
    shares = {watch.alert: watch for watch in watches(service)}
    for alert in service_alerts(service):
        rule = alert.rule()
        if watch := shares.get(alert.name):
            limit = watch.limits[0].above
            twice = [(share, fires_after(watch, share)) for share in (min(1.0, 2 * limit), 1.0)]
            times = ", ".join(f"{percent(share)} after {duration_words(after)}" for share, after in twice if after)
            yield _told(rule, f"{alert.when}; {times}")
        else:
            yield _told(rule, f"{alert.when}; after {duration_words(_lasting(rule))}")


def _around(slo: SloFile) -> Iterator[str]:
    yield "Around the services"
    for alert in stack_alerts(slo.services):
        rule = alert.rule()
        lasting = _lasting(rule)
        yield _told(rule, f"{alert.when}; after {duration_words(lasting)}" if lasting else alert.when)


def _told(rule: dict[str, Any], words: str) -> str:
    return f"    {rule['alert']:<22} {rule['labels']['severity']:<7} {words}"


def _lasting(rule: dict[str, Any]) -> int:
    """Until what began now has filled the longest window of the expression, and `for` is over."""
    ranges = [parse_duration(text) for text in _RANGE.findall(re.sub(r'"[^"]*"', "", rule["expr"]))]
    ranges += [parse_duration(text) for text in re.findall(r"job:\w+:\w*rate(\d+\w)\b", rule["expr"])]
    return max(ranges, default=0) + parse_duration(rule.get("for", "0s"))


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"
