"""Measures the load generator against servers whose delays are known; generator and server on different CPUs."""

import contextlib
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil

from bench import hey, wrk
from bench.known_delays import read_log
from bench.loadgen import FAST_HTTP, LEAN, OURS, Closed, LoadGen, Memory, Sent, Truth
from bench.options import Options
from bench.programs import ROOT, Program, ProgramFailed, run
from bench.rig import NotMeasured, Rig, cpus
from bench.targets import LEAST_OPEN_LOOP_RATIO
from bench.wrk import Request
from loadtest.rows import digit_rows, instances
from stack.binaries import DEFAULT_BIN_DIR, BinariesError, obtain_hey

REQUESTS: Final = 10_000_000
_QUICK_REQUESTS: Final = 200_000
_CLOSED_USERS: Final = (10, 50)
_LEAN_USERS: Final = 32
_CAP: Final = 1000  # users of an open-loop run: what a generator may have in flight before it drops
_STEP_UP: Final = 1.2
_STEP_DOWN: Final = 0.9
_MOST_STEPS: Final = 8
_LEAST_RATIO: Final = 0.4
_SETTLE_SECONDS: Final = 1.5  # of a closed loop, before it counts
_MOMENT_SECONDS: Final = 0.1  # after the schedule's end, for the last to arrive
_WARM_UP_SECONDS: Final = 1
_START_SECONDS: Final = 6.0  # estimate for a generator's start and end
_LIMIT_SECONDS: Final = 60.0
_TRUTH_RATE: Final = 500
_WITNESS_CONNECTIONS: Final = 16
DELAYS: Final = ("lognormal:0.02:0.5", "0.05")
_BODY: Final = instances(digit_rows()[:1])
_MEMORY_SECONDS: Final = 40e-6  # estimate a request


@dataclass(frozen=True, slots=True)
class Known:
    """A running server with known delays."""

    program: Program
    url: str
    logs: Path

    def order(self, **order: Any) -> int:
        """How many have arrived."""
        return int(json.loads(self.program.ask(json.dumps(order), _LIMIT_SECONDS))["arrivals"])

    def log(self) -> Any:
        """(arrived, answered), two columns of monotonic seconds; it is then forgotten."""
        path = self.logs / "known-delays.npy"
        self.order(log=str(path))
        self.order(forget=True)
        rows = read_log(path)
        if not len(rows):
            raise NotMeasured("no request came to the server with known delays")
        return rows[np.argsort(rows[:, 0])].T


@contextlib.contextmanager
def known(rig: Rig, server_cpus: Sequence[int], *arguments: str) -> Iterator[Known]:
    """A server with these arguments."""
    argv = [sys.executable, "-m", "bench.known_delays", *arguments]
    with Program(argv, os.environ, ROOT, rig.logs / "known-delays.log", server_cpus, talks=True) as program:
        try:
            port = json.loads(program.ask(None, _LIMIT_SECONDS))["port"]
        except ProgramFailed as error:
            raise NotMeasured(f"the server with known delays: {error}") from error
        yield Known(program, f"http://127.0.0.1:{port}", rig.logs)


def seconds(options: Options) -> int:
    """Of each load."""
    return 2 if options.quick else 5


def truth_seconds(options: Options) -> int:
    """Of each load whose p99 is compared with the truth."""
    return 5 if options.quick else 10


def _rounds(options: Options) -> int:
    """Of the comparison with the truth; one bad moment is not to decide."""
    return 1 if options.quick else 3


def estimate(options: Options) -> float:
    """For five steps of the search."""
    loads = 2 * len(_CLOSED_USERS) + 1 + 5 + 2
    truths = len(DELAYS) * (_rounds(options) + 2)
    return loads * (seconds(options) + _START_SECONDS) + truths * (truth_seconds(options) + _START_SECONDS / 2)


def memory_estimate(options: Options) -> float:
    return 2 * _requests(options) * _MEMORY_SECONDS


def measure(rig: Rig, found: LoadGen) -> None:
    """Rates first, then how true the figures are."""
    generator_cpus, server_cpus = cpus(True)
    with known(rig, server_cpus) as server:
        for users in _CLOSED_USERS:
            _closed_loop(rig, server, generator_cpus, users, found)
        _lean_closed_loop(rig, server, generator_cpus, found)
        _search(rig, server, generator_cpus, found)
        for users in _CLOSED_USERS:  # once more, for the machine may have become faster meanwhile
            _closed_loop(rig, server, generator_cpus, users, found)
        if found.best is not None:
            found.half_of_best = _open_loop(rig, server, generator_cpus, found.best.rate / 2, seconds(rig.options))
            _done(rig, f"half of the best: late by {1000 * found.half_of_best.lateness_p99_seconds:.2f} ms (p99)")
        assert found.yardstick is not None
        rate = LEAST_OPEN_LOOP_RATIO * found.yardstick / 2
        found.half = _open_loop(rig, server, generator_cpus, rate, seconds(rig.options))
        _done(rig, f"half of the target: late by {1000 * found.half.lateness_p99_seconds:.2f} ms (p99)")
    for number in range(_rounds(rig.options)):
        for delays in DELAYS:
            _truth(rig, generator_cpus, server_cpus, delays, found, witnesses=number == 0)


def measure_memory(rig: Rig, found: LoadGen) -> None:
    """Ten million requests, with samples and without."""
    requests = _requests(rig.options)
    for samples in (True, False):
        argv = [sys.executable, "-m", "bench.loadgen_memory", "--requests", str(requests)]
        limit = 10 * requests * _MEMORY_SECONDS + _LIMIT_SECONDS
        log = rig.logs / "loadgen-memory.log"
        try:
            said = run([*argv, *(["--samples"] if samples else [])], os.environ, log, limit, rig.generator_cpus)
        except ProgramFailed as error:
            raise NotMeasured(str(error)) from error
        lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        readings = tuple((line["requests"], line["resident_bytes"]) for line in lines)
        memory = Memory(samples, readings, lines[-1]["seconds"])
        found.memories.append(memory)
        rig.progress.done(
            requests * _MEMORY_SECONDS,
            f"memory {'with' if samples else 'without'} samples: {readings[-1][1] / 1e6:.1f} MB after "
            f"{readings[-1][0]:,} requests, grown by {memory.growth_bytes / 1e6:.1f} MB since a tenth of them",
        )


def _requests(options: Options) -> int:
    return _QUICK_REQUESTS if options.quick else REQUESTS


def _done(rig: Rig, text: str) -> None:
    rig.progress.done(seconds(rig.options) + _START_SECONDS, text)


def _generate(rig: Rig, name: str, argv: Sequence[str], limit: float, generator_cpus: Sequence[int]) -> float:
    """A generator to its end; FAIL and INVALID are ends too. The share of its CPUs that others took.

    NotMeasured if it breaks.
    """
    rig.calibrate(name)
    log = rig.logs / f"{name}.log"
    busy = Busy(generator_cpus)
    try:
        with Program(argv, os.environ, ROOT, log, generator_cpus) as program:
            code = program.wait(limit)
            if code not in (0, 1, 2):
                raise NotMeasured(f"{name} ended with exit code {code}{program.tail()}")
    except ProgramFailed as error:
        raise NotMeasured(f"{name}: {error}") from error
    return busy.others_share()


class Busy:
    """How busy some CPUs are with what is not our own children that have ended."""

    def __init__(self, of_cpus: Sequence[int]) -> None:
        self._cpus = of_cpus
        self._began, self._busy, self._ours = time.monotonic(), self._all(), self._children()

    def others_share(self) -> float:
        """Of these CPUs since the beginning; 0 where it is not known which they are."""
        if not self._cpus:
            return 0.0
        span = (time.monotonic() - self._began) * len(self._cpus)
        return max(0.0, (self._all() - self._busy) - (self._children() - self._ours)) / span

    def _all(self) -> float:
        """Seconds of programs, and those that the machine below took; interrupts for our own traffic are left out."""
        times = psutil.cpu_times(percpu=True)
        names = ("user", "nice", "system", "steal")
        return sum(getattr(times[cpu], name, 0.0) for cpu in self._cpus for name in names)

    def _children(self) -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime


def _closed_loop(rig: Rig, server: Known, generator_cpus: Sequence[int], users: int, found: LoadGen) -> None:
    span = seconds(rig.options)
    argv = [str(Path(sys.executable).with_name("locust")), "-f", "bench/fast_http_user.py", "--headless"]
    argv += ["-H", server.url, "-u", str(users), "-r", str(users), "-t", f"{span + 2 * _SETTLE_SECONDS:g}s"]
    others = _generate(rig, "fast-http-user", [*argv, "--only-summary"], span + _LIMIT_SECONDS, generator_cpus)
    rate = _counted(server.log()[0], span)
    found.closed.append(Closed(FAST_HTTP, users, rate, others_share=others))
    _done(rig, f"closed loop, {FAST_HTTP}, {users} users: {rate:,.0f}/s at the server")


def _lean_closed_loop(rig: Rig, server: Known, generator_cpus: Sequence[int], found: LoadGen) -> None:
    span = seconds(rig.options)
    more = ("--closed-loop", str(_LEAN_USERS))
    result, others = _run_loadtest(rig, server, generator_cpus, 100, span + 2 * _SETTLE_SECONDS, more)
    rate = _counted(server.log()[0], span)
    found.closed.append(Closed(LEAN, _LEAN_USERS, rate, result["generator"]["cpu_share"], others))
    _done(rig, f"closed loop, {LEAN}, {_LEAN_USERS} users: {rate:,.0f}/s at the server")


def _counted(arrived: Any, span: float) -> float:
    """Arrivals a second in the middle of a closed loop."""
    began = arrived[0] + _SETTLE_SECONDS
    return float(np.count_nonzero((arrived >= began) & (arrived < began + span)) / span)


def _search(rig: Rig, server: Known, generator_cpus: Sequence[int], found: LoadGen) -> None:
    """The highest rate that is sent whole: from the target upwards, or else downwards. A failure has a second try."""
    assert found.yardstick is not None
    ratio, upwards = LEAST_OPEN_LOOP_RATIO, True
    for _ in range(_MOST_STEPS):
        for _ in range(2):
            sent = _open_loop(rig, server, generator_cpus, ratio * found.yardstick, seconds(rig.options))
            found.sent.append(sent)
            told = "every arrival sent" if sent.whole else f"{sent.dropped:,} dropped, {sent.in_time:,} in time"
            _done(rig, f"open loop {sent.rate:,.0f}/s ({ratio:.2f} ×): {told} of {sent.offered:,}")
            if sent.whole:
                break
        if sent.whole and not upwards:
            return
        if not sent.whole:
            if found.best is not None or ratio < _LEAST_RATIO:
                return
            upwards = False
        ratio *= _STEP_UP if upwards else _STEP_DOWN


def _open_loop(rig: Rig, server: Known, generator_cpus: Sequence[int], rate: float, span: float) -> Sent:
    length = span + _WARM_UP_SECONDS
    result, others = _run_loadtest(rig, server, generator_cpus, rate, length, ("--users", str(_CAP)))
    arrived = server.log()[0]
    lateness = result["dispatch_lateness_seconds"]
    return Sent(
        rate=rate,
        offered=result["offered"],
        dropped=result["dropped"],
        arrived=len(arrived),
        in_time=int(np.count_nonzero(arrived <= arrived[0] + length + _MOMENT_SECONDS)),
        lateness_p50_seconds=lateness["p50"],
        lateness_p99_seconds=lateness["p99"],
        latency_p99_seconds=result["latency_seconds"]["p99"],
        cpu_share=result["generator"]["cpu_share"],
        others_share=others,
    )


def _run_loadtest(
    rig: Rig, server: Known, generator_cpus: Sequence[int], rate: float, length: float, more: Sequence[str] = ()
) -> tuple[dict[str, Any], float]:
    """(its result, the share of its CPU that others took)."""
    out = rig.logs / "loadtest"
    shutil.rmtree(out, ignore_errors=True)
    argv = [
        sys.executable,
        "-m",
        "loadtest",
        "run",
        "--target",
        server.url,
        "--rate",
        f"{rate:.1f}",
        "--slo",
        "slo.yaml",
    ]
    argv += ["--duration", f"{length:g}s", "--warmup", f"{_WARM_UP_SECONDS}s", "--out", str(out), *more]
    others = _generate(rig, "loadtest-run", argv, length + _LIMIT_SECONDS, generator_cpus)
    result: dict[str, Any] = json.loads((out / "result.json").read_text())
    shutil.rmtree(out / "samples", ignore_errors=True)
    return result, others


def _truth(
    rig: Rig,
    generator_cpus: Sequence[int],
    server_cpus: Sequence[int],
    delays: str,
    found: LoadGen,
    witnesses: bool,
) -> None:
    span = truth_seconds(rig.options)
    with known(rig, server_cpus, "--delay", delays) as server:
        result, others = _run_loadtest(rig, server, generator_cpus, _TRUTH_RATE, span + _WARM_UP_SECONDS)
        arrived, answered = server.log()
        measured = arrived >= arrived[0] + _WARM_UP_SECONDS
        said = result["latency_seconds"]["p99"]
        _tell(rig, found, Truth(delays, OURS, said, _p99((answered - arrived)[measured]), int(measured.sum()), others))
        for name, p99, others in _witnesses(rig, server, generator_cpus, span, found) if witnesses else ():
            arrived, answered = server.log()
            applied = (answered - arrived)[~np.isnan(answered)]
            _tell(rig, found, Truth(delays, name, p99, _p99(applied), len(applied), others))


def _tell(rig: Rig, found: LoadGen, truth: Truth) -> None:
    found.truths.append(truth)
    said = "nothing" if truth.said_seconds is None else f"{1000 * truth.said_seconds:.2f} ms"
    rig.progress.done(
        truth_seconds(rig.options) + _START_SECONDS / 2,
        f"p99 of {truth.delays} by {truth.by}: {said}, in truth {1000 * truth.true_seconds:.2f} ms",
    )


def _p99(values: Any) -> float:
    """Nearest rank."""
    return float(np.sort(values)[int(np.ceil(0.99 * len(values))) - 1])


def _witnesses(
    rig: Rig, server: Known, generator_cpus: Sequence[int], span: int, found: LoadGen
) -> Iterator[tuple[str, float | None, float]]:
    """(who, the p99 that it reports, the share of its CPU that others took), one load each."""
    request = Request("/predict", _BODY)
    url = f"{server.url}{request.path}"
    limit = span + _LIMIT_SECONDS
    script = rig.logs / "known-delays.lua"
    script.write_text(wrk.script(request))
    try:
        command = wrk.command(rig.wrk, script, url, _WITNESS_CONNECTIONS, span)
        busy = Busy(generator_cpus)
        said = run(command, os.environ, rig.logs / "wrk.log", limit, generator_cpus)
        yield "wrk", wrk.parse(said).p99_seconds, busy.others_share()
        program = obtain_hey(Path(os.environ.get("TAILBOARD_BIN_DIR") or DEFAULT_BIN_DIR), rig.progress.say)
        command = hey.command(program, request, url, _WITNESS_CONNECTIONS, span)
        busy = Busy(generator_cpus)
        said = run(command, os.environ, rig.logs / "hey.log", limit, generator_cpus)
        yield "hey", hey.parse(said).p99_seconds, busy.others_share()
    except BinariesError as error:
        if not found.missing:
            found.missing.append(str(error).rstrip("."))
    except (ProgramFailed, wrk.WrkError, hey.HeyError) as error:
        raise NotMeasured(str(error)) from error
