"""What the tuner confirmed, from the frontier.json that it left: a rate inside the objective, and its knobs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slo.config import SloError

_CONFIRMED = ("chosen", "generator_limited")


@dataclass(frozen=True, slots=True)
class Tuned:
    """A confirmed rate in requests per second, for that objective."""

    rate: float
    max_batch_rows: int
    max_wait_seconds: float
    policy: str
    objective: float
    threshold_seconds: float
    model: str
    job: str  # of the service in slo.yaml that it was confirmed for; empty: nobody said
    day: str  # such as 2026-03-04


def load(path: Path) -> Tuned:
    """Read it; SloError, one sentence, if it is no such file or nothing was confirmed."""
    try:
        record = json.loads(path.read_bytes())
    except OSError as error:
        raise SloError(f"{path}: {error.strerror}; expected the frontier.json of a search") from None
    except ValueError:
        raise SloError(f"{path}: not valid JSON; expected the frontier.json of a search") from None
    try:
        return _tuned(record)
    except (KeyError, TypeError, ValueError):
        raise SloError(
            f"{path}: not what a search leaves; expected a frontier.json in which a rate was confirmed"
        ) from None


def _tuned(record: dict[str, Any]) -> Tuned:
    if record["kind"] not in _CONFIRMED or not record["confirmations"]:
        raise ValueError("nothing was confirmed")
    knobs, slo = record["knobs"], record["slo"]
    return Tuned(
        rate=float(record["rate"]),
        max_batch_rows=int(knobs["max_batch_rows"]),
        max_wait_seconds=float(knobs["max_wait_seconds"]),
        policy=str(knobs["policy"]),
        objective=float(slo["objective"]),
        threshold_seconds=float(slo["threshold_seconds"]),
        model=str(record["model"]),
        job=str(record.get("job") or ""),
        day=str(record["started_at"])[:10],
    )
