"""promtool tests of LatencySLOBreach, for one burn rate of a service: when it must fire, when not, when it resolves.

What they guard against (the M numbers in their names): M1 no traffic, M2 a slow request among few, M3 a ratio that
dances around the limit, M5 latency beyond the last bucket, M9 bad answers that are fast.
"""

import math
from typing import Any, Final

from slo import names
from slo.alerts import fewest_requests, slo_alerts
from slo.buckets import duration_edges
from slo.config import SCRAPE_SECONDS, BurnRate, Service, SloFile
from slo.durations import duration_text
from slo.recording import RECENT_SECONDS, bad_ratio_name, windows
from slo.rule_tests.series import Phase, case, edges_at, has_no_value, is_firing, requests
from slo.rule_tests.texts import all_say, humanized
from slo.text import percent

ALERT: Final = "LatencySLOBreach"
_CLEARLY_OVER: Final = 10  # times the limit, 100% at most: for a limit of 1%, one bad request in ten


def breach_tests(service: Service, slo: SloFile, burn: BurnRate) -> dict[str, Any]:
    """A promtool test file, without its rule_files."""
    cases = _Cases(service, slo, burn)
    return {
        "evaluation_interval": duration_text(cases.step),
        "tests": [
            *cases.each_kind_of_bad_fires(),
            cases.says_how_bad(),
            cases.beyond_the_last_bucket(),
            cases.dancing_is_one_page(),
            cases.resolves(),
            cases.over_the_limit_fires(),
            cases.inside_the_limit_does_not(),
            cases.a_blip_does_not(),
            cases.client_errors_do_not_count(),
            cases.client_errors_do_not_dilute(),
            cases.other_routes_do_not_count(),
            cases.other_routes_do_not_dilute(),
            cases.one_slow_of_fifty_does_not(),
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
        # Requests per scrape: every share used below is a whole number of them.
        self.busy = max(10_000, 10 ** math.ceil(math.log10(100 / self.limit)))
        self.bad = min(self.busy, round(_CLEARLY_OVER * self.limit * self.busy))
        self.crossing = burn.long_seconds * self.limit * self.busy / self.bad  # until the long window is over the limit
        self.fewest = fewest_requests(service, self.limit)
        self.until_firing = self._scrapes(self.crossing) + self._scrapes(profile.for_seconds) + 2
        self.window = duration_text(burn.long_seconds)

    def _scrapes(self, seconds: float) -> int:
        return -int(-seconds // self.step)

    def _good(self, scrapes: int) -> Phase:
        return Phase(scrapes, good=self.busy)

    def _firing(self, scrape: int, count: int) -> dict[str, Any]:
        # The other burn rates of a profile may rightly fire in the same test.
        return is_firing(ALERT, scrape * self.step, count, window=self.window)

    def _case(self, name: str, phases: list[Phase], *expected: dict[str, Any]) -> dict[str, Any]:
        series = requests(self.service, self.slo, phases)
        return case(f"{self.window}: {name}", self.step, series, expected)

    def each_kind_of_bad_fires(self) -> list[dict[str, Any]]:
        bad_phase = 2 * self.until_firing
        kinds = {
            "slow answers fire": Phase(bad_phase, good=self.busy - self.bad, slow=self.bad),
            "M9: failures fire, however fast": Phase(bad_phase, good=self.busy - self.bad, failed=self.bad),
            "M9: shed requests fire, however fast": Phase(bad_phase, good=self.busy - self.bad, shed=self.bad),
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
        share = self.bad / self.busy
        low, high = edges_at(self.service, self.slo)
        if share < 0.01:  # among the good ones, whose bucket begins at 0
            figure = humanized(0.99 / (1 - share) * low)
        elif math.isinf(high):
            figure = f"over {humanized(low)}"
        else:
            figure = humanized(low + (1 - 0.01 / share) * (high - low))
        p99 = f" (p99 {figure})" if self._has_rates(RECENT_SECONDS) else ""
        series = requests(
            self.service,
            self.slo,
            [Phase(scrapes, good=self.busy - self.bad, slow=self.bad, client_error=100 * self.busy)],
        )
        # Neither client errors nor other routes have a part in the p99.
        series += requests(self.service, self.slo, [Phase(scrapes, good=100 * self.busy)], route=names.ROUTE_OTHER)
        return case(
            f"{self.window}: says how bad it is",
            self.step,
            series,
            [self._firing(scrapes, 1)],
            [self._said(scrapes, share, p99)],
        )

    def _said(self, scrape: int, share: float, p99: str) -> dict[str, Any]:
        """Whatever asks for less, over windows that these scrapes can fill, fires as well."""
        firing = [
            alert
            for alert, burn in zip(slo_alerts(self.service), self.service.profile.burn_rates, strict=True)
            if burn.factor * self.service.budget < share and self._has_rates(burn.short_seconds)
        ]
        return all_say(firing, scrape * self.step, percent(share), {"job": self.service.job}, p99)

    def beyond_the_last_bucket(self) -> dict[str, Any]:
        """The p99 is then the last edge, however long it took; the text must not take that for a figure."""
        scrapes = self.long_scrapes + self.until_firing
        p99 = f" (p99 over {humanized(duration_edges()[-1])})" if self._has_rates(RECENT_SECONDS) else ""
        series = requests(self.service, self.slo, [Phase(scrapes, beyond=self.busy)])
        return case(
            f"{self.window}: M5: latency beyond the last bucket fires, and is said to be over its edge",
            self.step,
            series,
            [self._firing(scrapes, 1)],
            [self._said(scrapes, 1, p99)],
        )

    def dancing_is_one_page(self) -> dict[str, Any]:
        """The short window is over the limit and inside it in turn; what has begun to fire is one alert until the end.

        Each clean spell is as long as keep_firing_for bridges: the short window is still over the limit for a while
        after the spell began, and again only a while after it has ended. In the long window there is enough between.
        """
        keep = self._scrapes(self.service.profile.keep_firing_for_seconds)
        short = self._scrapes(self.burn.short_seconds)
        over = self.limit * self.busy / self.bad  # share of a window that must be as bad as that
        clean = max(1, math.floor(short + keep - 2 * short * over - 2))
        dirty = max(short, math.ceil(1.5 * clean * over / (1 - over)) + 2)
        first = self.until_firing + self.long_scrapes
        phases = [self._good(self.history), Phase(first, good=self.busy - self.bad, slow=self.bad)]
        for _ in range(3):
            phases += [self._good(clean), Phase(dirty, good=self.busy - self.bad, slow=self.bad)]
        start, end = self.history + first, self.history + first + 3 * (clean + dirty)
        return self._case(
            "M3: a ratio that dances around the limit is one page",
            phases,
            *(self._firing(scrape, 1) for scrape in range(start, end + 1)),
        )

    def _has_rates(self, window_seconds: int) -> bool:
        """Two samples are enough for a rate; the rules' own windows are far wider where scrapes come every 5 s."""
        return window_seconds > self.step

    def resolves(self) -> dict[str, Any]:
        keep = self._scrapes(self.service.profile.keep_firing_for_seconds)
        clean = self.history + 2 * self.until_firing
        short = self._scrapes(self.burn.short_seconds)
        still_over = math.ceil(short * (1 - self.limit * self.busy / self.bad))
        return self._case(
            "resolves once the short window is clean and keep_firing_for is over",
            [
                self._good(self.history),
                Phase(2 * self.until_firing, good=self.busy - self.bad, slow=self.bad),
                self._good(short + keep + 10),
            ],
            self._firing(clean, 1),
            self._firing(clean + still_over + keep - 2, 1),
            self._firing(clean + short + keep + 2, 0),
        )

    def over_the_limit_fires(self) -> dict[str, Any]:
        bad = round(1.5 * self.limit * self.busy)
        return (
            self._steady("half as much again as the limit fires", bad, 1)
            if bad <= self.busy
            else self._steady("everything bad fires", self.busy, 1)
        )

    def inside_the_limit_does_not(self) -> dict[str, Any]:
        return self._steady("half the limit does not fire", round(0.5 * self.limit * self.busy), 0)

    def _steady(self, name: str, bad: int, count: int) -> dict[str, Any]:
        scrapes = 2 * self.long_scrapes
        return self._case(name, [Phase(scrapes, good=self.busy - bad, slow=bad)], self._firing(scrapes, count))

    def a_blip_does_not(self) -> dict[str, Any]:
        blip = max(1, int(0.8 * self.crossing / self.step))
        after = self._scrapes(self.burn.short_seconds + self.service.profile.for_seconds) + 2
        return self._case(
            "a blip too small for the long window does not fire",
            [self._good(self.history), Phase(blip, good=self.busy - self.bad, slow=self.bad), self._good(after)],
            *(self._firing(self.history + scrape, 0) for scrape in range(blip, blip + after + 1)),
        )

    def client_errors_do_not_count(self) -> dict[str, Any]:
        scrapes = self.long_scrapes
        return self._case(
            "client errors are not bad",
            [Phase(scrapes, good=self.busy, client_error=self.busy)],
            self._firing(scrapes, 0),
        )

    def client_errors_do_not_dilute(self) -> dict[str, Any]:
        scrapes = self.long_scrapes
        return self._case(
            "a flood of client errors does not hide bad requests",
            [Phase(scrapes, good=self.busy - self.bad, slow=self.bad, client_error=100 * self.busy)],
            self._firing(scrapes, 1),
        )

    def other_routes_do_not_count(self) -> dict[str, Any]:
        scrapes = self.long_scrapes
        good = requests(self.service, self.slo, [self._good(scrapes)])
        other = requests(
            self.service, self.slo, [Phase(scrapes, slow=self.busy, failed=self.busy)], route=names.ROUTE_OTHER
        )
        ratios = (bad_ratio_name(self.burn.short_seconds), bad_ratio_name(self.burn.long_seconds))
        return case(
            f"{self.window}: probes and unknown routes do not count",
            self.step,
            [*good, *other],
            [self._firing(scrapes, 0), *(has_no_value(f"{name} > 0", scrapes * self.step) for name in ratios)],
        )

    def other_routes_do_not_dilute(self) -> dict[str, Any]:
        scrapes = self.long_scrapes
        probes = requests(self.service, self.slo, [Phase(scrapes, good=100 * self.busy)], route=names.ROUTE_OTHER)
        bad = requests(self.service, self.slo, [Phase(scrapes, good=self.busy - self.bad, slow=self.bad)])
        name = f"{self.window}: a flood of fast probes does not hide bad requests"
        return case(name, self.step, [*bad, *probes], [self._firing(scrapes, 1)])

    def one_slow_of_fifty_does_not(self) -> dict[str, Any]:
        """At night: fifty requests in the long window, and the worst of them waits for whoever is asleep."""
        each = max(1, 50 // self.long_scrapes)
        after = self._scrapes(self.burn.short_seconds + self.service.profile.for_seconds) + 2
        return self._case(
            "M2: one slow request of fifty does not fire",
            [Phase(self.history, good=each), Phase(1, good=each - 1, slow=1), Phase(after, good=each)],
            *(self._firing(self.history + scrape, 0) for scrape in range(after)),
        )

    def little_traffic_does_not(self) -> dict[str, Any]:
        few = self.fewest // 2 // self.long_scrapes
        scrapes = 2 * self.long_scrapes
        return self._case(
            "M2: every request of too few bad does not fire", [Phase(scrapes, slow=few)], self._firing(scrapes, 0)
        )

    def just_enough_traffic_fires(self) -> dict[str, Any]:
        enough = -int(-1.25 * self.fewest // self.long_scrapes)
        scrapes = 2 * self.long_scrapes
        return self._case(
            "somewhat more than the fewest requests, all bad, fire",
            [Phase(scrapes, slow=enough)],
            self._firing(scrapes, 1),
        )

    def no_traffic_has_no_ratio(self) -> dict[str, Any]:
        scrapes = 2 * self.long_scrapes
        at = scrapes * self.step
        ratios = (bad_ratio_name(self.burn.short_seconds), bad_ratio_name(self.burn.long_seconds))
        return self._case(
            "M1: no traffic: no ratio, so nothing that could be NaN, and no alert",
            [Phase(scrapes)],
            self._firing(scrapes, 0),
            *(has_no_value(name, at) for name in ratios),
        )
