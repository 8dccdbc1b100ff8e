"""Where and with what a run was made: without it, its figures mean little."""

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import psutil

_PACKAGES: Final = ("locust", "gevent", "httptools", "numpy")


def host() -> dict[str, Any]:
    """The machine that generated the load."""
    return {
        "name": platform.node(),
        "cpu": _cpu_name(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """The packages that the figures depend on."""
    return {name: version(name) for name in _PACKAGES}


def _cpu_name() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or "unknown"
