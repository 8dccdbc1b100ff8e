"""Alive and ready, as probes see it."""

from typing import Protocol


class Beats(Protocol):
    """What health needs of the batcher."""

    @property
    def healthy(self) -> bool: ...


class Health:
    """Alive while the batcher's loops beat; ready while alive and not draining, which is set once, by the signal."""

    def __init__(self, batcher: Beats) -> None:
        self._batcher = batcher
        self.draining = False

    def not_live(self) -> str | None:
        """Why the service is not alive, or None."""
        return None if self._batcher.healthy else "the batcher's loops have stopped; restart the service"

    def not_ready(self) -> str | None:
        """Why the service takes no new traffic, or None."""
        return "the service is draining" if self.draining else self.not_live()
