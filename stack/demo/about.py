"""Where and with what the demo ran: the lines at the end of the report, without which its figures mean little."""

import os
import platform
import re
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import psutil

from stack.demo.settings import DemoSettings
from stack.settings import StackSettings

_PACKAGES: Final = ("locust", "scikit-learn", "flask", "uvicorn", "numpy", "plotly")


def now() -> str:
    """This moment with its zone, to the second."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


def host() -> dict[str, str]:
    """The machine, without its name."""
    return {
        "CPU": _cpu_name(),
        "CPUs usable": str(len(os.sched_getaffinity(0))),
        "memory": f"{psutil.virtual_memory().total / 2**30:.1f} GiB",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def versions() -> dict[str, str]:
    """Python and the packages that the figures depend on."""
    return {"Python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def settings(demo: DemoSettings, stack: StackSettings, environment: Mapping[str, str]) -> dict[str, str]:
    """What was chosen for this run, and what the service was told beyond its defaults."""
    chosen = {
        "load": f"{demo.load_rps:g}/s" if demo.load_rps else f"{demo.load_over_capacity:g} × the measured capacity",
        "seed": str(demo.seed),
        "batch sizes of the ramp": ", ".join(map(str, demo.batch_sizes)),
        "time for the ramp": f"{demo.ramp_seconds:g} s",
        "CPUs of the service": _cpus(stack.service_cpus),
        "CPUs of the generator": _cpus(stack.generator_cpus),
    }
    if demo.sabotage:
        chosen["sabotage"] = demo.sabotage
    told = {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith("SERVICE_") and not re.search("PORT|HOST|TOKEN|DIR", name) and value.strip()
    }
    return {**chosen, **told}


def _cpus(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers)) if numbers else "any"


def _cpu_name() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or "unknown"
