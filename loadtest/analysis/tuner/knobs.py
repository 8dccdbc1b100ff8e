"""What the tuner may turn, and which settings are worth a look."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal, get_args

from loadtest.analysis.verdict import Slo
from loadtest.analysis.words import setting_text

Policy = Literal["adaptive", "fixed"]
POLICIES: Final = get_args(Policy)

LARGEST_BATCH_ROWS: Final = 128
WAITS_SECONDS: Final = (0.0, 0.001, 0.002, 0.005)
WAIT_SHARE: Final = 0.5  # of the SLO's threshold; a longer wait leaves the model less than it takes itself


@dataclass(frozen=True, slots=True, order=False)
class Knobs:
    """One setting of the service; None for what stays as the service has it."""

    max_batch_rows: int
    max_wait_seconds: float
    policy: str = "adaptive"
    workers: int | None = None
    runtime: str | None = None

    def __post_init__(self) -> None:
        if self.max_batch_rows < 1:
            raise ValueError(f"max_batch_rows is {self.max_batch_rows}; expected a whole number of at least 1")
        if not 0 <= self.max_wait_seconds <= 60:
            raise ValueError(f"max_wait_seconds is {self.max_wait_seconds}; expected a number from 0 to 60")
        if self.policy not in POLICIES:
            raise ValueError(f"policy is {self.policy!r}; expected {' or '.join(POLICIES)}")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers is {self.workers}; expected a whole number of at least 1")

    @property
    def family(self) -> tuple[str, int | None, str | None]:
        """Settings that differ only in batch and wait are of one family."""
        return self.policy, self.workers, self.runtime

    @property
    def size(self) -> tuple[int, float]:
        """Smaller is preferred: the batch first, then the wait."""
        return self.max_batch_rows, self.max_wait_seconds

    def told(self) -> str:
        """Such as "batch 32, wait 2 ms, adaptive, 2 workers, onnx"."""
        parts = [f"batch {self.max_batch_rows}", f"wait {setting_text(self.max_wait_seconds)}", self.policy]
        if self.workers is not None:
            parts.append(f"{self.workers} worker{'' if self.workers == 1 else 's'}")
        if self.runtime is not None:
            parts.append(self.runtime)
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Space:
    """The settings to choose from: every batch size with every wait, policy, number of workers and runtime.

    The first policy, number of workers and runtime are preferred where others are no better.
    """

    batch_rows: tuple[int, ...]
    waits_seconds: tuple[float, ...] = (0.0,)
    policies: tuple[str, ...] = ("adaptive",)
    workers: tuple[int | None, ...] = (None,)
    runtimes: tuple[str | None, ...] = (None,)

    def __post_init__(self) -> None:
        for name in ("batch_rows", "waits_seconds", "policies", "workers", "runtimes"):
            values: tuple[object, ...] = getattr(self, name)
            if not values:
                raise ValueError(f"the space has no {name}; expected at least one")
            if len(set(values)) < len(values):
                raise ValueError(f"the space has {name} {values}; expected each value once")
        object.__setattr__(self, "batch_rows", tuple(sorted(self.batch_rows)))
        object.__setattr__(self, "waits_seconds", tuple(sorted(self.waits_seconds)))
        for _ in self:  # each is checked as it is made
            pass

    @classmethod
    def usual(
        cls,
        slo: Slo,
        *,
        largest_batch_rows: int = LARGEST_BATCH_ROWS,
        waits_seconds: Sequence[float] = WAITS_SECONDS,
        policies: Sequence[str] = ("adaptive",),
        workers: Sequence[int | None] = (None,),
        runtimes: Sequence[str | None] = (None,),
    ) -> "Space":
        """Batches of 1, 2, 4, … up to `largest_batch_rows`, and those of the waits that fit into the objective."""
        if largest_batch_rows < 1:
            raise ValueError(f"the largest batch is {largest_batch_rows} rows; expected at least 1")
        doubled = [1 << power for power in range(largest_batch_rows.bit_length())]
        fitting = [wait for wait in waits_seconds if wait <= WAIT_SHARE * slo.threshold_seconds]
        return cls(
            tuple(sorted({*doubled, largest_batch_rows})),
            tuple(fitting or [min(waits_seconds)]),
            tuple(policies),
            tuple(workers),
            tuple(runtimes),
        )

    def __iter__(self) -> Iterator[Knobs]:
        """All settings: by family, and in it the smaller batch, then the smaller wait first."""
        families = product(self.runtimes, self.workers, self.policies)
        for (runtime, workers, policy), batch, wait in product(families, self.batch_rows, self.waits_seconds):
            yield Knobs(batch, wait, policy, workers, runtime)

    def __len__(self) -> int:
        return (
            len(self.batch_rows) * len(self.waits_seconds) * len(self.policies) * len(self.workers) * len(self.runtimes)
        )

    def sizes(self) -> list[Knobs]:
        """Every batch size of every family with the smallest wait, which with late binding rarely matters."""
        return [knobs for knobs in self if knobs.max_wait_seconds == self.waits_seconds[0]]

    def longer_waits(self, knobs: Knobs) -> list[Knobs]:
        """The same setting with each longer wait."""
        return [
            Knobs(knobs.max_batch_rows, wait, knobs.policy, knobs.workers, knobs.runtime)
            for wait in self.waits_seconds
            if wait > knobs.max_wait_seconds
        ]
