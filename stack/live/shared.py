"""Results that viewers share: who asks for what is being fetched, or was fetched a moment ago, gets that one."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

_T = TypeVar("_T")


class SharedResults:
    """Futures by key, kept for `keep_seconds` after they were asked for; at most `most` of them.

    Failures are kept as well: a Prometheus in trouble is not asked again by every viewer.
    """

    def __init__(
        self, pool: Executor, keep_seconds: float, most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pool = pool
        self._keep_seconds = keep_seconds
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: OrderedDict[Hashable, tuple[float, Future[Any]]] = OrderedDict()

    def ask(self, key: Hashable, make: Callable[[], _T]) -> "Future[_T]":
        """The future for `key`; `make` runs in the pool if nobody asked for it lately."""
        with self._lock:
            now = self._clock()
            found = self._asked.get(key)
            if found is not None:
                asked_at, future = found
                # What is still under way is shared however long it takes: asking twice would not be quicker.
                if not future.cancelled() and (not future.done() or now - asked_at < self._keep_seconds):
                    return future
            future = self._pool.submit(make)
            self._asked[key] = (now, future)
            self._asked.move_to_end(key)
            while len(self._asked) > self._most:
                self._asked.popitem(last=False)
            return future
