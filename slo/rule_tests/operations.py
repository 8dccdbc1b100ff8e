"""promtool tests of a service's other alerts: blind, absent, down, failing, shedding, saturated, stalled.

And of what every rule must leave alone: other jobs. M1: no traffic. M2: a handful of requests. M6: the bucket at the
SLO's threshold is gone.
"""

from collections.abc import Sequence
from typing import Any, Final

from slo import names
from slo.alerts import (
    ERROR_RATIO,
    QUEUE_RATIO,
    SHED_RATIO,
    STEADY_FOR_SECONDS,
    Alert,
    fewest_requests,
    service_alerts,
)
from slo.config import SCRAPE_SECONDS, Service, SloFile
from slo.durations import duration_text
from slo.expressions import selector
from slo.recording import (
    BUDGET_BAD,
    BUDGET_REQUESTS,
    RECENT_SECONDS,
    SERVER_P99,
    STEADY_SECONDS,
    bad_ratio_name,
    budget_remaining_name,
    outcome_ratio_name,
    requests_name,
    windows,
)
from slo.rule_tests.series import INSTANCE, Phase, case, counter, gauge, has_no_value, is_firing, requests, up
from slo.rule_tests.texts import says
from slo.text import percent

_BUSY: Final = 1_000  # requests per scrape
_CAPACITY_ROWS: Final = 1_000
_OTHER_JOB: Final = "another"
_FOR: Final = STEADY_FOR_SECONDS // SCRAPE_SECONDS  # in scrapes
_RECENT: Final = RECENT_SECONDS // SCRAPE_SECONDS
_STEADY: Final = STEADY_SECONDS // SCRAPE_SECONDS
_LONG: Final = 2 * _STEADY  # long enough for every window to hold only this phase


def operations_tests(service: Service, slo: SloFile) -> dict[str, Any]:
    """A promtool test file, without its rule_files."""
    cases = _Cases(service, slo)
    return {
        "evaluation_interval": duration_text(SCRAPE_SECONDS),
        "tests": [
            *cases.bucket_missing(),
            *cases.absent(),
            *cases.down(),
            *cases.failing(),
            *cases.shedding(),
            *cases.saturated(),
            *cases.stalled(),
            cases.quiet_when_healthy(),
            cases.quiet_without_traffic(),
            cases.budget_left(),
            *cases.other_jobs(),
        ],
    }


class _Cases:
    def __init__(self, service: Service, slo: SloFile) -> None:
        self.service, self.slo = service, slo
        self.alerts = {alert.name: alert for alert in service_alerts(service)}
        self.keep = service.profile.keep_firing_for_seconds // SCRAPE_SECONDS

    def _case(
        self,
        name: str,
        series: Sequence[dict[str, str]],
        *expected: dict[str, Any],
        texts: Sequence[dict[str, Any]] = (),
    ) -> dict[str, Any]:
        return case(name, SCRAPE_SECONDS, series, expected, texts)

    def _requests(self, *phases: Phase, **shape: Any) -> list[dict[str, str]]:
        return requests(self.service, self.slo, phases, **shape)

    def _gauge(self, name: str, *values: tuple[float | str, int]) -> dict[str, str]:
        return gauge(name, {"job": self.service.job, "instance": INSTANCE}, *values)

    def _says(self, name: str, scrape: int, value: str, *, instance: bool = True) -> dict[str, Any]:
        labels = {"job": self.service.job} | ({"instance": INSTANCE} if instance else {})
        alert: Alert = self.alerts[name]
        return says(alert, scrape * SCRAPE_SECONDS, value, labels)

    def _firing(self, name: str, scrape: int, count: int) -> dict[str, Any]:
        return is_firing(name, scrape * SCRAPE_SECONDS, count, job=self.service.job)

    def bucket_missing(self) -> list[dict[str, Any]]:
        busy = Phase(_LONG, good=_BUSY, slow=_BUSY)
        alert = "SLOBucketMissing"
        return [
            self._case(
                "M6: no bucket at the SLO threshold: the pager says that it is blind",
                self._requests(busy, without_edge=True),
                self._firing(alert, _FOR - 1, 0),
                self._firing(alert, _LONG, 1),
                texts=[self._says(alert, _LONG, str(len(names.OUTCOMES) - 1))],
            ),
            self._case(
                "M6: failures are exported, but no good requests: blind as well",
                self._requests(Phase(_LONG, failed=_BUSY), only=["failed", "shed"]),
                self._firing(alert, _LONG, 1),
            ),
            self._case(
                "M6: one of two replicas has no bucket at the threshold",
                [
                    *self._requests(busy, without_edge=True),
                    *(
                        {**series, "series": series["series"].replace(INSTANCE, "replica-2")}
                        for series in self._requests(busy)
                    ),
                ],
                self._firing(alert, _LONG, 1),
            ),
            self._case(
                "M6: only other routes have a bucket at the threshold",
                [*self._requests(busy, without_edge=True), *self._requests(busy, route=names.ROUTE_OTHER)],
                self._firing(alert, _LONG, 1),
            ),
            self._case(
                "other routes need no bucket at the threshold",
                self._requests(busy, without_edge=True, route=names.ROUTE_OTHER),
                self._firing(alert, _LONG, 0),
            ),
        ]

    def absent(self) -> list[dict[str, Any]]:
        alert = "InferenceTargetAbsent"
        other = gauge(names.UP, {"job": "loadgen", "instance": INSTANCE}, (1, _LONG))
        leaves = self._gauge(names.UP, (1, _STEADY), ("stale", 1))
        return [
            self._case(
                "no target of the job at all",
                [other],
                self._firing(alert, _FOR - 1, 0),
                self._firing(alert, _FOR + 1, 1),
                texts=[self._says(alert, _LONG, "1", instance=False)],
            ),
            self._case(
                "the last target of the job goes away",
                [other, leaves],
                self._firing(alert, _STEADY, 0),
                self._firing(alert, _STEADY + _FOR + 1, 1),
            ),
        ]

    def down(self) -> list[dict[str, Any]]:
        alert = "TargetDown"
        return [
            self._case(
                "the target cannot be scraped, then comes back",
                [self._gauge(names.UP, (1, _STEADY), (0, _STEADY), (1, _STEADY))],
                self._firing(alert, _STEADY + _FOR - 1, 0),
                self._firing(alert, _STEADY + _FOR + 1, 1),
                self._firing(alert, 2 * _STEADY + 1, 0),
                texts=[self._says(alert, 2 * _STEADY - 1, "0")],
            ),
            self._case(
                "one lost scrape is no alarm",
                [self._gauge(names.UP, (1, _STEADY), (0, 1), (1, _STEADY))],
                *(self._firing(alert, _STEADY + scrape, 0) for scrape in range(_FOR + 2)),
            ),
        ]

    def failing(self) -> list[dict[str, Any]]:
        return self._share_of_requests("ErrorRatioHigh", "failed", ERROR_RATIO, blameless="shed")

    def shedding(self) -> list[dict[str, Any]]:
        return self._share_of_requests("LoadShed", "shed", SHED_RATIO, blameless="failed")

    def _share_of_requests(self, alert: str, outcome: str, limit: float, blameless: str) -> list[dict[str, Any]]:
        over, under = round(1.5 * limit * _BUSY), round(0.5 * limit * _BUSY)
        fewest = fewest_requests(self.service, limit)
        few, enough = fewest // 2 // _STEADY, -int(-1.25 * fewest // _STEADY)
        blip = round(0.6 * limit * _STEADY * _BUSY)  # in one scrape: too many for the short window, not for the long
        after = 2 * _LONG + self.keep
        return [
            self._case(
                f"half as much again as is tolerated has the outcome {outcome}, then none",
                self._requests(Phase(_LONG, good=_BUSY - over, **{outcome: over}), Phase(after, good=_BUSY)),
                self._firing(alert, _FOR - 1, 0),
                self._firing(alert, _LONG, 1),
                # Over the limit until a third of the short window is clean, then kept.
                self._firing(alert, _LONG + _RECENT // 3 + self.keep - 2, 1),
                self._firing(alert, _LONG + _RECENT + self.keep + 1, 0),
                texts=[self._says(alert, _LONG, percent(1.5 * limit), instance=False)],
            ),
            self._case(
                f"half the share that is tolerated has the outcome {outcome}",
                self._requests(Phase(_LONG, good=_BUSY - under, **{outcome: under})),
                self._firing(alert, _LONG, 0),
            ),
            self._case(
                f"a blip of requests with the outcome {outcome}",
                self._requests(
                    Phase(_STEADY, good=_BUSY),
                    Phase(1, good=_BUSY - blip, **{outcome: blip}),
                    Phase(_STEADY, good=_BUSY),
                ),
                *(self._firing(alert, _STEADY + scrape, 0) for scrape in range(_STEADY)),
            ),
            self._case(
                f"{blameless} requests are another alert's",
                self._requests(Phase(_LONG, good=_BUSY, **{blameless: _BUSY})),
                self._firing(alert, _LONG, 0),
            ),
            self._case(
                f"client errors do not dilute the outcome {outcome}",
                self._requests(Phase(_LONG, good=_BUSY - over, client_error=100 * _BUSY, **{outcome: over})),
                self._firing(alert, _LONG, 1),
            ),
            self._case(
                f"M2: every one of too few requests has the outcome {outcome}",
                self._requests(Phase(_LONG, **{outcome: few})),
                self._firing(alert, _LONG, 0),
            ),
            self._case(
                f"every one of just enough requests has the outcome {outcome}",
                self._requests(Phase(_LONG, **{outcome: enough})),
                self._firing(alert, _LONG, 1),
            ),
            self._case(
                f"another route has the outcome {outcome}",
                [
                    *self._requests(Phase(_LONG, good=_BUSY)),
                    *self._requests(Phase(_LONG, **{outcome: _BUSY}), route=names.ROUTE_OTHER),
                ],
                self._firing(alert, _LONG, 0),
                *(
                    has_no_value(f"{outcome_ratio_name(outcome, window)} > 0", _LONG * SCRAPE_SECONDS)
                    for window in (RECENT_SECONDS, STEADY_SECONDS)
                ),
            ),
        ]

    def saturated(self) -> list[dict[str, Any]]:
        alert = "QueueSaturated"
        over, under = round((1 + QUEUE_RATIO) / 2 * _CAPACITY_ROWS), round(0.9 * QUEUE_RATIO * _CAPACITY_ROWS)
        capacity = self._gauge(names.QUEUE_CAPACITY_ROWS, (_CAPACITY_ROWS, 2 * _LONG))
        return [
            self._case(
                "the queue is nearly full, then empty",
                [capacity, self._gauge(names.QUEUE_DEPTH_ROWS, (over, _LONG), (0, _LONG))],
                self._firing(alert, _FOR - 1, 0),
                self._firing(alert, _LONG - 1, 1),
                self._firing(alert, _LONG + max(0, self.keep - 1), 1),
                self._firing(alert, _LONG + _RECENT + self.keep + 1, 0),
                texts=[self._says(alert, _LONG - 1, percent(over / _CAPACITY_ROWS))],
            ),
            self._case(
                "the queue is well used",
                [capacity, self._gauge(names.QUEUE_DEPTH_ROWS, (under, _LONG))],
                self._firing(alert, _LONG - 1, 0),
            ),
            self._case(
                "the capacity is not known",
                [
                    self._gauge(names.QUEUE_CAPACITY_ROWS, (0, _LONG)),
                    self._gauge(names.QUEUE_DEPTH_ROWS, (over, _LONG)),
                ],
                self._firing(alert, _LONG - 1, 0),
            ),
        ]

    def stalled(self) -> list[dict[str, Any]]:
        alert = "BatcherStalled"
        labels = {"job": self.service.job, "instance": INSTANCE}
        depth, empty = self._gauge(names.QUEUE_DEPTH_ROWS, (5, _LONG)), self._gauge(names.QUEUE_DEPTH_ROWS, (0, _LONG))
        expired = counter(names.REJECTED, labels | {"reason": "deadline"}, [(10, _LONG)])
        invalid = counter(names.REJECTED, labels | {"reason": "invalid"}, [(10, _LONG)])

        def batches(*increments: tuple[int, int]) -> list[dict[str, str]]:
            series = {"job": self.service.job, "instance": INSTANCE, "model": "digits"}
            return [
                counter(f"{names.BATCH_ROWS}_count", series | {"trigger": trigger}, increments)
                for trigger in names.TRIGGERS
            ]

        return [
            self._case(
                "rows wait, batches run, then none does",
                [depth, *batches((3, _STEADY), (0, _STEADY))],
                self._firing(alert, _STEADY, 0),
                self._firing(alert, _STEADY + _RECENT + 1, 0),
                self._firing(alert, _STEADY + _RECENT + _FOR + 2, 1),
                texts=[self._says(alert, _LONG - 1, "5")],
            ),
            self._case(
                "deadlines empty the queue while no batch runs",
                [empty, expired, *batches((0, _LONG))],
                self._firing(alert, _LONG, 1),
            ),
            self._case(
                "nothing to do, no batch, refused nonsense",
                [empty, invalid, *batches((0, _LONG))],
                self._firing(alert, _LONG, 0),
            ),
            self._case(
                "the queue was empty at one of the scrapes",
                [
                    self._gauge(
                        names.QUEUE_DEPTH_ROWS, *(value for _ in range(_STEADY // 2) for value in ((5, 3), (0, 1)))
                    ),
                    *batches((0, _LONG)),
                ],
                self._firing(alert, _LONG - 1, 0),
            ),
        ]

    def quiet_when_healthy(self) -> dict[str, Any]:
        busy = self._requests(Phase(_LONG, good=_BUSY), route=names.ROUTE_V2_INFER)
        series = [up(self.service.job, _LONG), *busy]
        series += [
            self._gauge(names.QUEUE_DEPTH_ROWS, (10, _LONG)),
            self._gauge(names.QUEUE_CAPACITY_ROWS, (_CAPACITY_ROWS, _LONG)),
        ]
        return self._case(
            "healthy under load: nothing fires",
            series,
            has_no_value(f'{names.ALERTS}{{job="{self.service.job}"}}', _LONG * SCRAPE_SECONDS),
        )

    def quiet_without_traffic(self) -> dict[str, Any]:
        at = _LONG * SCRAPE_SECONDS
        return self._case(
            "M1: no traffic: nothing fires, no quantile is NaN, the budget says nothing",
            [up(self.service.job, _LONG), *self._requests(Phase(_LONG))],
            has_no_value(f'{names.ALERTS}{{job="{self.service.job}"}}', at),
            has_no_value(SERVER_P99, at),
            has_no_value('{__name__=~"job:slo_(bad|failed|shed|error_budget).*:ratio.*"}', at),
        )

    def budget_left(self) -> dict[str, Any]:
        """Half of what may be bad is: half the budget is left, whatever became of requests that do not count."""
        busy = max(_BUSY, round(100 / self.service.budget))
        bad = round(0.5 * self.service.budget * busy)
        each = bad // 3
        kinds = {"failed": each, "shed": each, "slow": bad - 2 * each}
        at = _LONG * SCRAPE_SECONDS
        return self._case(
            "half the error budget is left",
            [
                *self._requests(Phase(_LONG, good=busy - bad, client_error=busy, **kinds)),
                *self._requests(Phase(_LONG, good=busy, failed=busy), route=names.ROUTE_OTHER),
            ],
            {
                "expr": f"round({budget_remaining_name(self.service)} * 1000)",
                "eval_time": duration_text(at),
                "exp_samples": [{"labels": f'{{job="{self.service.job}"}}', "value": 500}],
            },
        )

    def other_jobs(self) -> list[dict[str, Any]]:
        """Everything is wrong with another job: nothing of it may enter these rules, which are for one job each.

        First the job's own metrics; then also what is recorded about it, as another service's rules would; then
        recordings alone, bad enough for every alert.
        """
        other = {"job": _OTHER_JOB, "instance": INSTANCE}
        at = _LONG * SCRAPE_SECONDS
        recorded = selector("", __name__="=~job:.+", job=_OTHER_JOB)
        alerts = selector(names.ALERTS, job=_OTHER_JOB)
        raw = [
            up(self.service.job, _LONG),
            *self._requests(Phase(_LONG, good=_BUSY)),
            gauge(names.UP, other, (0, _LONG)),
            *self._requests(Phase(_LONG, slow=_BUSY, failed=_BUSY, shed=_BUSY), job=_OTHER_JOB),
            gauge(names.QUEUE_CAPACITY_ROWS, other, (_CAPACITY_ROWS, _LONG)),
            gauge(names.QUEUE_DEPTH_ROWS, other, (_CAPACITY_ROWS, _LONG)),
            counter(names.REJECTED, other | {"reason": "deadline"}, [(_BUSY, _LONG)]),
            counter(f"{names.BATCH_ROWS}_count", other | {"model": "digits", "trigger": "full"}, [(0, _LONG)]),
        ]

        def given(*recordings: str) -> list[dict[str, str]]:
            return [gauge(name, {"job": _OTHER_JOB}, (1_000, _LONG)) for name in recordings]

        rates = [requests_name(window) for window in windows(self.service)]
        shares = [bad_ratio_name(window) for window in windows(self.service)]
        shares += [outcome_ratio_name(outcome, RECENT_SECONDS) for outcome in ("failed", "shed")]
        shares += [outcome_ratio_name(outcome, STEADY_SECONDS) for outcome in ("failed", "shed")]
        blind = self._requests(Phase(_LONG, slow=_BUSY), job=_OTHER_JOB, without_edge=True)
        return [
            self._case("another job's metrics", raw, has_no_value(recorded, at), has_no_value(alerts, at)),
            self._case(
                "another service's metrics and request rates",
                [*raw, *given(*rates, BUDGET_REQUESTS)],
                *(has_no_value(selector(name, job=_OTHER_JOB), at) for name in (*shares, SERVER_P99, BUDGET_BAD)),
                has_no_value(selector(budget_remaining_name(self.service), job=_OTHER_JOB), at),
            ),
            self._case(
                "another service's recordings, and it has no bucket at this threshold",
                [up(self.service.job, _LONG), *blind, *given(*rates, *shares)],
                has_no_value(alerts, at),
            ),
        ]
