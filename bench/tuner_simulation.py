"""How often the tuner is wrong: many runs on simulated services whose capacity is known.

    python -m bench.tuner_simulation --runs 100 --seed 1

A run is wrong when it accepts a setting at a rate that truly breaks the objective, and it is poor when its rate is more
than 5% below the best that any setting has. The minutes are those that the search would have taken on a live service.
"""

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.progress import Progress
from bench.simulated import Bench
from bench.table import table
from bench.tuner_scenarios import SCENARIOS, Scenario, own_capacity, true_best
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.grid import Grid
from loadtest.analysis.tuner.proposer import Proposer
from loadtest.analysis.tuner.trial import Ask
from loadtest.analysis.tuner.tuner import Tuner

NEAR = 0.95
GRID_SECONDS = 24 * 3600.0
TRUTH_ERROR = 1.003  # what the truth itself, a long simulation, may be off by


@dataclass(frozen=True, slots=True)
class Run:
    """One search and what is true of its answer."""

    found: Found
    trials: int
    minutes: float
    violates: bool
    near: bool
    near_own: bool
    ratio: float  # of its rate to the best one


def play(scenario: Scenario, proposer: Proposer, seed: int) -> Found:
    """The whole search against the simulated service."""
    bench = Bench(scenario.service, scenario.slo, seed)
    while isinstance(ask := proposer.next(), Ask):
        proposer.take(bench.measure(ask))
    return ask


def tuner(scenario: Scenario, seed: int) -> Tuner:
    return Tuner(scenario.space, scenario.slo, scenario.budget_seconds, first_rate=scenario.first_rate, seed=seed)


def grid(scenario: Scenario, seed: int) -> Grid:
    """The exhaustive search, with all the time that it wants."""
    return Grid(scenario.space, scenario.slo, GRID_SECONDS, first_rate=scenario.first_rate, seed=seed)


def judged(scenario: Scenario, found: Found) -> Run:
    """The answer beside the truth; where no rate is expected, nearness is having said so."""
    minutes = found.spent_seconds / 60
    at = confirmed_at(found) if scenario.service.drift else 0.0
    violates = near = near_own = False
    ratio = 0.0
    if found.confirmed and found.knobs is not None and found.rate is not None:
        own = own_capacity(scenario, found.knobs, at)
        violates = found.rate > own * TRUTH_ERROR
        best = true_best(scenario, at)[1]
        ratio = found.rate / best
        near, near_own = found.rate >= NEAR * best, found.rate >= NEAR * min(own, best)
    if scenario.expected not in ("chosen", "generator_limited"):
        near = near_own = found.kind == scenario.expected
    return Run(found, len(found.trials), minutes, violates, near, near_own, ratio)


def confirmed_at(found: Found) -> float:
    """Minutes into the search at which the middle confirmation ended."""
    spent = at = 0.0
    for trial in found.trials:
        spent += trial.seconds
        if trial in found.confirmations[: len(found.confirmations) // 2 + 1]:
            at = spent
    return at / 60


HEAD = ("service", "runs", "violates", "within 5%", "of its own", "rate/best", "trials", "minutes", "answers")


def row(scenario: Scenario, runs: Sequence[Run]) -> list[str]:
    count = len(runs)
    confirmed = [run for run in runs if run.found.confirmed]
    kinds = Counter(run.found.kind for run in runs)
    batches = Counter(run.found.knobs.max_batch_rows for run in confirmed if run.found.knobs)
    ratio = "-"
    if confirmed:
        ratio = f"{statistics.median(run.ratio for run in confirmed):.3f}"
    told = ", ".join(f"{kind} {number}" for kind, number in kinds.most_common())
    if batches:
        told += "; batch " + " ".join(f"{batch}:{number}" for batch, number in batches.most_common(4))
    return [
        scenario.name,
        str(count),
        f"{sum(run.violates for run in runs) / count:.1%}",
        f"{sum(run.near for run in runs) / count:.1%}",
        f"{sum(run.near_own for run in runs) / count:.1%}",
        ratio,
        f"{statistics.median(run.trials for run in runs):.0f}",
        f"{statistics.median(run.minutes for run in runs):.1f}",
        told,
    ]


def simulate(
    scenarios: Sequence[Scenario], runs: int, seed: int, say: Callable[[str], None],
    make: Callable[[Scenario, int], Proposer] = tuner,
) -> list[list[str]]:  # fmt: skip
    """A row of the table for each scenario."""
    progress = Progress(len(scenarios) * runs * 0.5, say)
    rows = []
    for scenario in scenarios:
        began = time.monotonic()
        done = [judged(scenario, play(scenario, make(scenario, seed + n), seed + n)) for n in range(runs)]
        rows.append(row(scenario, done))
        progress.done(runs * 0.5, f"{scenario.name}: {' '.join(rows[-1][1:])} ({time.monotonic() - began:.0f} s)")
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tuner_simulation", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="of each service")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="services whose name has this in it")
    parser.add_argument("--grid", action="store_true", help="the exhaustive search instead of the tuner")
    given = parser.parse_args(arguments)
    scenarios = [scenario for scenario in SCENARIOS if given.only in scenario.name]
    rows = simulate(
        scenarios,
        given.runs,
        given.seed,
        lambda text: print(text, file=sys.stderr, flush=True),
        grid if given.grid else tuner,
    )
    print(table(HEAD, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
