"""A server whose delays are known: `python -m bench.known_delays`, against which a load generator's figures are held.

It answers each `POST /predict` after a delay that it was told, and writes down when every whole request had arrived and
when its answer left, on the machine's monotonic clock. Everything else gets 404 and is not counted.

It prints its port as a line of JSON, obeys orders on standard input, one line of JSON each, and answers each with one
line. It ends with its standard input, so that it never outlives whoever started it.

    {"delay": "0.5"}      from now on; as in --delay          {"stall": 1.0}   a stall of so many seconds begins now
    {"log": "FILE.npy"}   write down what came and went       {}               only say how many have arrived
    {"forget": true}      forget what has arrived
"""

import argparse
import asyncio
import gc
import json
import os
import random
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import uvloop

PATH: Final = "/predict"
LOGNORMAL: Final = "lognormal"
_BODY: Final = b'{"predictions":[1]}'
_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"\r\ncontent-length:"
_BACKLOG: Final = 4096
_MOST_HEADS: Final = 1024  # remembered with what they say; a generator has a few
_COUNTED: Final = b"POST " + PATH.encode() + b" "

Draw = Callable[[], float]


def parse_delay(text: str, seed: int = 1) -> Draw:
    """A function that draws the next delay in seconds; ValueError if `text` says none.

    `0.005` is fixed, `lognormal:MEDIAN:SIGMA` is drawn anew for each request, and several with commas between them are
    taken in turn.
    """
    draws = cycle(
        [_draw(part.strip(), random.Random(f"{seed}/{number}")) for number, part in enumerate(text.split(","))]
    )
    return lambda: next(draws)()


def _draw(text: str, source: random.Random) -> Draw:
    name, *numbers = text.split(":")
    try:
        if name == LOGNORMAL:
            median, sigma = (float(number) for number in numbers)
            if median > 0 and sigma >= 0:
                return lambda: median * source.lognormvariate(0.0, sigma)
        elif not numbers and float(name) >= 0:
            seconds = float(name)
            return lambda: seconds
    except ValueError:
        pass
    raise ValueError(f"{text!r} is no delay; expected seconds, or {LOGNORMAL}:MEDIAN:SIGMA with the median in seconds")


def lognormal_quantile(median: float, sigma: float, z: float) -> float:
    """Seconds below which a lognormal delay lies as often as a standard normal number lies below `z`."""
    return float(median * np.exp(sigma * z))


class Behaviour:
    """When each request is answered, and with what status. Pure: instants come in and go out.

    Times `at` count from the first arrival.
    """

    def __init__(
        self,
        delay: Draw,
        changes: Sequence[tuple[float, Draw]] = (),
        stalls: Sequence[tuple[float, float]] = (),
        statuses: Sequence[int] = (200,),
        serial: bool = False,
    ) -> None:
        """`changes` are (at, delay from then on), `stalls` (at, seconds); `serial`: one request after the other."""
        self._delay = delay
        self._changes = sorted(changes, key=lambda change: change[0])
        self._stalls_after = tuple(stalls)
        self._stalls: list[tuple[float, float]] = []  # (from, to) as instants
        self._statuses = cycle(statuses)
        self._serial = serial
        self._began: float | None = None
        self._free_at = 0.0

    def answer(self, arrived: float) -> tuple[float, int]:
        """(when the request that arrived just now is to be answered, its status)."""
        if self._began is None:
            self._began = arrived
            self._stalls += [(arrived + at, arrived + at + seconds) for at, seconds in self._stalls_after]
        while self._changes and arrived - self._began >= self._changes[0][0]:
            self._delay = self._changes.pop(0)[1]
        begin = max(arrived, self._free_at) if self._serial else arrived
        due = begin + self._delay()
        for start, end in self._stalls:
            if arrived < end and due > start:  # it came in the stall, or was under way when that began
                due = max(due, end)
        self._free_at = due
        return due, next(self._statuses)

    def change(self, delay: Draw) -> None:
        """Another delay from now on."""
        self._delay, self._changes = delay, []

    def stall(self, now: float, seconds: float) -> None:
        """No answer to whoever comes in the next seconds until they are over."""
        self._stalls.append((now, now + seconds))


class Log:
    """When requests arrived and when their answers left; NaN for those that had none yet."""

    def __init__(self) -> None:
        self._instants = array("d")  # arrived, answered, arrived, answered, ...

    def __len__(self) -> int:
        return len(self._instants) // 2

    def arrived(self, now: float) -> int:
        """A request is there; its row."""
        self._instants.append(now)
        self._instants.append(float("nan"))
        return len(self._instants) - 1

    def answered(self, row: int, now: float) -> None:
        """Its answer leaves."""
        self._instants[row] = now

    def write(self, path: Path) -> None:
        """Two columns in a .npy file: arrived, answered."""
        np.save(path, np.array(self._instants).reshape(-1, 2))


def read_log(path: Path) -> npt.NDArray[np.float64]:
    """What a server wrote: a row per request, arrived and answered as monotonic seconds."""
    rows: npt.NDArray[np.float64] = np.load(path)
    return rows


class Server:
    """Behaviour, log and port."""

    def __init__(self, behaviour: Behaviour, loop: asyncio.AbstractEventLoop) -> None:
        self.behaviour = behaviour
        self.log = Log()
        self.loop = loop
        self.heads: dict[bytes, tuple[bool, int]] = {}  # of a request: whether it counts, and its body's length

    def obey(self, line: str | bytes) -> dict[str, Any]:
        """Carry out an order; the answer, which says what is wrong with an order that is none."""
        try:
            return self._obey(json.loads(line))
        except (ValueError, TypeError, AttributeError, OSError) as error:
            return {"error": f"{line!r} is no order: {error}"}

    def _obey(self, order: dict[str, Any]) -> dict[str, Any]:
        if "delay" in order:
            self.behaviour.change(parse_delay(order["delay"]))
        if "stall" in order:
            self.behaviour.stall(time.monotonic(), order["stall"])
        if "log" in order:
            self.log.write(Path(order["log"]))
        if order.get("forget"):
            self.log = Log()
        return {"arrivals": len(self.log)}


class _Protocol(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._buffer = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        while data:
            head, separator, rest = data.partition(_HEAD_END)
            if not separator:
                break
            counts, length = self._server.heads.get(head) or self._learn(head)
            if len(rest) < length:
                break
            data = rest[length:]
            self._take(counts)
        self._buffer = data

    def _learn(self, head: bytes) -> tuple[bool, int]:
        lower = head.lower()
        length = lower.partition(_LENGTH)[2].partition(b"\r\n")[0]
        known = head.startswith(_COUNTED), int(length or 0)
        if len(self._server.heads) < _MOST_HEADS:
            self._server.heads[head] = known
        return known

    def _take(self, counts: bool) -> None:
        """A whole request is there."""
        if not counts:
            self._transport.write(reply(404))
            return
        server = self._server
        now = time.monotonic()
        due, status = server.behaviour.answer(now)
        row = server.log.arrived(now)
        if due > now:
            server.loop.call_later(due - now, self._answer, server.log, row, status)
        else:
            self._answer(server.log, row, status)

    def _answer(self, log: Log, row: int, status: int) -> None:
        if not self._transport.is_closing():
            log.answered(row, time.monotonic())
            self._transport.write(reply(status))


_replies: dict[int, bytes] = {}


def reply(status: int) -> bytes:
    """A whole reply with that status."""
    found = _replies.get(status)
    if found is None:
        head = f"HTTP/1.1 {status} Known\r\nContent-Type: application/json\r\nContent-Length: {len(_BODY)}\r\n\r\n"
        found = _replies[status] = head.encode() + _BODY
    return found


async def serve(behaviour: Behaviour, port: int) -> None:
    """Until standard input ends."""
    loop = asyncio.get_running_loop()
    server = Server(behaviour, loop)
    listening = await loop.create_server(lambda: _Protocol(server), "127.0.0.1", port, backlog=_BACKLOG)
    over = loop.create_future()
    held = b""

    def read() -> None:
        nonlocal held
        data = os.read(sys.stdin.fileno(), 65_536)
        if not data:
            loop.remove_reader(sys.stdin.fileno())
            over.set_result(None)
            return
        *lines, held = (held + data).split(b"\n")
        for line in lines:
            print(json.dumps(server.obey(line)), flush=True)

    loop.add_reader(sys.stdin.fileno(), read)
    gc.freeze()
    print(json.dumps({"port": listening.sockets[0].getsockname()[1]}), flush=True)
    await over
    listening.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.known_delays", description="A server with known delays.")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--delay", default="0", help=f"seconds, or {LOGNORMAL}:MEDIAN:SIGMA, or several in turn: a,b,c")
    parser.add_argument("--change", action="append", default=[], metavar="AT=DELAY", help="another delay from then on")
    parser.add_argument("--stall", action="append", default=[], metavar="AT=SECONDS", help="no answers for so long")
    parser.add_argument("--statuses", default="200", help="in turn, with commas between them")
    parser.add_argument("--serial", action="store_true", help="one request after the other, as they came")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    try:
        behaviour = Behaviour(
            parse_delay(given.delay, given.seed),
            [(float(at), parse_delay(text, given.seed)) for at, text in (each.split("=") for each in given.change)],
            [(float(at), float(seconds)) for at, seconds in (each.split("=") for each in given.stall)],
            [int(status) for status in given.statuses.split(",")],
            given.serial,
        )
    except ValueError as error:
        parser.error(str(error))
    uvloop.run(serve(behaviour, given.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
