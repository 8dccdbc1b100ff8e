"""`make batch-table`: what batching buys for the served model, no server involved.

The same rows through the model in batches of several sizes, once by scikit-learn's own `predict` where there is one and
once by the runtime that serves; then the line a·n + b through the times of one call, and what follows from it.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np

from service.batching.cost import CostModel, fit_line
from service.models import Model, ModelError, load, parse_model
from service.models.model import Array
from service.settings import Settings, SettingsError

TOTAL_ROWS: Final = 4096
BATCH_SIZES: Final = (1, 8, 32, 128, 512)
ROUNDS: Final = 3
ROUND_BUDGET_SECONDS: Final = 2.5  # a round of a slow model runs fewer batches and is scaled up to all rows
_ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Line:
    """One batch size over all rows."""

    batch: int
    total_seconds: float
    rows: int

    @property
    def seconds_per_row(self) -> float:
        return self.total_seconds / self.rows

    @property
    def seconds_per_call(self) -> float:
        return self.seconds_per_row * self.batch


def one_round(
    run: Callable[[Array], object],
    rows: Array,
    batch: int,
    budget_seconds: float = ROUND_BUDGET_SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Seconds for all rows; a round that runs out of its budget is scaled up from the batches it did."""
    started = clock()
    done = 0
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        run(part)
        done += len(part)
        if clock() - started > budget_seconds:
            break
    return (clock() - started) * len(rows) / done


def measure(run: Callable[[Array], object], rows: Array, progress: Callable[[str], None]) -> list[Line]:
    """Medians over some rounds. Each round takes all batch sizes in turn, so that a busy minute hits them alike."""
    totals: dict[int, list[float]] = {batch: [] for batch in BATCH_SIZES}
    for number in range(ROUNDS):
        for batch in BATCH_SIZES:
            progress(f"round {number + 1} of {ROUNDS}, batches of {batch}")
            totals[batch].append(one_round(run, rows, batch))
    return [Line(batch, median(seconds), len(rows)) for batch, seconds in totals.items()]


def fit(lines: Iterable[Line]) -> CostModel:
    """Seconds of one call as a·n + b, by relative errors, so that small batches count as much as large ones."""
    return fit_line([(float(line.batch), line.seconds_per_call) for line in lines])


def fixed_share(cost: CostModel) -> float:
    """The share of a call on one row that does not depend on its rows."""
    single = cost.seconds(1)
    return cost.fixed_seconds / single if single > 0 else 0.0


def table(lines: Sequence[Line]) -> str:
    base = lines[0].total_seconds
    rows = [("batch", "total ms", "ms per row", "relative throughput")]
    rows += [
        (
            str(line.batch),
            f"{1000 * line.total_seconds:,.1f}",
            f"{1000 * line.seconds_per_row:.4f}",
            f"{base / line.total_seconds:.1f} ×",
        )
        for line in lines
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(" | ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows)


def fit_sentence(cost: CostModel) -> str:
    return (
        f"one call of n rows takes about {1000 * cost.per_row_seconds:.4f}·n + {1000 * cost.fixed_seconds:.3f} ms; "
        f"{fixed_share(cost):.1%} of a call on a single row is fixed cost"
    )


def verdict(cost: CostModel, largest_batch: int) -> str:
    """What batching can and cannot buy, in one sentence."""
    share = fixed_share(cost)
    reached = cost.seconds(1) * largest_batch / cost.seconds(largest_batch) if cost.seconds(1) > 0 else 1.0
    if share < 0.2:
        return (
            f"Batching buys little here: the work is in the rows, so even batches of {largest_batch} give "
            f"{reached:.1f} × the rows per second of single calls, and waiting for them only adds latency."
        )
    if cost.per_row_seconds * largest_batch < 0.1 * cost.fixed_seconds:
        limit = f"and still growing at {largest_batch} rows, since a row costs next to nothing beside the call"
    else:
        limit = f"with {1 / (1 - share):.0f} × as the limit for any batch" if share < 1 else "without a limit in sight"
    half = cost.fixed_seconds / cost.per_row_seconds if cost.per_row_seconds > 0 else None
    beyond = (
        f"; beyond about {max(1, round(half))} rows a batch takes longer mainly for its rows, which no batching saves"
        if half is not None and half < largest_batch
        else ""
    )
    return (
        f"Batching shares the fixed {1000 * cost.fixed_seconds:.2f} ms of a call among its rows: batches of "
        f"{largest_batch} give {reached:.1f} × the rows per second of single calls, {limit}{beyond}."
    )


def sample_rows(model: Model, kind: str) -> Array:
    """TOTAL_ROWS rows: real digits for the built-in model, else seeded noise of the model's width."""
    features = model.info.features
    if features is None:
        raise ModelError(f"the model {model.info.name} does not say how many features it takes; expected it to")
    if kind == "digits":
        from sklearn.datasets import load_digits

        rows = load_digits().data
        rows = rows[np.arange(TOTAL_ROWS) % len(rows)]
    else:
        rows = np.random.default_rng(0).normal(size=(TOTAL_ROWS, features))
    return np.ascontiguousarray(rows, dtype=model.info.input_dtype)


def contenders(model: Model) -> list[tuple[str, Callable[[Array], object]]]:
    """(what it is, how to call it): scikit-learn's own predict where there is one, and the runtime that serves."""
    served: list[tuple[str, Callable[[Array], object]]] = [
        (f"the runtime that serves ({model.info.runtime})", lambda rows: model.run("predict", rows))
    ]
    estimator: Any = getattr(model, "estimator", None)
    if estimator is not None and model.info.runtime != "sklearn":
        return [("scikit-learn's own predict", estimator.predict), *served]
    return served


def report(model: Model, rows: Array, say: Callable[[str], None], progress: Callable[[str], None]) -> None:
    for title, run in contenders(model):
        say(f"\n{title}, {len(rows):,} rows")
        run(rows[:8])  # the first call pays for what later ones find ready
        lines = measure(run, rows, progress)
        progress("")
        cost = fit(lines)
        say(table(lines))
        say(fit_sentence(cost))
    say("\n" + verdict(cost, BATCH_SIZES[-1]))


def show_progress(text: str) -> None:
    """In place on a terminal, line by line elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(f"  {text}", file=sys.stderr, flush=True)


def busy_note(load: float, cores: int) -> str | None:
    if load <= cores:
        return None
    return (
        f"note: {load:.0f} processes already compete for {cores} cores here, so all times below are too long; "
        "their ratios say more"
    )


def main() -> int:
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))  # as in the service's model workers; read on import
    try:
        settings = Settings.from_environment(os.environ)
        spec = parse_model(settings.model)
        print(f"loading {spec.text} ...", flush=True)
        model = load(spec, settings.model_cache_dir, settings.allow_pickle)
        model.warm_up()
        note = busy_note(os.getloadavg()[0], os.cpu_count() or 1)
        if note:
            print(note, flush=True)
        report(model, sample_rows(model, spec.kind), lambda text: print(text, flush=True), show_progress)
    except (ModelError, SettingsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
