"""One part of the stack as data: what to run, how to see that it is ready, how it is to be stopped."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from stack.ports import Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """The supervisor knows nothing about a part but this."""

    name: str  # of its log file and in messages
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    ready_url: str  # answers 200 once the part can be used
    claims: tuple[Claim, ...]  # the ports that it listens on
    urls: Mapping[str, str] = field(default_factory=dict)  # what people and programs may open
    cpus: tuple[int, ...] = ()
    stop_order: int = 0  # lower numbers are stopped first; the next begins when they have ended
    stop_seconds: float = 3.0  # from SIGTERM to SIGKILL
