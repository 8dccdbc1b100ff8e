"""More arrivals than the model can take: how much of its capacity still becomes good replies inside the deadline."""

from dataclasses import dataclass
from typing import Final

from bench import arrivals
from bench.open_loop import Answer
from bench.options import Options
from bench.rig import NotMeasured, Rig, start_seconds
from bench.servers import OURS
from bench.wrk import Request

CAPACITY_ROWS_PER_SECOND: Final = 500
MODEL: Final = "synthetic?fixed_seconds=0&per_row_seconds=0.002&features=8"  # 500 rows/s in batches of any size
TIMES: Final = (3, 10)
DEADLINE_SECONDS: Final = 1.0  # the service's default
REQUEST: Final = Request("/predict", b'{"instances": [[1, 2, 3, 4, 5, 6, 7, 8]]}')
_WARM_UP_SECONDS: Final = 2.0  # until the queue is as full as it gets
_QUICK_WARM_UP_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Overload:
    times: int
    seconds: float
    answer: Answer

    @property
    def in_time(self) -> int:
        """Replies with 2xx no later than the deadline, counted from the scheduled instant."""
        return self.answer.good_latencies_within[f"{DEADLINE_SECONDS:g}"]

    @property
    def share(self) -> float:
        """Of the model's capacity."""
        return self.in_time / (self.seconds * CAPACITY_ROWS_PER_SECOND)


def lengths(options: Options) -> tuple[float, float]:
    """(warm-up, counted) seconds of one load."""
    return (_QUICK_WARM_UP_SECONDS, 4.0) if options.quick else (_WARM_UP_SECONDS, 10.0)


def estimate(options: Options) -> float:
    return start_seconds(OURS, options) + len(TIMES) * _each_seconds(options)


def measure(rig: Rig, found: list[Overload]) -> None:
    warm_up, seconds = lengths(rig.options)
    with rig.ours(MODEL, REQUEST) as served:
        rig.progress.done(start_seconds(OURS, rig.options), "overload started")
        for times in TIMES:
            rate = float(times * CAPACITY_ROWS_PER_SECOND)
            answer = arrivals.send(rig, served, rate, seconds, (DEADLINE_SECONDS,), warm_up)
            if answer.offered == 0:
                raise NotMeasured("the open-loop client sent nothing")
            overload = Overload(times, seconds, answer)
            found.append(overload)
            rig.progress.done(
                _each_seconds(rig.options),
                f"overload {times} ×: {overload.in_time} good replies in time, {overload.share:.1%} of capacity; "
                f"{answer.refused} refused, {answer.failed} failed, {answer.dropped} never sent",
            )


def _each_seconds(options: Options) -> float:
    return sum(lengths(options)) + arrivals.GRACE_SECONDS
