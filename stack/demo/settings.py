"""What a person may choose for a run of the demo; every default lives here."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

SABOTAGES: Final = ("stop-load", "halve-load")
# Requests in flight at most. The service's queue holds fewer, so this drops nothing that could have waited.
MOST_IN_FLIGHT: Final = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """One run. Ports and directories are the stack's own settings, from the environment."""

    out: Path = Path("out/demo")
    load_rps: float | None = None  # None: `load_over_capacity` times what one row at a time is measured to serve
    load_over_capacity: float = 2.5  # enough to break the SLO even if the machine turns out twice as fast later
    seed: int = 1
    batch_sizes: tuple[int, ...] = (1, 8, 128)  # of the ramp; the first is also the one that breaks
    ramp_seconds: float = 150.0
    limit_seconds: float = 480.0  # the whole demo, start of the stack included
    sabotage: str | None = None  # what is done instead of the cure, to show that the demo fails then


def check(settings: DemoSettings) -> None:
    """ValueError with one sentence for what cannot be used."""
    if settings.load_rps is not None and not 10 <= settings.load_rps <= 100_000:
        raise ValueError(f"--load-rps is {settings.load_rps:g}; expected 10 to 100000 requests per second")
    if not 0 <= settings.seed < 2**63:
        raise ValueError(f"--seed is {settings.seed}; expected a whole number from 0")
    sizes = settings.batch_sizes
    if len(sizes) < 2 or sorted(set(sizes)) != list(sizes) or sizes[0] < 1:
        raise ValueError(
            f"--batch-sizes is {','.join(map(str, sizes))}; expected at least two, rising, such as 1,8,128"
        )
    if settings.ramp_seconds < 20 * len(sizes):
        raise ValueError(
            f"--ramp-seconds is {settings.ramp_seconds:g}; expected at least {20 * len(sizes)}, 20 for each batch size"
        )
    if settings.sabotage is not None and settings.sabotage not in SABOTAGES:
        raise ValueError(f"--sabotage is {settings.sabotage!r}; expected {' or '.join(SABOTAGES)}")
