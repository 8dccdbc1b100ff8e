"""All that a run has found so far, and the verdicts that follow from it."""

from dataclasses import dataclass, field

from bench import targets
from bench.options import Options
from bench.servers import OURS
from bench.targets import Verdict
from bench.throughput import Throughput
from bench.yardstick import Calibration


@dataclass(slots=True)
class Found:
    options: Options
    throughput: Throughput
    failures: dict[str, str] = field(default_factory=dict)  # part: why it was not measured
    interrupted: bool = False
    calibrations: list[tuple[str, Calibration]] = field(default_factory=list)

    def verdicts(self) -> list[Verdict]:
        """Every target, whether measured or not; those of peers that were not asked for are left out."""
        asked = {(server.family, server.runtime) for server in self.throughput.servers}
        rows = [
            targets.ratio(
                runtime,
                family,
                bound,
                least,
                self.throughput.family(OURS, runtime),
                self.throughput.family(family, runtime),
            )
            for runtime, family, bound, least in targets.RATIOS
            if (family, runtime) in asked
        ]
        return rows

    @property
    def complete(self) -> bool:
        """Whether all that was asked for was measured."""
        return not (self.failures or self.throughput.failures or self.interrupted)
