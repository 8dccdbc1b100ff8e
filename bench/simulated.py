"""Services whose capacity is known, played in virtual time: what the tuner's answers are checked against.

One batching queue like the service's (late binding, oldest first, up to `max_batch_rows`), with a model that takes
b + a·n for n rows, noise, slow batches, warm-up, drift and bands of bad rates; and a generator with a largest rate.
Latencies are judged by the same code that judges real runs.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import numpy as np

from loadtest.analysis.order import quantiles
from loadtest.analysis.samples import SAMPLE, End, Floats, Samples
from loadtest.analysis.steady import steadiness
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Ask, Measured
from loadtest.analysis.verdict import GeneratorHealth, Objective, Verdict, allowed_bad, judge

TIMEOUTS: Final = 20  # times the threshold: what is not answered by then is lost


@dataclass(frozen=True, slots=True)
class Service:
    """A model and a batcher; times in seconds, one row per request."""

    fixed: float  # b
    per_row: float  # a
    other: float = 0.0005  # HTTP and the like, added to every request
    noise: float = 0.05  # of a batch's time: the sigma of a lognormal factor of mean 1
    bend: float = 0.0  # further seconds per row², for models that slow down in large batches
    slow_share: float = 0.0  # of the batches
    slow_seconds: float = 0.0  # that such a batch takes longer
    warmup: float = 0.0  # extra share of a batch's time when its setting is new, …
    warmup_seconds: float = 1.0  # … which decays with this time constant
    drift: float = 0.0  # extra share of a batch's time for each minute of the tuning
    band: tuple[float, float] = (0.0, 0.0)  # rates in it …
    band_seconds: float = 0.0  # … get slower by so much: a service whose latency does not rise with the rate
    generator_rate: float = math.inf  # the largest that the generator holds
    generator_softness: float = 0.03  # how gradually it fails, in ln(rate)

    def batch_seconds(self, rows: int) -> float:
        return self.fixed + self.per_row * rows + self.bend * rows * rows

    def ceiling(self, knobs: Knobs) -> float:
        """Rows per second that no load can exceed."""
        return max(rows / self.batch_seconds(rows) for rows in range(1, knobs.max_batch_rows + 1))


def sojourns(
    service: Service, knobs: Knobs, arrivals: Floats, random: np.random.Generator, *, minutes: float = 0.0,
    warm: bool = False,
) -> Floats:  # fmt: skip
    """Seconds from each arrival to its answer."""
    if knobs.max_batch_rows == 1 and not (service.warmup and not warm):
        return _one_by_one(service, arrivals, random, minutes)
    times = arrivals.tolist()
    count, most = len(times), knobs.max_batch_rows
    hold = knobs.max_wait_seconds if knobs.policy == "fixed" else 0.0
    base = [0.0, *(service.batch_seconds(rows) * (1 + service.drift * minutes) for rows in range(1, most + 1))]
    factors = np.exp(random.normal(-(service.noise**2) / 2, service.noise, count)).tolist() if service.noise else None
    slow = (random.random(count) < service.slow_share).tolist() if service.slow_share else None
    ends: list[int] = []
    instants: list[float] = []
    first, free, batch = 0, 0.0, 0
    while first < count:
        start = times[first]
        if free > start:
            start = free
        last = bisect_right(times, start, first, min(first + most, count))
        if hold and last - first < most:
            full = times[first + most - 1] if first + most <= count else math.inf
            start = max(start, min(times[first] + hold, full))
            last = bisect_right(times, start, first, min(first + most, count))
        seconds = base[last - first]
        if factors is not None:
            seconds *= factors[batch]
        if slow is not None and slow[batch]:
            seconds += service.slow_seconds
        if service.warmup and not warm:
            seconds *= 1 + service.warmup * math.exp(-start / service.warmup_seconds)
        free = start + seconds
        ends.append(last)
        instants.append(free)
        first = last
        batch += 1
    rows = np.diff(np.array([0, *ends]))
    answered: Floats = np.repeat(np.array(instants), rows) - arrivals + service.other
    return answered


def _one_by_one(service: Service, arrivals: Floats, random: np.random.Generator, minutes: float) -> Floats:
    """The same without a loop: Lindley's waiting times are a walk less its lowest point so far."""
    count = len(arrivals)
    if not count:
        return np.zeros(0)
    seconds = np.full(count, service.batch_seconds(1) * (1 + service.drift * minutes))
    if service.noise:
        seconds *= np.exp(random.normal(-(service.noise**2) / 2, service.noise, count))
    if service.slow_share:
        seconds += service.slow_seconds * (random.random(count) < service.slow_share)
    walk = np.concatenate([[0.0], np.cumsum(seconds[:-1] - np.diff(arrivals))])
    waits: Floats = walk - np.minimum.accumulate(walk) + seconds + service.other
    return waits


def poisson(rate: float, seconds: float, seed: int) -> Floats:
    """Instants of a Poisson process up to `seconds`."""
    random = np.random.default_rng(seed)
    count = int(rate * seconds + 6 * math.sqrt(rate * seconds) + 20)
    times = np.cumsum(random.exponential(1 / rate, count))
    kept: Floats = times[times < seconds]
    return kept


@dataclass(slots=True)
class Bench:
    """Answers asks as the live side would: same warm-up, same judge, ended early once a pass is impossible."""

    service: Service
    slo: Objective
    seed: int
    overhead_seconds: float = 1.5
    spent_seconds: float = 0.0
    _count: int = field(default=0)
    _knobs: Knobs | None = field(default=None)

    def measure(self, ask: Ask) -> Measured:
        self._count += 1
        random = np.random.default_rng([self.seed, self._count])
        service, threshold = self.service, self.slo.threshold_seconds
        start, end = ask.warmup_seconds, ask.warmup_seconds + ask.seconds
        arrivals = poisson(ask.rate, end, ask.seed * 7919 + self.seed)
        waits = sojourns(
            service, ask.knobs, arrivals, random, minutes=self.spent_seconds / 60,
            warm=ask.knobs == self._knobs,
        )  # fmt: skip
        self._knobs = ask.knobs
        if service.band[0] <= ask.rate < service.band[1]:
            waits = waits + service.band_seconds
        cut = self._cut(arrivals, waits, start, end, ask)
        done = arrivals + waits
        rows = np.zeros(len(arrivals), dtype=SAMPLE)
        rows["scheduled"], rows["sent"], rows["done"] = arrivals, arrivals, done
        rows["end"] = np.where(waits > TIMEOUTS * threshold, End.TIMED_OUT, End.OK)
        early = rows["done"] > cut + TIMEOUTS * threshold if cut >= end else rows["done"] > cut
        rows["end"][early] = End.IN_FLIGHT
        rows["done"][early] = np.nan
        samples = Samples(rows[: int(np.searchsorted(arrivals, cut))])
        late = self._late(ask, random)
        took = cut + self.overhead_seconds
        self.spent_seconds += took
        return self._judged(ask, samples, start, cut, took, late)

    def _cut(self, arrivals: Floats, waits: Floats, start: float, end: float, ask: Ask) -> float:
        """When more are bad than the whole trial may have; not before a tenth of it, or the figures mean nothing.

        A floor is not cut, here as there: its percentile is told to people.
        """
        if ask.purpose == "floor":
            return end
        measured = arrivals >= start
        bad = measured & (waits > self.slo.threshold_seconds)
        allowed = allowed_bad(self.slo, round(ask.expected_arrivals))
        known = np.sort(arrivals[bad] + self.slo.threshold_seconds)
        if len(known) <= 1.2 * allowed + 3:
            return end
        return float(min(end, max(known[int(1.2 * allowed + 3)], start + 0.1 * ask.seconds)))

    def _late(self, ask: Ask, random: np.random.Generator) -> bool:
        over = math.log(ask.rate / self.service.generator_rate) if self.service.generator_rate < math.inf else -9.0
        return bool(random.random() < 1 / (1 + math.exp(-over / self.service.generator_softness * 2)))

    def _judged(self, ask: Ask, samples: Samples, start: float, end: float, took: float, late: bool) -> Measured:
        measured = samples.between(start, end)
        judgement = judge(measured, self.slo, GeneratorHealth(), steadiness=(steady := steadiness(samples, start, end)))
        verdict: Verdict = "INVALID" if late else judgement.verdict
        q = self.slo.objective
        p50, p95, point = (
            quantiles(measured.total_seconds, (0.5, 0.95, q)) if len(measured) else (math.inf, math.inf, math.inf)
        )
        interval = judgement.interval
        return Measured(
            ask,
            verdict,
            ("The generator was late.",) if late else tuple(judgement.reasons),
            len(measured),
            len(measured) / (end - start),
            judgement.good / (end - start),
            p50,
            p95,
            point,
            (interval.low, interval.high) if interval else (math.inf, math.inf),
            bool(steady and steady.grows),
            took,
            "generator" if late else None,
        )


TRUTH_ARRIVALS: Final = 1_000_000
TRUTH_STEPS: Final = 7


def true_quantile(
    service: Service, slo: Objective, knobs: Knobs, rate: float, *, minutes: float, arrivals: int
) -> float:
    """The percentile over a long run, warm, in seconds."""
    times = poisson(rate, arrivals / rate, seed=991)
    waits = sojourns(service, knobs, times, np.random.default_rng(992), minutes=minutes, warm=True)
    if service.band[0] <= rate < service.band[1]:
        waits = waits + service.band_seconds
    return quantiles(waits[arrivals // 100 :], (slo.objective,))[0]


@cache
def true_capacity(service: Service, slo: Objective, knobs: Knobs, minutes: float = 0.0) -> float:
    """The largest rate at which the percentile is inside the objective, to some 0.3%; 0 if there is none."""
    slow = 1 + service.drift * minutes
    if service.batch_seconds(1) + service.other > slo.threshold_seconds:
        return 0.0
    high, low = service.ceiling(knobs) / slow, 0.0
    upper, lower = 0.0, 0.0  # the slack at `low` and at `high`
    rate = 0.9 * high
    for _ in range(TRUTH_STEPS):
        value = true_quantile(service, slo, knobs, rate, minutes=minutes, arrivals=TRUTH_ARRIVALS)
        slack = slo.threshold_seconds / value
        if slack >= 1:
            low, upper = rate, slack
        else:
            high, lower = rate, slack
        if high - low < 0.001 * high:
            break
        share = (upper - 1) / (upper - lower) if low else 0.0
        rate = low + min(max(share, 0.1), 0.9) * (high - low) if low else high * 0.8
    return low + (upper - 1) / (upper - lower) * (high - low) if low else 0.0
