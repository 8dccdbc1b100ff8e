"""What waits for the model: requests in arrival order within their group, counted in rows.

Not locked: the batcher calls it under its own lock. An answered request stays in its deque until it reaches the head
(or until the dead outnumber the living), but stops counting at once.
"""

import math
from collections import deque
from collections.abc import Hashable
from typing import Final

from service.batching.records import Rows, Ticket

_COMPACT_ABOVE: Final = 64


class Entry:
    """A ticket inside the batcher: how many of its rows were taken by batches, and what came back."""

    __slots__ = ("answered", "parts", "rows", "rows_back", "staged", "taken", "ticket")

    def __init__(self, ticket: Ticket, rows: int) -> None:
        self.ticket = ticket
        self.rows = rows
        self.taken = 0  # rows handed to batches
        self.rows_back = 0
        self.parts: dict[int, Rows] | None = None  # results of a split request by the offset of their first row
        self.answered = False
        self.staged = False  # accepted, but not yet for a batch to take

    def add(self, start: int, stop: int, result: Rows) -> bool:
        """The result of rows [start, stop) is back; True if that was the last of it. Not split: it is the ticket's."""
        self.rows_back += stop - start
        if stop - start == self.rows:
            self.ticket.result = result
            return True
        if self.parts is None:
            self.parts = {}
        self.parts[start] = result
        return self.rows_back == self.rows

    def pieces(self) -> list[Rows]:
        """The results of a split request in the order of its rows."""
        parts = self.parts or {}
        return [parts[start] for start in sorted(parts)]


Part = tuple[Entry, int, int]  # rows [start, stop) of an entry, in one batch


class Group:
    """The queue of one group, FIFO."""

    __slots__ = ("_nearest_deadline", "_recount", "entries", "idle_seconds", "key", "requests", "rows")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.entries: deque[Entry] = deque()
        self.rows = 0
        self.requests = 0
        self._nearest_deadline = math.inf
        self._recount = False  # whoever had the nearest deadline has left; looked up only when next asked for
        self.idle_seconds = 0.0  # how long the service had been idle when the first of these arrived

    @property
    def oldest_at(self) -> float:
        return self.entries[0].ticket.enqueued_at

    @property
    def nearest_deadline(self) -> float:
        if self._recount:
            self._nearest_deadline = min((e.ticket.deadline for e in self.entries if not e.answered), default=math.inf)
            self._recount = False
        return self._nearest_deadline

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.rows += entry.rows
        self.requests += 1
        self._nearest_deadline = min(self._nearest_deadline, entry.ticket.deadline)

    def left(self, deadline: float) -> None:
        """Tells that entries have left, the nearest of their deadlines being `deadline`."""
        self._recount = self._recount or deadline <= self._nearest_deadline
        self._settle()

    def _settle(self) -> None:
        """Drops answered entries from the head, and from everywhere once they outnumber the rest."""
        entries = self.entries
        while entries and entries[0].answered:
            entries.popleft()
        if len(entries) > 2 * self.requests + _COMPACT_ABOVE:
            self.entries = deque(entry for entry in entries if not entry.answered)


class RowQueue:
    """All groups together. `rows` is the depth that admission and the gauge go by."""

    def __init__(self) -> None:
        self.rows = 0  # staged ones among them
        self._groups: dict[Hashable, Group] = {}
        self._staged: list[tuple[Entry, float]] = []

    def __bool__(self) -> bool:
        return bool(self._groups)

    def stage(self, entry: Entry, idle_seconds: float) -> None:
        """Counts an entry in, but lets no batch have it before `release`: more are to come that belong with it."""
        entry.staged = True
        self._staged.append((entry, idle_seconds))
        self.rows += entry.rows

    def release(self) -> None:
        """Lets batches have what was staged."""
        staged, self._staged = self._staged, []
        for entry, idle_seconds in staged:
            if not entry.answered:
                entry.staged = False
                self.rows -= entry.rows
                self.append(entry, idle_seconds)

    def append(self, entry: Entry, idle_seconds: float) -> None:
        key = entry.ticket.group
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key)
            group.idle_seconds = idle_seconds
        group.add(entry)
        self.rows += entry.rows

    def oldest_first(self) -> list[Group]:
        groups = list(self._groups.values())
        if len(groups) > 1:
            groups.sort(key=lambda group: group.oldest_at)
        return groups

    def remove(self, entry: Entry) -> None:
        """Takes out what is left of an entry that has just been answered. Harmless if none of it waits."""
        left = entry.rows - entry.taken
        if entry.staged:
            entry.taken = entry.rows
            self.rows -= left
            return
        group = self._groups.get(entry.ticket.group)
        if left == 0 or group is None:
            return
        entry.taken = entry.rows
        self._uncount(group, left, requests=1)
        group.left(entry.ticket.deadline)

    def take(self, group: Group, max_rows: int, now: float, due: float) -> tuple[list[Part], list[Entry]]:
        """The next batch of a group, oldest first, at most `max_rows`; and those who could not be answered in time.

        `due` is when this batch will be done: whoever has an earlier deadline is not worth the model's time. But the
        last one waiting is served while there is any hope, since `due` is only an estimate and must be able to heal.
        A request that fits into a batch whole is never split: it would wait for two batches instead of one.
        """
        parts: list[Part] = []
        late: list[Entry] = []
        entries = group.entries
        free = max_rows
        rows_out = requests_out = 0
        nearest = math.inf
        while free and entries:
            entry = entries[0]
            if entry.answered:
                entries.popleft()
                continue
            deadline = entry.ticket.deadline
            left = entry.rows - entry.taken
            if deadline <= now or (deadline < due and (parts or group.requests - requests_out > 1)):
                late.append(entry)
                count = left
            elif left > free and entry.taken == 0 and entry.rows <= max_rows:
                break
            else:
                count = min(left, free)
                free -= count
                parts.append((entry, entry.taken, entry.taken + count))
            if deadline < nearest:
                nearest = deadline
            entry.taken += count
            rows_out += count
            if count == left:
                entries.popleft()
                requests_out += 1
        self._uncount(group, rows_out, requests_out)
        group.idle_seconds = 0.0  # those left behind did not come to an idle service
        group.left(nearest)
        return parts, late

    def _uncount(self, group: Group, rows: int, requests: int) -> None:
        group.rows -= rows
        group.requests -= requests
        self.rows -= rows
        if group.requests == 0:
            del self._groups[group.key]
