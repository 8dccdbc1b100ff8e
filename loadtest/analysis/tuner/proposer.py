"""The seam between a search and whoever measures: propose a trial, take what came of it, until all is found."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from loadtest.analysis.tuner.budget import Budget
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.knobs import Knobs, Space
from loadtest.analysis.tuner.limit import FULL_CPU, GENERATOR_CPU
from loadtest.analysis.tuner.standing import Standing
from loadtest.analysis.tuner.trial import Ask, Measured, Purpose
from loadtest.analysis.verdict import Objective

Steps = Generator[Ask, Measured, None]  # a part of a search: yields asks, is sent what was measured
TRIES: Final = 3  # of one trial: an INVALID one is repeated twice


class OutOfTime(Exception):
    """The next trial does not fit into what is left of the budget."""


class Unusable(Exception):
    """Every try of a trial was INVALID, and not because of the rate; the message is the first reason."""


class GeneratorLimit(Exception):
    """The generator cannot hold this rate with this setting: every try was INVALID."""

    def __init__(self, rate: float) -> None:
        super().__init__(f"the generator cannot hold {rate:.6g}/s")
        self.rate = rate


@dataclass(frozen=True, slots=True)
class Best:
    """The best so far, for people who wait."""

    knobs: Knobs
    rate: float
    confirmed: bool


class Proposer(ABC):
    """A search written as a generator of asks; subclasses say in `_search` what to ask, in `_found` what to conclude.

    The caller alternates `next()` and `take()`; `next()` without a `take()` since returns the same ask.
    """

    def __init__(
        self,
        space: Space,
        slo: Objective,
        budget_seconds: float,
        *,
        first_rate: float,
        seed: int,
        overhead_seconds: float,
    ) -> None:
        if not budget_seconds > 0:
            raise ValueError(f"the budget is {budget_seconds} s; expected more than 0")
        if not 0 < first_rate < float("inf"):
            raise ValueError(f"the first rate is {first_rate}; expected a number above 0, in requests per second")
        self.space, self.slo, self.seed, self.first_rate = space, slo, seed, first_rate
        self.budget = Budget(slo, budget_seconds, overhead_seconds)
        self.trials: list[Measured] = []
        self.standing = Standing(self.trials, slo.threshold_seconds)
        self.why = ""
        self.reserved_seconds = 0.0  # not to be spent by trials of other purposes than "confirm"
        self._steps = self._search()
        self._pending: Ask | None = None
        self._ended: Found | None = None
        self._measured: Measured | None = None

    @abstractmethod
    def _search(self) -> Steps: ...

    @abstractmethod
    def _found(self) -> Found: ...

    @abstractmethod
    def best(self) -> Best | None:
        """The best so far; None before anything passed."""

    @abstractmethod
    def left_seconds(self) -> float:
        """An estimate of the time until `next()` returns what was found."""

    def next(self) -> Ask | Found:
        """The next trial, or what was found: then the search is over."""
        if self._ended is not None:
            return self._ended
        if self._pending is None:
            try:
                self._pending = next(self._steps) if self._measured is None else self._steps.send(self._measured)
            except OutOfTime:
                self.why = self.why or "The budget ended first."
            except Unusable as unusable:
                self.why = f"No trial could be used: {unusable}"
            except StopIteration:
                pass
            if self._pending is None:
                self._ended = self._found()
                return self._ended
        return self._pending

    def take(self, measured: Measured) -> None:
        """What came of the ask that `next()` returned; ValueError if it belongs to another."""
        if self._pending is None or measured.ask != self._pending:
            raise ValueError(f"{measured.ask} was measured, but {self._pending} was asked for")
        self.trials.append(measured)
        self.budget.spent_seconds += measured.seconds
        self._measured, self._pending = measured, None

    def interrupted(self) -> Found:
        """What is known so far, for a search that ends before its end."""
        if self._ended is None:
            self.why = "It was interrupted."
            self._steps.close()
            self._ended = self._found()
        return self._ended

    # What a search asks with

    def trial(
        self,
        knobs: Knobs,
        rate: float,
        purpose: Purpose,
        seed: int,
        *,
        seconds: float | None = None,
        explore: bool = False,
    ) -> Generator[Ask, Measured, Measured]:
        """One valid trial, repeated while INVALID.

        GeneratorLimit where the generator cannot hold the rate, Unusable where no try said anything for another reason,
        OutOfTime if it does not fit. With `explore` a trial that is only too short is returned as it is.
        """
        rate = float(f"{rate:.4g}")
        limit = self.standing.limit_of(knobs)
        if rate >= limit:
            raise GeneratorLimit(limit)
        seconds = self.budget.length_seconds(purpose, rate) if seconds is None else seconds
        for attempt in range(TRIES):
            known = bool(self.trials) and self.trials[-1].ask.knobs == knobs
            warmup = self.budget.warmup_seconds / (2 if known else 1)
            self._afford(seconds + warmup + self.budget.overhead_seconds, purpose)
            measured = yield Ask(knobs, rate, round(seconds, 3), round(warmup, 3), seed + attempt, purpose)
            if measured.verdict != "INVALID" or (explore and measured.limit is None):
                return measured
            if measured.limit is None:  # too few samples, then: chance, or answers that come in bursts
                seconds *= 1.25
            elif attempt and measured.stages.get(GENERATOR_CPU, 0.0) >= FULL_CPU:
                break  # twice is chance no more where it had nothing left to give
        if measured.limit is None:
            raise Unusable(measured.reasons[0] if measured.reasons else "no reason was given")
        self.standing.not_held(knobs, rate)
        raise GeneratorLimit(rate)

    def _afford(self, cost_seconds: float, purpose: Purpose) -> None:
        reserved = 0.0 if purpose == "confirm" else self.reserved_seconds
        if cost_seconds > self.budget.left_seconds - reserved:
            raise OutOfTime
