"""The winning rate of the closed loop, confirmed open-loop: a closed loop asks less of a server that stalls.

Poisson arrivals at most of the rate that won; where p99 leaves its bound, at less and less of it. The client is a
Python program that needs far more CPU than wrk, and shares the machine with the server.
"""

from dataclasses import dataclass
from typing import Final

from bench import arrivals
from bench.open_loop import Answer
from bench.options import Options
from bench.reading import best
from bench.rig import NotMeasured, Rig, start_seconds
from bench.servers import OURS, Runtime
from bench.targets import SLO_SECONDS
from bench.throughput import Throughput

SHARES: Final = (0.95, 0.9, 0.8, 0.65, 0.5)
LATE_SECONDS: Final = 0.005  # a client later than this at p99 measured itself


@dataclass(frozen=True, slots=True)
class Confirmation:
    runtime: Runtime
    setting: str
    winning_rate: float
    share: float
    seconds: float
    answer: Answer

    @property
    def holds(self) -> bool:
        """p99 over all arrivals, from the scheduled instant, inside the bound."""
        p99 = self.answer.latency_p99_seconds
        return p99 is not None and p99 <= SLO_SECONDS

    @property
    def client_late(self) -> bool:
        return self.answer.lateness_p99_seconds > LATE_SECONDS


def each_seconds(options: Options) -> float:
    return 2.0 if options.quick else 5.0


def estimate(runtimes: int, options: Options) -> float:
    """For two tries each."""
    return runtimes * (start_seconds(OURS, options) + 2 * (each_seconds(options) + arrivals.WARM_UP_SECONDS))


def measure(rig: Rig, throughput: Throughput, found: list[Confirmation]) -> None:
    runtimes: list[Runtime] = ["sklearn", "onnx"]
    for runtime in runtimes:
        winner = best(throughput.family(OURS, runtime), SLO_SECONDS)
        if winner is None:
            continue
        server = throughput.server(winner.server)
        seconds = each_seconds(rig.options)
        with rig.serving(server) as served:
            rig.warm_up(served)
            rig.progress.done(start_seconds(OURS, rig.options), f"open loop {runtime}: {server.setting} started")
            for number, share in enumerate(SHARES):
                answer = arrivals.send(rig, served, share * winner.rate, seconds, (SLO_SECONDS,), seed=number + 1)
                if answer.offered == 0:
                    raise NotMeasured("the open-loop client sent nothing")
                confirmation = Confirmation(runtime, server.setting, winner.rate, share, seconds, answer)
                found.append(confirmation)
                planned = seconds + arrivals.WARM_UP_SECONDS if number < 2 else 0.0
                rig.progress.done(planned, sentence(confirmation))
                if confirmation.holds:
                    rig.progress.skip((1 - number) * (seconds + arrivals.WARM_UP_SECONDS) if number < 2 else 0.0)
                    break


def sentence(confirmation: Confirmation) -> str:
    """What was sent and what came back."""
    answer = confirmation.answer
    p99 = "beyond all" if answer.latency_p99_seconds is None else f"{1000 * answer.latency_p99_seconds:.1f} ms"
    late = f"; the client itself was late by {1000 * answer.lateness_p99_seconds:.1f} ms (p99)"
    rate = confirmation.share * confirmation.winning_rate
    return (
        f"open loop {confirmation.runtime}, {confirmation.setting}: {rate:,.0f}/s "
        f"({confirmation.share:.0%} of {confirmation.winning_rate:,.0f}/s), {answer.offered:,} due, "
        f"{answer.offered - answer.dropped:,} sent, {answer.good:,} answered well; p99 {p99} from the scheduled "
        f"instant{late}"
    )
