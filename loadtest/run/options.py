"""What `python -m loadtest run` is asked: options and a scenario file, checked, with one sentence for what is wrong."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NoReturn

import configargparse

from loadtest.analysis.verdict import Objective
from loadtest.arguments import add_settings
from loadtest.errors import UsageError
from loadtest.settings import MAX_CAP, MAX_SECONDS, LoadSettings, SettingsError
from loadtest.target import TargetError, parse_target
from slo.config import Service, SloError, SloFile
from slo.config import load as load_slo
from slo.durations import parse_duration

MAX_PROCESSES: Final = 64
_EPILOG: Final = """exit codes: 0 PASS, the objective held; 1 FAIL, it did not; 2 INVALID, the generator is at fault or
there are too few samples; 64 the command cannot be used as it is."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """One run: the load, where it goes, how long it takes, what it is judged by."""

    settings: LoadSettings
    target: str
    duration_seconds: float | None  # the whole run, warm-up included; None: as long as the trace
    warmup_seconds: float
    slo: Objective
    edges: tuple[float, ...]
    out: Path
    processes: int
    users: int | None  # the cap on requests in flight; None: enough for every request to wait for its whole timeout
    closed_users: int  # 0: open loop
    abort_seconds: float | None
    user: str  # a file with a user class of one's own, maybe with :Class after it


class Parser(configargparse.ArgumentParser):  # type: ignore[misc]
    """Raises UsageError for what argparse would exit for."""

    def error(self, message: str) -> NoReturn:
        """argparse would end with 2, which is INVALID here."""
        raise UsageError(message)


def parser() -> argparse.ArgumentParser:
    """The options of `run`."""
    made: argparse.ArgumentParser = Parser(
        prog="python -m loadtest run",
        description="Sends an open-loop load to a service for a while and says whether its latency objective held.",
        epilog=_EPILOG,
        add_config_file_help=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add: Any = made.add_argument
    add("--config", is_config_file_arg=True, metavar="FILE", help="a scenario file, such as loadtest/scenario.conf")
    port = os.environ.get("SERVICE_PORT", "8000")
    add("--target", "--host", default=f"http://127.0.0.1:{port}", metavar="URL", help="where the service listens")
    add(
        "--duration",
        "--run-time",
        metavar="TIME",
        help="the whole run, such as 60s or 10m (default: 60s; of a trace, its length)",
    )
    add("--warmup", default="5s", metavar="TIME", help="the beginning of the run that is not measured")
    add("--slo", default=os.environ.get("SLO_FILE", "slo.yaml"), metavar="FILE", help="the objective to judge by")
    add("--job", metavar="NAME", help="which service in it (default: the first)")
    add("--out", metavar="DIR", help="for result.json and report.html (default: out/run-<time>)")
    add("--processes", type=int, default=1, metavar="N", help="generator processes; one fills about one core")
    add("--users", type=int, metavar="N", help="cap on requests in flight (default: enough for the timeout)")
    add(
        "--closed-loop",
        type=int,
        default=0,
        metavar="N",
        help="N users ask one after the other instead, to see what that hides",
    )
    add(
        "--abort-on-breach",
        metavar="TIME",
        help="end early once the objective has been broken for so long, such as 10s",
    )
    add(
        "--user",
        default="",
        metavar="FILE[:CLASS]",
        help="a Locust user class of your own, with OnSchedule among its bases",
    )
    add_settings(made)
    return made


def parse(argv: Sequence[str], now: datetime) -> RunOptions:
    """The run that these arguments ask for; UsageError, SystemExit after --help."""
    given = vars(parser().parse_args(list(argv)))
    try:
        settings = LoadSettings().with_values(given)
        parse_target(given["target"])
        slo = load_slo(given["slo"])
    except (SettingsError, TargetError, SloError) as error:
        raise UsageError(str(error)) from None
    service = chosen_service(slo, given["job"], given["slo"])
    duration = seconds("--duration", given["duration"])
    warmup = seconds("--warmup", given["warmup"], may_be_zero=True) or 0.0
    if duration is None and settings.arrivals != "trace":
        duration = 60.0
    if duration is not None and warmup >= duration:
        raise UsageError(
            f"--warmup is {given['warmup']} and --duration {duration:g}s; expected a warm-up shorter than the run"
        )
    closed = count("--closed-loop", given["closed_loop"], 0, MAX_CAP)
    if closed and given["user"]:
        raise UsageError("--closed-loop and --user were both given; expected one of them")
    return RunOptions(
        settings=settings,
        target=given["target"].rstrip("/"),
        duration_seconds=duration,
        warmup_seconds=warmup,
        slo=settings.objective(service),
        edges=slo.duration_edges,
        out=Path(given["out"] or f"out/run-{now:%Y%m%d-%H%M%S}"),
        processes=count("--processes", given["processes"], 1, MAX_PROCESSES),
        users=None if given["users"] is None else count("--users", given["users"], 1, MAX_CAP),
        closed_users=closed,
        abort_seconds=seconds("--abort-on-breach", given["abort_on_breach"]),
        user=given["user"],
    )


def chosen_service(slo: SloFile, job: str | None, source: str) -> Service:
    """The service of that job, the first without one; UsageError if `source` has none."""
    jobs = {each.job: each for each in slo.services}
    if job is not None and job not in jobs:
        raise UsageError(f"--job is {job!r}; expected one of {', '.join(jobs)}, as {source} has it")
    return slo.services[0] if job is None else jobs[job]


def seconds(name: str, text: str | None, may_be_zero: bool = False) -> float | None:
    """What the option `name` says, in seconds; UsageError."""
    if text is None:
        return None
    if may_be_zero and text.strip() in ("0", "0s"):
        return 0.0
    try:
        value = float(parse_duration(f"{text}s" if text.strip().isdigit() else text))
    except ValueError:
        raise UsageError(f"{name} is {text!r}; expected a time such as 30s, 10m or 1h") from None
    if not 0 < value <= MAX_SECONDS:
        raise UsageError(f"{name} is {text!r}; expected more than 0 and at most {MAX_SECONDS / 86_400:g} days")
    return value


def count(name: str, value: int, least: int, most: int) -> int:
    """`value` of the option `name` if it is in its range; UsageError."""
    if not least <= value <= most:
        raise UsageError(f"{name} is {value}; expected a whole number from {least} to {most}")
    return value
