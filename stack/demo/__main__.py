"""`python -m stack.demo`: the whole story, unattended, with a report at the end.

Starts a stack of its own, breaks the SLO with a batch of one row, waits for the page, cures it at run time under the
same load, and draws p99 against throughput for several batch sizes.
"""

import argparse
import dataclasses
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from slo.config import SloError
from slo.config import load as load_slo
from stack import banner
from stack.demo import about
from stack.demo.driver import Driver, failed
from stack.demo.instruments import DemoError, Instruments
from stack.demo.measure import MeasureError
from stack.demo.record import Record
from stack.demo.report import write
from stack.demo.rest import cpu_seconds_of, until_idle
from stack.demo.settings import SABOTAGES, DemoSettings
from stack.demo.settings import check as check_settings
from stack.demo.telling import ending
from stack.errors import StackError
from stack.native import NativeStack
from stack.ports import PortsTaken
from stack.settings import ROOT, StackSettings
from stack.settings import SettingsError as StackSettingsError
from stack.state import StateDirectory

PASSED: Final = 0
FAILED: Final = 1
USAGE: Final = 64
JOB: Final = "inference"
ALERT: Final = "LatencySLOBreach"

_EPILOG: Final = """\
Ports and directories come from the environment, as for `python -m stack`; all that the demo's stack keeps is in
.tailboard/demo and begins anew each time. The cure is the batch that SERVICE_MAX_BATCH_ROWS and
SERVICE_MAX_WAIT_SECONDS say (128 rows, 5 ms).

To see the demo fail when it should:
  --sabotage stop-load             the alert clears because traffic stops: exit 1
  --sabotage halve-load            the load does not stay the same: exit 1
  TAILBOARD_RULES_DIR=broken/copy  with a threshold in the rule that nothing reaches, the alert never fires: exit 1

Exit codes: 0 all of it happened; 1 something did not, or the demo could not go on; 64 usage; 130 or 143 interrupted,
with what was measured in a partial report.
"""


class Interrupted(KeyboardInterrupt):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class SystemClock:
    """The machine's own time."""

    def now(self) -> float:
        return time.monotonic()

    def unix(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"error: {message}\n")


def main(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    began = time.monotonic()
    try:
        settings = parse(argv)
        stack_settings = own_stack(StackSettings.from_environment(environment))
        slo = load_slo(environment.get("SLO_FILE") or ROOT / "slo.yaml").service(JOB)
    except (StackSettingsError, SloError, ValueError) as error:
        return _complain(error, USAGE)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    record = Record(
        slo=slo,
        alert=ALERT,
        seed=settings.seed,
        slow_rows=settings.batch_sizes[0],
        started_at=about.now(),
        settings=about.settings(settings, stack_settings, environment),
        host=about.host(),
        versions=about.versions(),
    )
    code = _demo(settings, stack_settings, record, began)
    record.took_seconds = time.monotonic() - began
    if record.series:
        report = write(record, settings.out)
        _say(ending(record, report))
    return code


def parse(argv: Sequence[str]) -> DemoSettings:
    """The settings of this run; ValueError with one sentence for what cannot be used."""
    default = DemoSettings()
    parser = _Parser(
        prog="python -m stack.demo",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=default.out, metavar="DIR", help="report.html, result.json go here")
    parser.add_argument(
        "--load-rps",
        type=float,
        metavar="N",
        help=f"requests per second to offer; unset: {default.load_over_capacity:g} times what is measured",
    )
    parser.add_argument("--seed", type=int, default=default.seed, metavar="N", help="of the arrivals (%(default)s)")
    parser.add_argument(
        "--batch-sizes",
        type=_sizes,
        default=default.batch_sizes,
        metavar="N,N,…",
        help=f"of the ramp, rising; the first breaks the SLO ({','.join(map(str, default.batch_sizes))})",
    )
    parser.add_argument(
        "--ramp-seconds", type=float, default=default.ramp_seconds, metavar="N", help="time for the ramp (%(default)g)"
    )
    parser.add_argument("--sabotage", choices=SABOTAGES, help="do this instead of the cure, to see the demo fail")
    settings = DemoSettings(**vars(parser.parse_args(argv)))
    check_settings(settings)
    return settings


def own_stack(settings: StackSettings) -> StackSettings:
    """A state directory of the demo's own, so that no earlier alert is remembered, and CPUs apart where there are two.

    The trained model and the fetched programs are shared with `python -m stack`.
    """
    cpus = sorted(os.sched_getaffinity(0))
    environment = dict(settings.environment)
    if not environment.get("SERVICE_MODEL_CACHE_DIR", "").strip():
        environment["SERVICE_MODEL_CACHE_DIR"] = str(settings.state_dir / "models")
    settings = dataclasses.replace(settings, state_dir=settings.state_dir / "demo", environment=environment)
    if len(cpus) < 2 or settings.service_cpus or settings.generator_cpus:
        return settings
    return dataclasses.replace(settings, service_cpus=tuple(cpus[:-1]), generator_cpus=(cpus[-1],))


def _demo(settings: DemoSettings, stack_settings: StackSettings, record: Record, began: float) -> int:
    """Runs it on a stack that is stopped again whatever happens; the exit code."""
    try:
        _forget_earlier_runs(stack_settings)
        with NativeStack(stack_settings, say=_say) as stack:
            _say("\nThe stack is up; this is where to watch it:")
            _say(banner.table(stack.urls) + "\n")
            _run(stack, settings, record, began)
    except Interrupted as interrupt:
        record.interrupted = True
        _say(f"\nInterrupted ({interrupt}): everything is stopped, what was measured is kept.")
        return interrupt.exit_code
    except PortsTaken as error:
        return _complain(f"{error}\nIf that is `make up`, stop it first: the demo starts a stack of its own.", FAILED)
    except StackError as error:
        record.verdict = failed(error)
        return _complain(error, FAILED)
    return PASSED if record.verdict is not None and record.verdict.passed else FAILED


def _run(stack: NativeStack, settings: DemoSettings, record: Record, began: float) -> None:
    clock = SystemClock()
    until_idle(lambda: cpu_seconds_of(stack.pids.values()), clock)
    instruments = Instruments(stack.urls, stack.admin_token, record.slo, clock.now, stack.check)
    driver = Driver(instruments, clock, settings, record, _say, stack.check, began + settings.limit_seconds)
    try:
        record.versions = {**record.versions, "Prometheus": instruments.prometheus_version()}
        driver.run()
    except Interrupted:
        _say("\nInterrupted: putting the knobs back and stopping ...")
        try:
            driver.restore()
        except DemoError as error:
            _say(f"  {error}")
        raise
    except (DemoError, MeasureError) as error:
        record.verdict = failed(error)


def _forget_earlier_runs(settings: StackSettings) -> None:
    """An alert that an earlier run left firing would neither be sent again nor resolve."""
    state = StateDirectory(settings)
    try:
        shutil.rmtree(settings.data_dir)
        (settings.state_dir / "inbox.jsonl").unlink(missing_ok=True)
    finally:
        state.release()


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}; expected whole numbers such as 1,8,128") from None


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise Interrupted(number)


def _complain(error: object, code: int) -> int:
    print(f"error: {error}", file=sys.stderr, flush=True)
    return code


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
