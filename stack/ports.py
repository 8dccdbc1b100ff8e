"""Are all ports free? Asked before anything starts, and answered with who holds a busy one and how to move ours."""

import errno
import socket
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psutil

from stack.errors import StackError

_HOST: Final = "127.0.0.1"
_IN_THE_WAY: Final = (_HOST, "0.0.0.0", "::", "::ffff:127.0.0.1")  # listeners there keep us off the port


class PortsTaken(StackError):
    """One sentence per port that cannot be used."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A port that a part of the stack is going to listen on, and the variable that moves it."""

    port: int
    variable: str
    what: str


def check(claims: Sequence[Claim]) -> None:
    """Raises PortsTaken with a sentence for every claim that cannot be met; opens nothing that stays open."""
    taken = [*_duplicates(claims)]
    if not taken:
        avoid = {claim.port for claim in claims}
        for claim in claims:
            trouble = _trouble(claim.port)
            if trouble is not None:
                free = _next_free(claim.port, avoid)
                avoid.add(free)
                taken.append(f"port {claim.port} ({claim.what}) {trouble}, or move ours: {claim.variable}={free}")
    if taken:
        raise PortsTaken("\n".join(taken))


def holder(port: int) -> str:
    """Who keeps us off `port`: a listener with name, pid and command, or a connection that happens to use it."""
    try:
        all_connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:  # macOS tells only root
        return "a process that only root can see"
    there = [c for c in all_connections if c.laddr and c.laddr.port == port]
    listeners = [c for c in there if c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.ip in _IN_THE_WAY]
    for connection in listeners:
        return _process(connection.pid)
    for connection in there:  # the system gives free ports to outgoing connections, ours among them
        return f"a passing connection of {_process(connection.pid)}"
    return "a process that cannot be seen from here"


def _process(pid: int | None) -> str:
    if pid is None:
        return "a process of another user"
    try:
        process = psutil.Process(pid)
        command = " ".join(process.cmdline())
        return f"{process.name()} (pid {pid}: {command if len(command) <= 100 else command[:99] + '…'})"
    except psutil.Error:  # gone or not ours to look at
        return f"pid {pid}"


def _duplicates(claims: Sequence[Claim]) -> list[str]:
    counts = Counter(claim.port for claim in claims)
    sentences = []
    for port in (port for port, count in counts.items() if count > 1):
        names = " and ".join(claim.variable for claim in claims if claim.port == port)
        sentences.append(f"{names} are both {port}; expected a port of its own for each")
    return sentences


def _trouble(port: int) -> str | None:
    """Why we cannot listen there, and what could be done about it; None when we can."""
    error = _listen_error(port)
    if error is None:
        return None
    if error.errno == errno.EADDRINUSE:
        return f"is held by {holder(port)}; stop that"
    return f"cannot be used here ({error.strerror}); allow it"


def _listen_error(port: int) -> OSError | None:
    """What listening there raises. With SO_REUSEADDR, as servers do: connections that linger are no obstacle."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
            probe.listen(1)
        except OSError as error:
            return error
    return None


def _next_free(port: int, avoid: set[int]) -> int:
    """The next port upwards that nobody has or claims."""
    candidates: list[int] = [*range(max(port + 1, 1024), 65536), *range(1024, port)]
    return next(c for c in candidates if c not in avoid and _listen_error(c) is None)
