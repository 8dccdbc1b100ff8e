"""What the bench ran on, in one sentence."""

import os
import platform
import sys
from pathlib import Path


def describe() -> str:
    """CPU, how many of them this process may use, and the load before anything was started."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return (
        f"{usable} CPUs ({_cpu()}), {platform.system()}, Python {sys.version.split()[0]}; load average "
        f"{os.getloadavg()[0]:.1f} at the start."
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
