"""What a run says about an objective: kept, broken, or nothing because the generator itself was at fault."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

import numpy as np

from loadtest.analysis import needed
from loadtest.analysis.intervals import Interval, quantile_interval
from loadtest.analysis.order import percentile_name, quantile, rank
from loadtest.analysis.samples import End, Samples
from loadtest.analysis.steady import Steadiness
from loadtest.analysis.words import setting_text

Verdict = Literal["PASS", "FAIL", "INVALID"]

EXIT_CODES: Final[Mapping[Verdict, int]] = {"PASS": 0, "FAIL": 1, "INVALID": 2}
USAGE_ERROR: Final = 64

LEAST_LATENESS_SECONDS: Final = 0.002  # a punctual scheduler stays well below it, whatever the SLO
LATENESS_SHARE: Final = 0.1  # of the SLO's threshold: lateness beyond it is visible in the latency
LATENESS_QUANTILE: Final = 0.99
FULL_CORE: Final = 0.95  # of one core; above it a worker is starved
WRONG_LOAD_SHARE: Final = 0.01  # client errors beyond it: what was measured is not the service's work

_FAULTS: Final[Mapping[End, str]] = {
    End.SHED: "turned away (429 or 503)",
    End.FAILED: "answered with an error",
    End.CLIENT_ERROR: "refused as the client's mistake (4xx)",
    End.TIMED_OUT: "timed out",
    End.CONNECTION: "lost with their connection",
    End.DROPPED: "dropped because no user was free",
    End.IN_FLIGHT: "still in flight when the run ended",
    End.GAP: "due at a worker that was lost",
}


class Slo(Protocol):
    """What of an objective a verdict needs; `slo.config.Service` is one."""

    @property
    def threshold_seconds(self) -> float: ...

    @property
    def objective(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Objective:
    """The share `objective` of all arrivals is answered 2xx within `threshold_seconds` of its scheduled instant."""

    threshold_seconds: float
    objective: float


@dataclass(frozen=True, slots=True)
class GeneratorHealth:
    """How the generator itself fared."""

    cpu_share: float = 0.0  # of one core, the busiest worker's
    workers_lost: int = 0


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict; `reasons` are whole sentences, of which the first says whether the percentile held, and if not why."""

    verdict: Verdict
    reasons: list[str]
    notes: list[str]
    good: int
    bad: int
    interval: Interval | None = field(default=None)  # of the objective's percentile; None without arrivals
    generator_at_fault: bool = False  # INVALID, and not only for want of samples or for a load that was refused

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]


def lateness_limit_seconds(slo: Slo) -> float:
    """Dispatch lateness above which latencies say more about the generator than about the service."""
    return max(LEAST_LATENESS_SECONDS, LATENESS_SHARE * slo.threshold_seconds)


def allowed_bad(slo: Slo, arrivals: int) -> int:
    """How many of `arrivals` may be bad while the objective's percentile stays within the threshold."""
    return arrivals - rank(slo.objective, arrivals) if arrivals else 0


def judge(
    measured: Samples,
    slo: Slo,
    health: GeneratorHealth,
    *,
    steadiness: Steadiness | None = None,
    client_errors: Mapping[str, int] | None = None,
) -> Judgement:
    """The verdict on the `measured` arrivals. `client_errors` counts replies such as "HTTP 404" by what they were."""
    return _Case(measured, slo, health, steadiness, client_errors or {}).judged()


class _Case:
    """One run before its judge: the figures, each computed once."""

    def __init__(
        self,
        measured: Samples,
        slo: Slo,
        health: GeneratorHealth,
        steadiness: Steadiness | None,
        client_errors: Mapping[str, int],
    ) -> None:
        self.measured, self.slo, self.health = measured, slo, health
        self.steadiness, self.client_errors = steadiness, client_errors
        self.count = len(measured)
        self.name = percentile_name(slo.objective)
        self.good = int(np.count_nonzero(measured.total_seconds <= slo.threshold_seconds))
        self.bad = self.count - self.good
        self.allowed = allowed_bad(slo, self.count)
        lateness = measured.lateness_seconds
        self.late_limit = lateness_limit_seconds(slo)
        known = lateness[~np.isnan(lateness)]
        self.lateness = quantile(known, LATENESS_QUANTILE) if len(known) else 0.0
        self.late_drops = int(np.count_nonzero((measured.ends == End.DROPPED) & (lateness > self.late_limit)))

    def judged(self) -> Judgement:
        if not self.count:
            return Judgement("INVALID", ["No arrival was measured, so nothing is known."], [], 0, 0)
        interval = quantile_interval(self.measured.total_seconds, self.slo.objective)
        point = quantile(self.measured.total_seconds, self.slo.objective)
        faults = self._generator_faults()
        verdict: Verdict
        if faults:
            verdict = "INVALID"
            reasons = [f"Whether {self.name} held is not known: {faults[0]}.", *(_sentence(f) for f in faults[1:])]
        else:
            breaches = self._breaches(point)
            verdict = "FAIL" if breaches else "PASS"
            reasons = breaches or [self._held(point, interval)]
        blamed = bool(self._lost_worker() or self._late() or self._late_dropped())
        notes = self._notes(verdict, point, interval)
        return Judgement(verdict, reasons, notes, self.good, self.bad, interval, blamed)

    # What the generator did wrong

    def _generator_faults(self) -> list[str]:
        found = [
            self._lost_worker(),
            self._late(),
            self._late_dropped(),
            self._wrong_load(),
            self._too_few(),
        ]
        return [fault for fault in found if fault]

    def _lost_worker(self) -> str:
        lost = self.health.workers_lost
        if not lost:
            return ""
        gap = self.measured.by_end[End.GAP]
        return (
            f"{lost} of the generator's workers {'was' if lost == 1 else 'were'} lost during the run, "
            f"and with {'it' if lost == 1 else 'them'} {gap:,} of {self.count:,} arrivals, which count as dropped"
        )

    def _late(self) -> str:
        if self.lateness <= self.late_limit:
            return ""
        starved = (
            f"; its busiest worker used {self.health.cpu_share:.0%} of a core, so give it more processes or cores"
            if self.health.cpu_share >= FULL_CORE
            else ""
        )
        return (
            f"the generator was late: 1% of the requests left {setting_text(self.lateness)} or more after their "
            f"instant, and more than {setting_text(self.late_limit)} blurs a threshold of "
            f"{setting_text(self.slo.threshold_seconds)}{starved}"
        )

    def _late_dropped(self) -> str:
        decisive = self.bad > self.allowed >= self.bad - self.late_drops
        if not decisive:
            return ""
        return (
            f"{self.late_drops:,} arrivals were dropped more than {setting_text(self.late_limit)} after their instant, "
            f"in a stall of the generator, and without them no more than the allowed {self.allowed:,} would be bad"
        )

    def _wrong_load(self) -> str:
        wrong = self.measured.by_end[End.CLIENT_ERROR]
        if wrong <= WRONG_LOAD_SHARE * self.count:
            return ""
        whats = sorted(self.client_errors.items(), key=lambda item: -item[1])
        said = f" ({', '.join(f'{what}: {count:,}' for what, count in whats[:3])})" if whats else ""
        return (
            f"the service refused {_percent(wrong / self.count)} of the requests as the client's mistake{said}, so the "
            "load is not one that it can serve; look at the path, the headers and the rows"
        )

    def _too_few(self) -> str:
        least = needed.samples_needed(self.slo.objective)
        if self.count >= least or self.bad > allowed_bad(self.slo, least):
            return ""
        told = needed.told(self.slo.objective, _rate(self.measured))
        return f"only {self.count:,} arrivals were measured; {told}"

    # What the service did wrong

    def _breaches(self, point: float) -> list[str]:
        reasons = []
        if self.bad > self.allowed:
            reasons.append(
                f"{self.name} did not hold: {self.bad:,} of {self.count:,} arrivals "
                f"({_percent(self.bad / self.count)}) were not answered within "
                f"{setting_text(self.slo.threshold_seconds)} of their scheduled instant, where the objective allows "
                f"{self.allowed:,}; {self.name} is {self._latency(point)}."
            )
            reasons.append(self._breakdown())
            reasons += self._no_free_user()
        if self.steadiness is not None and self.steadiness.grows:
            backlog = self.steadiness.backlog
            reasons.append(_sentence(backlog) if reasons else f"{self.name} would not have held for long: {backlog}.")
        return reasons

    def _latency(self, point: float) -> str:
        return setting_text(point) if point < math.inf else "beyond every answer (such arrivals got none)"

    def _breakdown(self) -> str:
        by_end = self.measured.by_end
        parts = [(by_end[End.OK] - self.good, "answered too late")]
        parts += [(by_end[end], what) for end, what in _FAULTS.items()]
        told = [f"{count:,} {what}" for count, what in sorted(parts, reverse=True) if count]
        return f"Of the {self.bad:,} bad arrivals: {', '.join(told)}."

    def _no_free_user(self) -> list[str]:
        punctual = self.measured.by_end[End.DROPPED] - self.late_drops
        if not punctual:
            return []
        due = f"{punctual:,} {'arrival was' if punctual == 1 else 'arrivals were'} due"
        return [
            f"When {due}, every user was waiting for the service while the scheduler was punctual (lateness p99 "
            f"{setting_text(self.lateness)}): the service fell behind, not the generator."
        ]

    def _held(self, point: float, interval: Interval) -> str:
        return (
            f"{self.name} held: {self.good:,} of {self.count:,} arrivals ({_percent(self.good / self.count)}) were "
            f"answered within {setting_text(self.slo.threshold_seconds)} of their scheduled instant, where the "
            f"objective asks {self.count - self.allowed:,}; {self.name} is {setting_text(point)}, 95% interval "
            f"{_between(interval)}."
        )

    # What a reader should also know

    def _notes(self, verdict: Verdict, point: float, interval: Interval) -> list[str]:
        notes = []
        threshold = self.slo.threshold_seconds
        if verdict != "INVALID" and interval.low <= threshold < interval.high:
            notes.append(
                f"Close: the 95% interval of {self.name}, {_between(interval)}, has the threshold of "
                f"{setting_text(threshold)} in it; a longer run would tell."
            )
        if self.health.cpu_share >= FULL_CORE and self.lateness <= self.late_limit:
            notes.append(
                f"The generator's busiest worker used {self.health.cpu_share:.0%} of a core; it was still "
                "punctual, but a higher rate needs more processes."
            )
        if self.late_drops and verdict != "INVALID":
            notes.append(f"{self.late_drops:,} arrivals were dropped late, in a stall of the generator.")
        if verdict == "INVALID" and self.bad > self.allowed:
            notes.append(
                f"As measured, {_percent(self.bad / self.count)} of the arrivals were bad, {self.name} "
                f"{self._latency(point)}; the service's part in that is not known."
            )
        if self.steadiness is not None:
            notes += self.steadiness.notes
        return notes


def _rate(measured: Samples) -> float:
    span = float(measured.scheduled[-1] - measured.scheduled[0]) if len(measured) > 1 else 0.0
    return (len(measured) - 1) / span if span > 0 else 0.0


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _percent(share: float) -> str:
    """Three digits of the smaller part: 99.96% and not 100%, 0.034% and not 0%."""
    small = min(share, 1 - share)
    decimals = min(6, max(0, -math.floor(math.log10(small)))) if small > 1e-9 else 0
    return f"{100 * share:.{decimals}f}%"


def _between(interval: Interval) -> str:
    high = setting_text(interval.high) if interval.high < math.inf else "no upper end"
    return f"{setting_text(interval.low)} to {high}"
