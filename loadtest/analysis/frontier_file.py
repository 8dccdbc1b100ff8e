"""frontier.json: what a search found, with every trial that says so, written and read again."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, get_args

from loadtest.analysis.tuner.found import Found, Kind
from loadtest.analysis.tuner.frontier import Frontier
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Ask, Measured
from loadtest.analysis.verdict import Objective

FORMAT: Final = 1
KINDS: Final[tuple[str, ...]] = get_args(Kind)
_ASKED: Final = ("rate", "seconds", "warmup_seconds", "seed", "purpose")
_LATENCIES: Final = ("p50", "p95", "p99")
_REQUIRED: Final = (
    "kind", "why", "slo", "knobs", "rate", "failed_rate", "generator_rate", "needed_seconds", "floor", "confirmations",
    "trials", "frontiers", "target", "model", "started_at", "seconds", "budget_seconds", "processes", "seed",
    "settings", "models", "host", "versions",
)  # fmt: skip


class FrontierError(ValueError):
    """A file that is no frontier: one sentence that says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class About:
    """What only the program that made the search knows; everything must be JSON."""

    target: str
    model: str  # its name at the target
    started_at: str  # ISO 8601 with its offset
    host: Mapping[str, Any]  # name, cpu, cpus, memory_bytes, system, python
    versions: Mapping[str, str]
    budget_seconds: float
    processes: int  # of the generator
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the load, as a result has them
    job: str = ""  # the service in slo.yaml whose objective it is
    models: Mapping[str, str] = field(default_factory=dict)  # SERVICE_MODEL of each runtime that was chosen from


def dumps(found: Found, about: About) -> str:
    """As the text of frontier.json.

    `floor` and `confirmations` are places in `trials`, from 0. `rate` is the largest confirmed, or of a partial search
    the largest that passed; `failed_rate` the smallest that failed above it. A time that is +∞ is null, and the trial's
    `latency_reasons` says why.
    """
    return json.dumps(_record(found, about), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _record(found: Found, about: About) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "kind": found.kind,
        "why": found.why,
        "slo": {"threshold_seconds": found.slo.threshold_seconds, "objective": found.slo.objective},
        "knobs": None if found.knobs is None else asdict(found.knobs),
        "rate": found.rate,
        "failed_rate": found.failed_rate,
        "generator_rate": found.generator_rate,
        "needed_seconds": found.needed_seconds,
        "floor": None if found.floor is None else found.trials.index(found.floor),
        "confirmations": [found.trials.index(trial) for trial in found.confirmations],
        "frontiers": [_frontier(found, frontier) for frontier in found.frontiers],
        "trials": [_trial(trial) for trial in found.trials],
        "target": about.target,
        "model": about.model,
        "job": about.job,
        "started_at": about.started_at,
        "seconds": found.spent_seconds,
        "budget_seconds": about.budget_seconds,
        "processes": about.processes,
        "seed": about.seed,
        "settings": dict(about.settings),
        "models": dict(about.models),
        "host": dict(about.host),
        "versions": dict(about.versions),
    }


def _frontier(found: Found, frontier: Frontier) -> dict[str, Any]:
    """What is known of one setting; `trials` are places in the list of all."""
    capacity = frontier.capacity()
    return {
        "knobs": asdict(frontier.knobs),
        "passed_rate": frontier.passed_rate,
        "failed_rate": frontier.failed_rate,
        "capacity": None if capacity is None else {"rate": capacity.rate, "relative_error": capacity.error},
        "trials": [place for place, trial in enumerate(found.trials) if trial.ask.knobs == frontier.knobs],
    }


def _trial(trial: Measured) -> dict[str, Any]:
    low, high = trial.p99_interval
    return {
        "knobs": asdict(trial.ask.knobs),
        **{name: getattr(trial.ask, name) for name in _ASKED},
        "verdict": trial.verdict,
        "reasons": list(trial.reasons),
        "offered": trial.offered,
        "achieved_rate": trial.achieved_rate,
        "good_rate": trial.good_rate,
        **{name: _finite(getattr(trial, name)) for name in _LATENCIES},
        "p99_ci95": [_finite(low), _finite(high)],
        "latency_reasons": {
            name: _why_null(trial, name) for name in _LATENCIES if _finite(getattr(trial, name)) is None
        },
        "backlog_grows": trial.backlog_grows,
        "ended_early": trial.ended_early,
        "aborted": trial.aborted,
        "took_seconds": trial.seconds,
        "limit": trial.limit,
        "stages": {name: _finite(seconds) for name, seconds in trial.stages.items()},
    }


def _why_null(trial: Measured, name: str) -> str:
    if math.isnan(getattr(trial, name)):
        return "no arrival was measured"
    return f"so many of {trial.offered:,} arrivals got no good answer that {name} falls on one of them"


def _finite(seconds: float) -> float | None:
    return float(seconds) if math.isfinite(seconds) else None


def loads(text: str | bytes) -> tuple[Found, About]:
    """What `dumps` was given; FrontierError, one sentence, if the text is no frontier."""
    try:
        record = json.loads(text)
    except ValueError as error:
        raise FrontierError(f"it is not JSON ({error})") from None
    if not isinstance(record, dict) or "frontiers" not in record:
        raise FrontierError('it is no result of a search; expected an object with "frontiers"')
    if record.get("format") != FORMAT:
        raise FrontierError(f"its format is {record.get('format')!r}; this version reads format {FORMAT}")
    missing = [name for name in _REQUIRED if name not in record]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise FrontierError(f"it is no whole frontier: {', '.join(missing)} {verb} missing")
    if record["kind"] not in KINDS:
        raise FrontierError(f"its kind is {record['kind']!r}; expected {', '.join(KINDS)}")
    try:
        return _found(record), _about(record)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise FrontierError(f"it is damaged ({type(error).__name__}: {error})") from None


def _found(record: Mapping[str, Any]) -> Found:
    trials = tuple(_measured(told) for told in record["trials"])
    return Found(
        kind=record["kind"],
        slo=Objective(**record["slo"]),
        trials=trials,
        spent_seconds=record["seconds"],
        knobs=None if record["knobs"] is None else Knobs(**record["knobs"]),
        rate=record["rate"],
        failed_rate=record["failed_rate"],
        confirmations=tuple(trials[place] for place in record["confirmations"]),
        floor=None if record["floor"] is None else trials[record["floor"]],
        generator_rate=record["generator_rate"],
        needed_seconds=record["needed_seconds"],
        why=record["why"],
    )


def _measured(told: Mapping[str, Any]) -> Measured:
    low, high = told["p99_ci95"]
    return Measured(
        ask=Ask(Knobs(**told["knobs"]), **{name: told[name] for name in _ASKED}),
        verdict=told["verdict"],
        reasons=tuple(told["reasons"]),
        offered=told["offered"],
        achieved_rate=told["achieved_rate"],
        good_rate=told["good_rate"],
        **{name: _infinite(told[name]) if told["offered"] else math.nan for name in _LATENCIES},
        p99_interval=(_infinite(low), _infinite(high)),
        backlog_grows=told["backlog_grows"],
        seconds=told["took_seconds"],
        limit=told["limit"],
        stages={name: _infinite(seconds) for name, seconds in told["stages"].items()},
        aborted=told.get("aborted"),
    )


def _infinite(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds


def _about(record: Mapping[str, Any]) -> About:
    return About(
        target=record["target"],
        model=record["model"],
        job=record.get("job", ""),
        started_at=record["started_at"],
        host=record["host"],
        versions=record["versions"],
        budget_seconds=record["budget_seconds"],
        processes=record["processes"],
        seed=record["seed"],
        settings=record["settings"],
        models=record["models"],
    )
