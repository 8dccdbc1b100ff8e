"""What `python -m loadtest tune` is asked: options, checked, with one sentence for what is wrong."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from loadtest.analysis.tuner.knobs import LARGEST_BATCH_ROWS, POLICIES, WAITS_SECONDS, Space
from loadtest.analysis.verdict import Objective
from loadtest.arguments import add_settings
from loadtest.errors import UsageError
from loadtest.run.options import MAX_PROCESSES, Parser, chosen_service, count, seconds
from loadtest.settings import MAX_RATE, LoadSettings, SettingsError
from loadtest.target import TargetError, parse_target
from slo.config import SloError
from slo.config import load as load_slo

T = TypeVar("T")

LEAST_BUDGET_SECONDS: Final = 30.0
SETTINGS: Final = (
    *("rate", "seed", "path", "data", "rows_per_request", "header", "body_file", "timeout_seconds"),
    *("slo_threshold_seconds", "slo_objective"),
)
_EPILOG: Final = """The rate in --rate is only where the search begins. exit codes: 0 a rate was confirmed; 1 the
objective cannot be met; 2 nothing was confirmed: too little time, a generator at its limit, or interrupted; 64 the
command cannot be used as it is."""
_EXAMPLE_TIMES: Final = "times such as 0,1ms,5ms"


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """One search."""

    settings: LoadSettings
    target: str
    admin: str
    token: str | None
    own_service: bool
    models: Mapping[str, str]  # SERVICE_MODEL by runtime
    job: str  # the service in slo.yaml
    slo: Objective
    edges: tuple[float, ...]
    budget_seconds: float
    batch_rows: tuple[int, ...] | None  # None: powers of two, as far as the service takes them
    waits_seconds: tuple[float, ...]
    policies: tuple[str, ...]
    workers: tuple[int | None, ...]
    out: Path | None  # None: out/tune, and an older search there is put aside
    processes: int
    cpus: tuple[int, ...]  # of the generator
    target_rate: float | None
    apply: bool
    grid: bool
    dry_run: bool

    def space(self, most_rows: int) -> Space:
        """The configs, of a service that takes batches of at most `most_rows`; UsageError."""
        runtimes: tuple[str | None, ...] = tuple(self.models) or (None,)
        try:
            if self.batch_rows is None:
                return Space.usual(
                    self.slo,
                    largest_batch_rows=min(LARGEST_BATCH_ROWS, most_rows),
                    waits_seconds=self.waits_seconds,
                    policies=self.policies,
                    workers=self.workers,
                    runtimes=runtimes,
                )
            if max(self.batch_rows) > most_rows:
                raise UsageError(
                    f"--batch-rows has {max(self.batch_rows)}; expected at most the queue's capacity, {most_rows} rows"
                )
            return Space(self.batch_rows, self.waits_seconds, self.policies, self.workers, runtimes)
        except ValueError as error:
            raise UsageError(str(error)) from None


def parser() -> argparse.ArgumentParser:
    """The options of `tune`."""
    made: argparse.ArgumentParser = Parser(
        prog="python -m loadtest tune",
        description="Finds the most throughput inside the latency objective, and the smallest batch that gives it.",
        epilog=_EPILOG,
        add_config_file_help=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add: Any = made.add_argument
    ports = {name: os.environ.get(name) or default for name, default in _PORTS.items()}
    add("--target", "--host", default=f"http://127.0.0.1:{ports['SERVICE_PORT']}", metavar="URL", help="the service")
    add(
        "--admin",
        default=f"http://127.0.0.1:{ports['SERVICE_ADMIN_PORT']}",
        metavar="URL",
        help="its admin port; the knobs are turned there, with the token of SERVICE_ADMIN_TOKEN or of make up",
    )
    add(
        "--own-service",
        action="store_true",
        help="start a service for this on free ports, as the SERVICE_… variables say, on CPUs apart from the generator",
    )
    add("--slo", default=os.environ.get("SLO_FILE") or "slo.yaml", metavar="FILE", help="the objective")
    add("--job", metavar="NAME", help="which service in it (default: the first)")
    add("--budget", default="10m", metavar="TIME", help="the whole search takes no longer")
    add("--out", metavar="DIR", help="for frontier.json, tuned.env and report.html (default: out/tune)")
    add("--batch-rows", metavar="LIST", help="max_batch_rows to try, such as 1,8,32 (default: powers of two to 128)")
    waits = ",".join(f"{1000 * each:g}ms" for each in WAITS_SECONDS)
    add("--waits", default=waits, metavar="LIST", help="max_wait_seconds to try; longer ones only where they may pay")
    add("--policy", default="adaptive", metavar="LIST", help=f"batching policies to try, of {', '.join(POLICIES)}")
    add("--workers", metavar="LIST", help="with --own-service: numbers of model workers to try, such as 1,2")
    add(
        "--runtime",
        action="append",
        default=[],
        metavar="NAME=MODEL",
        help="with --own-service: values of SERVICE_MODEL to try, each with a name; repeat the option",
    )
    add("--target-rate", type=float, metavar="RATE", help="say how many replicas carry this many requests per second")
    add("--processes", type=int, default=1, metavar="N", help="generator processes; one fills about one core")
    add("--cpus", metavar="LIST", help="CPUs of the generator, such as 1 (default: with --own-service the last one)")
    add("--apply", action="store_true", help="leave the service at the chosen knobs instead of those it had")
    add("--grid", action="store_true", help="search every config on its own instead: slow, to compare with")
    add("--dry-run", action="store_true", help="print the plan and do nothing")
    add_settings(made, SETTINGS)
    return made


_PORTS: Final = {"SERVICE_PORT": "8000", "SERVICE_ADMIN_PORT": "8001"}


def parse(argv: Sequence[str], cpus_here: Sequence[int]) -> TuneOptions:
    """The search that these arguments ask for; UsageError, SystemExit after --help."""
    given = vars(parser().parse_args(list(argv)))
    try:
        settings = LoadSettings().with_values(given)
        slo = load_slo(given["slo"])
        for name in ("target", "admin"):
            parse_target(given[name])
    except (SettingsError, SloError) as error:
        raise UsageError(str(error)) from None
    except TargetError as error:
        raise UsageError(f"--{name}: {error}") from None
    service = chosen_service(slo, given["job"], given["slo"])
    budget = seconds("--budget", given["budget"])
    if budget is None or budget < LEAST_BUDGET_SECONDS:
        raise UsageError(f"--budget is {given['budget']!r}; expected at least {LEAST_BUDGET_SECONDS:g}s, such as 10m")
    own = bool(given["own_service"])
    for name in ("workers", "runtime"):
        if given[name] and not own:
            raise UsageError(f"--{name} was given without --own-service; expected both: it takes a restart")
    target_rate = given["target_rate"]
    if target_rate is not None and not 0 < target_rate <= MAX_RATE * 1000:
        raise UsageError(f"--target-rate is {target_rate:g}; expected requests per second, above 0")
    if given["apply"] and own:
        raise UsageError("--apply and --own-service were both given; expected one: that service ends with the search")
    batch_rows = _list("--batch-rows", given["batch_rows"], _whole(1, 1_000_000), "whole numbers such as 1,8,32")
    workers = _list("--workers", given["workers"], _whole(1, 64), "whole numbers such as 1,2")
    cpus = _list("--cpus", given["cpus"], _whole(0, 4096), "CPU numbers such as 1")
    if cpus and not set(cpus) <= set(cpus_here):
        here = ",".join(map(str, cpus_here))
        raise UsageError(f"--cpus is {given['cpus']!r}; expected some of those that this process may use, {here}")
    if cpus is None and own and len(cpus_here) > 1:
        cpus = (max(cpus_here),)
    policies = _list("--policy", given["policy"], _policy, f"some of {', '.join(POLICIES)}")
    waits = _list("--waits", given["waits"], _wait, _EXAMPLE_TIMES)
    return TuneOptions(
        settings=settings,
        target=given["target"].rstrip("/"),
        admin=given["admin"].rstrip("/"),
        token=_token(),
        own_service=own,
        models=_models(given["runtime"]),
        job=service.job,
        slo=settings.objective(service),
        edges=slo.duration_edges,
        budget_seconds=budget,
        batch_rows=batch_rows,
        waits_seconds=waits or WAITS_SECONDS,
        policies=policies or ("adaptive",),
        workers=workers or (None,),
        out=None if given["out"] is None else Path(given["out"]),
        processes=count("--processes", given["processes"], 1, MAX_PROCESSES),
        cpus=cpus or (),
        target_rate=target_rate,
        apply=bool(given["apply"]),
        grid=bool(given["grid"]),
        dry_run=bool(given["dry_run"]),
    )


def _list(name: str, text: str | None, read: Callable[[str], T], expected: str) -> tuple[T, ...] | None:
    if text is None:
        return None
    try:
        values = tuple(read(part.strip()) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{name} is {text!r}; expected {expected}") from None
    if len(set(values)) < len(values):
        raise UsageError(f"{name} is {text!r}; expected each value once")
    return values


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise ValueError(text)
        return int(text)

    return read


def _policy(text: str) -> str:
    if text not in POLICIES:
        raise ValueError(text)
    return text


def _wait(text: str) -> float:
    for unit, scale in (("ms", 0.001), ("s", 1.0), ("", 1.0)):
        if text.endswith(unit):
            value = float(text.removesuffix(unit)) * scale
            if not 0 <= value <= 60 or (not unit and value):
                break
            return round(value, 9)
    raise ValueError(text)


def _models(given: Sequence[str]) -> dict[str, str]:
    models: dict[str, str] = {}
    for each in given:
        name, equals, model = each.partition("=")
        if not (equals and name.strip() and model.strip()) or name.strip() in models:
            raise UsageError(
                f"--runtime is {each!r}; expected NAME=MODEL, each name once, such as onnx=models/forest.onnx"
            )
        models[name.strip()] = model.strip()
    return models


def _token() -> str | None:
    """SERVICE_ADMIN_TOKEN, else the one that `make up` keeps."""
    if given := os.environ.get("SERVICE_ADMIN_TOKEN", "").strip():
        return given
    kept = Path(os.environ.get("TAILBOARD_STATE_DIR") or ".tailboard") / "admin-token"
    try:
        return kept.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None  # the service says what it expects
