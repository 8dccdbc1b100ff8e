"""Limits of the machine that would cap the service below its queue's capacity: raised where possible, else refused.

A cap that nobody set on purpose turns overload into resets and time-outs instead of 429.
"""

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service.settings import Settings, SettingsError, variable

# Beside one connection per waiting row: as many idle ones as a balancer or a browser may keep, files, pipes, children.
SPARE_DESCRIPTORS: Final = 2048
LEAST_SPARE_DESCRIPTORS: Final = 128
BACKLOG: Final = 4096
_SOMAXCONN: Final = Path("/proc/sys/net/core/somaxconn")


@dataclass(frozen=True, slots=True)
class Machine:
    """What the machine allows."""

    descriptors_soft: int
    descriptors_hard: int
    backlog: int | None  # longest queue of connections not yet accepted; None where unknown


@dataclass(frozen=True, slots=True)
class Caps:
    """What to ask the machine for."""

    descriptors: int
    backlog: int


def read_machine() -> Machine:
    """The limits of this process and kernel."""
    soft, hard = (2**31 if n == resource.RLIM_INFINITY else n for n in resource.getrlimit(resource.RLIMIT_NOFILE))
    try:
        backlog = int(_SOMAXCONN.read_text())
    except OSError:  # not Linux, or hidden by a sandbox
        backlog = None
    return Machine(soft, hard, backlog)


def plan(settings: Settings, machine: Machine) -> Caps:
    """What the queue's capacity needs of the machine; SettingsError if the machine does not allow it."""
    capacity = settings.queue_capacity_rows
    name = variable("queue_capacity_rows")
    most = machine.descriptors_hard - LEAST_SPARE_DESCRIPTORS
    if most < capacity:
        raise SettingsError(
            f"{name} is {capacity}, but the limit on open files (ulimit -Hn) is {machine.descriptors_hard}, "
            f"room for {max(0, most)} waiting connections; expected a higher limit or a smaller queue"
        )
    if machine.backlog is not None and machine.backlog < capacity:
        raise SettingsError(
            f"{name} is {capacity}, but the kernel queues at most {machine.backlog} new connections "
            "(net.core.somaxconn); expected a higher limit or a smaller queue"
        )
    wanted = max(machine.descriptors_soft, capacity + SPARE_DESCRIPTORS)
    return Caps(min(wanted, machine.descriptors_hard), max(BACKLOG, capacity))


def apply(caps: Caps) -> None:
    """Raises the soft limit on open files; children get it too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < caps.descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (caps.descriptors, hard))
