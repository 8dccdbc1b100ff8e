"""tuned.env: the setting that a search chose, as environment variables of the service.

The same text serves `env $(grep -v '^#' tuned.env) make up`, `set -a; . tuned.env; set +a; make up` and
`docker compose --env-file tuned.env up`, which read quotes and blanks differently: so no value has any.
"""

import re
from typing import Final

from loadtest.analysis.frontier_file import About
from loadtest.analysis.order import percentile_name
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.words import rate_text, setting_text

_SAME_EVERYWHERE: Final = re.compile(r"[\w./:=?,@%+-]+", re.ASCII)  # neither split, quoted nor expanded by any reader


def tuned_env(found: Found, about: About) -> str | None:
    """The file's text; None where no setting was confirmed, and then no file must be written."""
    knobs = found.knobs
    if not found.confirmed or knobs is None or found.rate is None:
        return None
    times = len(found.confirmations)
    percentile, threshold = percentile_name(found.slo.objective), setting_text(found.slo.threshold_seconds)
    lines = [
        "# The most throughput inside the objective, as Tailboard's tuner found it.",
        f"# {rate_text(found.rate)} requests/s with {percentile} within {threshold}, {_times(times)}",
        f"# model {about.model} at {about.target}, on {_host(about)}, {about.started_at}",
        "# Use: env $(grep -v '^#' tuned.env) make up",
        f"SERVICE_BATCHING_POLICY={knobs.policy}",
        f"SERVICE_MAX_BATCH_ROWS={knobs.max_batch_rows}",
        f"SERVICE_MAX_WAIT_SECONDS={knobs.max_wait_seconds:.10g}",
        f"SERVICE_TUNED_RATE={found.rate:.6g}",
    ]
    if knobs.workers is not None:
        lines.append(f"SERVICE_MODEL_WORKERS={knobs.workers}")
    if knobs.runtime is not None:
        lines.append(_model(knobs.runtime, about.models.get(knobs.runtime)))
    return "".join(f"{_one_line(line)}\n" for line in lines)


def _times(confirmations: int) -> str:
    return "confirmed once" if confirmations == 1 else f"confirmed {confirmations} times with fresh arrivals"


def _host(about: About) -> str:
    return ", ".join(str(about.host[name]) for name in ("name", "cpu") if about.host.get(name)) or "an unknown host"


def _model(runtime: str, model: str | None) -> str:
    if model is not None and _SAME_EVERYWHERE.fullmatch(model):
        return f"SERVICE_MODEL={model}"
    return f"# It was measured with the runtime {runtime}: set SERVICE_MODEL to {model or 'a model of that runtime'}"


def _one_line(text: str) -> str:
    """Names of others have no say in where a line ends."""
    return "".join(mark if mark.isprintable() else " " for mark in text)
