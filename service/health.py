"""Alive and ready, as probes see it."""

from collections.abc import Callable
from typing import Protocol


class Beats(Protocol):
    """What health needs of the batcher."""

    @property
    def healthy(self) -> bool: ...


class Health:
    """Alive while the batcher's loops beat; ready while alive, with a model, and not draining (set by the signal)."""

    def __init__(self, batcher: Beats, model_up: Callable[[], bool] = lambda: True) -> None:
        self._batcher = batcher
        self._model_up = model_up
        self.draining = False

    def not_live(self) -> str | None:
        """Why the service is not alive, or None."""
        return None if self._batcher.healthy else "the batcher's loops have stopped; restart the service"

    def not_ready(self) -> str | None:
        """Why the service takes no new traffic, or None."""
        if self.draining:
            return "the service is draining"
        return self.not_live() or (None if self._model_up() else "no model worker runs; one is being started")
