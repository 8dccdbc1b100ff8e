"""How the settings of a search are drawn: the same in every plot."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from loadtest.analysis.report.axes import Key
from loadtest.analysis.tuner.knobs import Knobs
from loadtest.analysis.tuner.trial import Measured
from loadtest.analysis.words import setting_text

SHADES: Final = 8  # colours of batch sizes, from @batch0 to @batch7
_DASHES: Final = ("solid", "dash", "dot", "longdash")  # by wait, the shortest first
_DASH_WORDS: Final = ("solid", "dashed", "dotted", "long dashes")
_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up")  # by policy, workers and runtime


@dataclass(frozen=True, slots=True)
class Looks:
    """How each setting is drawn: its batch by colour, its wait by dashes, all else by the shape of its points."""

    sizes: Sequence[int]
    waits: Sequence[float]
    families: Sequence[tuple[str, int | None, str | None]]

    @classmethod
    def of(cls, settings: Iterable[Knobs]) -> "Looks":
        settings = list(settings)
        return cls(
            sorted({knobs.max_batch_rows for knobs in settings}),
            sorted({knobs.max_wait_seconds for knobs in settings}),
            list(dict.fromkeys(knobs.family for knobs in settings)),
        )

    def color(self, max_batch_rows: int) -> str:
        place = self.sizes.index(max_batch_rows)
        if len(self.sizes) == 1:
            return f"batch{SHADES - 2}"
        steps = len(self.sizes) - 1
        return f"batch{round(place * (SHADES - 1) / steps)}"

    def dash(self, knobs: Knobs) -> str:
        return _DASHES[min(self.waits.index(knobs.max_wait_seconds), len(_DASHES) - 1)]

    def symbol(self, knobs: Knobs) -> str:
        return _SYMBOLS[self.families.index(knobs.family) % len(_SYMBOLS)]


def keys(looks: Looks, threshold: float, trials: Sequence[Measured]) -> list[Key]:
    """The legend of a plot with these trials."""
    told = [Key("batch of at most")]
    told += [Key(f"{size:,}", looks.color(size)) for size in looks.sizes]
    told.append(Key(f"SLO {setting_text(threshold)}", "slo", "dash"))
    if any(trial.verdict == "FAIL" for trial in trials):
        told.append(Key("hollow: the trial failed"))
    if len(looks.waits) > 1:
        waits = ", ".join(f"{dash} {setting_text(wait)}" for wait, dash in zip(looks.waits, _DASH_WORDS, strict=False))
        told.append(Key(f"wait: {waits}"))
    if len(looks.families) > 1:
        families = ", ".join(
            f"{symbol.partition('-')[0]} {family_text(family)}"
            for family, symbol in zip(looks.families, _SYMBOLS, strict=False)
        )
        told.append(Key(families))
    return told


def family_text(family: tuple[str, int | None, str | None]) -> str:
    """The part of a setting that is neither batch nor wait."""
    policy, workers, runtime = family
    told = [policy, *([] if workers is None else [f"{workers} worker{'' if workers == 1 else 's'}"])]
    return " ".join([*told, *([] if runtime is None else [runtime])])
