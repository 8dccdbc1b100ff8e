"""All that a run has found so far, and the verdicts that follow from it. Pure."""

from dataclasses import dataclass, field, replace

from bench import large, latency, targets
from bench.confirm import Confirmation
from bench.large import Large
from bench.latency import Latency
from bench.loadgen import MOST_OTHERS_SHARE, LoadGen
from bench.metrics_cost import MetricsCost
from bench.options import Options
from bench.overload import TIMES, Overload
from bench.servers import OURS, Runtime
from bench.table import milliseconds
from bench.targets import Verdict, at_least, at_most
from bench.throughput import Throughput
from bench.yardstick import Calibration

RUNTIMES: tuple[Runtime, ...] = ("sklearn", "onnx")


@dataclass(slots=True)
class Found:
    """Filled as the run goes on; right at any moment."""

    options: Options
    throughput: Throughput
    confirmations: list[Confirmation] = field(default_factory=list)
    latencies: list[Latency] = field(default_factory=list)
    larges: list[Large] = field(default_factory=list)
    metrics_cost: MetricsCost = field(default_factory=MetricsCost)
    overloads: list[Overload] = field(default_factory=list)
    loadgen: LoadGen = field(default_factory=LoadGen)
    failures: dict[str, str] = field(default_factory=dict)  # part: why it was not measured
    interrupted: bool = False
    calibrations: list[tuple[str, Calibration]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether all that was asked for was measured."""
        return not (self.failures or self.throughput.failures or self.interrupted)

    def verdicts(self) -> list[Verdict]:
        """Every target, measured or not; those against peers that were not asked for are left out."""
        families = {*self.options.peers, *(server.family for server in self.throughput.servers)}
        families |= {"mosec_lean", "mosec_onnx"} if "mosec" in families else set()
        against = [
            targets.ratio(
                runtime,
                family,
                bound,
                least,
                self.throughput.family(OURS, runtime),
                self.throughput.family(family, runtime),
            )
            for runtime, family, bound, least in targets.RATIOS
            if family in families
        ]
        return [
            *against,
            *(self._latency(runtime) for runtime in RUNTIMES),
            *(self._large(runtime) for runtime in RUNTIMES),
            self._metrics(),
            *(self._overload(times) for times in TIMES),
            *self._loadgen(),
        ]

    def _latency(self, runtime: Runtime) -> Verdict:
        best = latency.better(self.latencies, runtime)
        setting = f", {best.setting}" if best else ""
        verdict = at_most(
            f"p50 with one connection, added to the bare {runtime} call{setting}",
            best.added_seconds if best else None,
            targets.MOST_ADDED_SECONDS[runtime],
            milliseconds,
        )
        if verdict.value is not None and verdict.value <= 0:  # a service cannot be quicker than the model in it
            return replace(verdict, met="undecided", margin="too much noise")
        return verdict

    def _large(self, runtime: Runtime) -> Verdict:
        best = large.better(self.larges, runtime)
        setting = f", {best.setting}" if best else ""
        return at_least(
            f"rows/s in requests of {large.ROWS} rows, over the bare {runtime} runtime{setting}",
            best.share if best else None,
            targets.LEAST_LARGE_SHARE,
            "{:.2f} ×".format,
        )

    def _metrics(self) -> Verdict:
        """Decided only where the whole interval lies on one side of the target: noise is larger than what is sought."""
        bound = targets.MOST_METRICS_COST
        verdict = at_most("cost of all metrics, of requests/s", self.metrics_cost.cost, bound, "{:.1%}".format)
        interval = self.metrics_cost.interval
        if verdict.value is None or (interval and (interval[1] <= bound or interval[0] > bound)):
            return verdict
        return replace(verdict, met="undecided", margin="too much noise")

    def _overload(self, times: int) -> Verdict:
        share = next((overload.share for overload in self.overloads if overload.times == times), None)
        return at_least(
            f"overload at {times} ×: 2xx inside the deadline, of the model's capacity",
            share,
            targets.LEAST_OVERLOAD_SHARE,
            "{:.1%}".format,
        )

    def _loadgen(self) -> list[Verdict]:
        """A rate that was sent is sent, however busy the machine; what was missed while it was is not decided."""
        found = self.loadgen
        ratio = at_least(
            "open-loop arrivals/s from one core, all sent, over FastHttpUser's closed loop",
            found.ratio,
            targets.LEAST_OPEN_LOOP_RATIO,
            "{:.2f} ×".format,
        )
        late = at_most(
            f"dispatch lateness p99 at half of {targets.LEAST_OPEN_LOOP_RATIO} × FastHttpUser's rate",
            found.half.lateness_p99_seconds if found.half else None,
            targets.MOST_LATENESS_SECONDS,
            milliseconds,
        )
        error = at_most(
            "p99 against a server with known delays, off by", found.error, targets.MOST_P99_ERROR, "{:.2%}".format
        )
        memory = at_most(
            "memory over ten million requests, grown since the first million",
            found.growth_bytes,
            targets.MOST_GROWTH_BYTES,
            lambda held: f"{held / 1e6:.1f} MB",
        )
        late = _if_undisturbed(late, found.half.others_share if found.half else 0.0)
        return [ratio, late, _if_undisturbed(error, found.truth_disturbed), memory]


def _if_undisturbed(verdict: Verdict, others: float) -> Verdict:
    """A miss while `others` of the generator's core went elsewhere decides nothing."""
    if verdict.met == "no" and others > MOST_OTHERS_SHARE:
        return replace(verdict, met="undecided", margin=f"others took {others:.0%} of the generator's CPU")
    return verdict
