"""promtool tests of LatencySLOBreach, for one burn rate of a service: when it must fire, when not, when it resolves."""

from typing import Any, Final

from slo import names
from slo.alerts import slo_alerts
from slo.config import SCRAPE_SECONDS, BurnRate, Service, SloFile
from slo.durations import duration_text
from slo.recording import RECENT_SECONDS, bad_ratio_name, windows
from slo.rule_tests.series import Phase, case, edges_at, has_no_value, is_firing, requests
from slo.rule_tests.texts import all_say, humanized
from slo.text import percent

ALERT: Final = "LatencySLOBreach"
_BUSY: Final = 10_000  # requests per scrape: every share used below is a whole number of them
_CLEARLY_OVER: Final = 10  # times the limit, 100% at most: for a limit of 1%, one bad request in ten


def breach_tests(service: Service, slo: SloFile, burn: BurnRate) -> dict[str, Any]:
    """A promtool test file, without its rule_files."""
    cases = _Cases(service, slo, burn)
    return {
        "evaluation_interval": duration_text(cases.step),
        "tests": [
            *cases.each_kind_of_bad_fires(),
            cases.says_how_bad(),
            cases.resolves(),
            cases.over_the_limit_fires(),
            cases.inside_the_limit_does_not(),
            cases.a_blip_does_not(),
            cases.client_errors_do_not_count(),
            cases.client_errors_do_not_dilute(),
            cases.other_routes_do_not_count(),
            cases.little_traffic_does_not(),
            cases.just_enough_traffic_fires(),
            cases.no_traffic_has_no_ratio(),
        ],
    }


class _Cases:
    """The cases share the arithmetic of one burn rate. Times are seconds, a whole number of scrapes each."""

    def __init__(self, service: Service, slo: SloFile, burn: BurnRate) -> None:
        self.service, self.slo, self.burn = service, slo, burn
        profile = service.profile
        # Long windows are tested with rarer scrapes, still five to the short one.
        self.step = max(SCRAPE_SECONDS, burn.short_seconds // 5 // SCRAPE_SECONDS * SCRAPE_SECONDS)
        # A window of exactly one step holds two samples in Prometheus 2 and one in 3, which left its start out.
        while self.step in windows(service):
            self.step -= SCRAPE_SECONDS
        self.history = self.long_scrapes = self._scrapes(burn.long_seconds)
        self.limit = burn.factor * service.budget
        self.bad = min(_BUSY, round(_CLEARLY_OVER * self.limit * _BUSY))
        self.crossing = burn.long_seconds * self.limit * _BUSY / self.bad  # until the long window is over the limit
        self.until_firing = self._scrapes(self.crossing) + self._scrapes(profile.for_seconds) + 2
        self.window = duration_text(burn.long_seconds)

    def _scrapes(self, seconds: float) -> int:
        return -int(-seconds // self.step)

    def _good(self, scrapes: int) -> Phase:
        return Phase(scrapes, good=_BUSY)

    def _firing(self, scrape: int, count: int) -> dict[str, Any]:
        # The other burn rates of a profile may rightly fire in the same test.
        return is_firing(ALERT, scrape * self.step, count, window=self.window)

    def _case(
        self, name: str, phases: list[Phase], *expected: dict[str, Any], route: str | None = None
    ) -> dict[str, Any]:
        series = requests(self.service, self.slo, phases, route=route or names.ROUTE_PREDICT)
        return case(f"{self.window}: {name}", self.step, series, expected)

    def each_kind_of_bad_fires(self) -> list[dict[str, Any]]:
        bad_phase = 2 * self.until_firing
        kinds = {
            "slow answers fire": Phase(bad_phase, good=_BUSY - self.bad, slow=self.bad),
            "failures fire, however fast": Phase(bad_phase, good=_BUSY - self.bad, failed=self.bad),
            "shed requests fire, however fast": Phase(bad_phase, good=_BUSY - self.bad, shed=self.bad),
        }
        for_scrapes = self._scrapes(self.service.profile.for_seconds)
        return [
            self._case(
                name,
                [self._good(self.history), phase],
                self._firing(self.history, 0),
                # The condition cannot have held for long enough yet, or not at all.
                self._firing(self.history + max(for_scrapes, 1), 0),
                self._firing(self.history + self.until_firing, 1),
            )
            for name, phase in kinds.items()
        ]

    def says_how_bad(self) -> dict[str, Any]:
        """With the p99 where the scrapes are dense enough to have one, and without it where they are not."""
        scrapes = self.long_scrapes + self.until_firing
        low, high = edges_at(self.service, self.slo)
        into = 1 - 0.01 * _BUSY / self.bad
        p99 = f" (p99 {humanized(low + into * (high - low))})" if self._has_rates(RECENT_SECONDS) else ""
        # Whatever asks for less, over windows that these scrapes can fill, fires as well.
        share = self.bad / _BUSY
        firing = [
            alert
            for alert, burn in zip(slo_alerts(self.service), self.service.profile.burn_rates, strict=True)
            if burn.factor * self.service.budget < share and self._has_rates(burn.short_seconds)
        ]
        return case(
            f"{self.window}: says how bad it is",
            self.step,
            requests(self.service, self.slo, [Phase(scrapes, good=_BUSY - self.bad, slow=self.bad)]),
            [self._firing(scrapes, 1)],
            [all_say(firing, scrapes * self.step, percent(share), {"job": self.service.job}, p99)],
        )

    def _has_rates(self, window_seconds: int) -> bool:
        """Two samples are enough for a rate; the rules' own windows are far wider where scrapes come every 5 s."""
        return window_seconds > self.step

    def resolves(self) -> dict[str, Any]:
        keep = self._scrapes(self.service.profile.keep_firing_for_seconds)
        clean = self.history + 2 * self.until_firing
        short = self._scrapes(self.burn.short_seconds)
        return self._case(
            "resolves once the short window is clean and keep_firing_for is over",
            [
                self._good(self.history),
                Phase(2 * self.until_firing, good=_BUSY - self.bad, slow=self.bad),
                self._good(short + keep + 10),
            ],
            self._firing(clean, 1),
            self._firing(clean + short + keep - 2, 1),
            self._firing(clean + short + keep + 2, 0),
        )

    def over_the_limit_fires(self) -> dict[str, Any]:
        bad = round(1.5 * self.limit * _BUSY)
        return (
            self._steady("half as much again as the limit fires", bad, 1)
            if bad <= _BUSY
            else self._steady("everything bad fires", _BUSY, 1)
        )

    def inside_the_limit_does_not(self) -> dict[str, Any]:
        return self._steady("half the limit does not fire", round(0.5 * self.limit * _BUSY), 0)

    def _steady(self, name: str, bad: int, count: int) -> dict[str, Any]:
        scrapes = 2 * self.long_scrapes
        return self._case(name, [Phase(scrapes, good=_BUSY - bad, slow=bad)], self._firing(scrapes, count))

    def a_blip_does_not(self) -> dict[str, Any]:
        blip = max(1, int(0.8 * self.crossing / self.step))
        after = self._scrapes(self.burn.short_seconds + self.service.profile.for_seconds) + 2
        return self._case(
            "a blip too small for the long window does not fire",
            [self._good(self.history), Phase(blip, good=_BUSY - self.bad, slow=self.bad), self._good(after)],
            *(self._firing(self.history + scrape, 0) for scrape in range(blip, blip + after + 1)),
        )

    def client_errors_do_not_count(self) -> dict[str, Any]:
        scrapes = self.long_scrapes
        return self._case(
            "client errors are not bad",
            [Phase(scrapes, good=_BUSY, client_error=_BUSY)],
            self._firing(scrapes, 0),
        )

    def client_errors_do_not_dilute(self) -> dict[str, Any]:
        scrapes = self.long_scrapes
        return self._case(
            "a flood of client errors does not hide bad requests",
            [Phase(scrapes, good=_BUSY - self.bad, slow=self.bad, client_error=100 * _BUSY)],
            self._firing(scrapes, 1),
        )

    def other_routes_do_not_count(self) -> dict[str, Any]:
        scrapes = self.long_scrapes
        return self._case(
            "probes and unknown routes do not count",
            [Phase(scrapes, slow=_BUSY, failed=_BUSY)],
            self._firing(scrapes, 0),
            route=names.ROUTE_OTHER,
        )

    def little_traffic_does_not(self) -> dict[str, Any]:
        few = self.service.profile.min_requests // 2 // self.long_scrapes
        scrapes = 2 * self.long_scrapes
        return self._case(
            "every request of too few bad does not fire", [Phase(scrapes, slow=few)], self._firing(scrapes, 0)
        )

    def just_enough_traffic_fires(self) -> dict[str, Any]:
        enough = -(-2 * self.service.profile.min_requests // self.long_scrapes)
        scrapes = 2 * self.long_scrapes
        return self._case(
            "twice the fewest requests, all bad, fire", [Phase(scrapes, slow=enough)], self._firing(scrapes, 1)
        )

    def no_traffic_has_no_ratio(self) -> dict[str, Any]:
        scrapes = 2 * self.long_scrapes
        at = scrapes * self.step
        ratios = (bad_ratio_name(self.burn.short_seconds), bad_ratio_name(self.burn.long_seconds))
        return self._case(
            "no traffic: no ratio, so nothing that could be NaN, and no alert",
            [Phase(scrapes)],
            self._firing(scrapes, 0),
            *(has_no_value(name, at) for name in ratios),
        )
