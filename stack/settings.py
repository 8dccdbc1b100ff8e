"""Every setting of the native stack, read once from the environment.

Ports and directories all move, so that several stacks can run side by side on one machine. `SERVICE_*` is passed
through to the service, which reads and checks it.
"""

import dataclasses
import difflib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from stack.errors import StackError

ROOT: Final = Path(__file__).resolve().parents[1]
PREFIX: Final = "TAILBOARD_"
_STATE: Final = ROOT / ".tailboard"
_BIN: Final = _STATE / "bin"
RULES: Final = ROOT / "prometheus" / "rules"
LOOPBACK: Final = "127.0.0.1"


class SettingsError(StackError):
    """A setting cannot be used; one sentence: which variable, what it holds, what was expected."""


# --- reading one value: text in, value out, ValueError with what was expected ------------------------------------


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text, re.ASCII) or not 1 <= int(text) <= 65535:
        raise ValueError("a port from 1 to 65535")
    return int(text)


def _directory(text: str) -> Path:
    return Path(text) if Path(text).is_absolute() else ROOT / text


def _retention(text: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]*(m|h|d|w|y)", text, re.ASCII):
        raise ValueError("a length of time such as 12h or 15d")
    return text


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]+)?", text, re.ASCII) or float(text) <= 0:
        raise ValueError("seconds above 0 and below 10000")
    return float(text)


def _cpus(text: str) -> tuple[int, ...]:
    expected = "numbers of CPUs such as 0 or 1,2 or 0-3"
    cpus: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,4})(?:\s*-\s*([0-9]{1,4}))?\s*", part, re.ASCII)
        if match is None:
            raise ValueError(expected)
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(expected)
        cpus.update(range(first, last + 1))
    usable = os.sched_getaffinity(0)
    if not cpus <= usable:
        raise ValueError(f"CPUs that this process may use ({', '.join(map(str, sorted(usable)))})")
    return tuple(sorted(cpus))


def _token(text: str) -> str:
    if not re.fullmatch(r"[\x21-\x7e]+", text, re.ASCII):
        raise ValueError("printable ASCII without spaces, because it travels in a header")
    return text


def _from(variable: str, read: Callable[[str], Any], meaning: str) -> dict[str, Any]:
    """A field's metadata: the variable that sets it, how text becomes a value, what it is for."""
    return {"variable": variable, "read": read, "meaning": meaning}


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSettings:
    """Unset and empty mean the default. Directories are absolute; relative ones count from the repository's root."""

    service_port: int = field(default=8000, metadata=_from("SERVICE_PORT", _port, "the service"))
    service_admin_port: int = field(
        default=8001, metadata=_from("SERVICE_ADMIN_PORT", _port, "the service's metrics and knobs")
    )
    locust_port: int = field(default=8089, metadata=_from("LOCUST_PORT", _port, "Locust's web page"))
    locust_metrics_port: int = field(default=9646, metadata=_from("LOCUST_METRICS_PORT", _port, "Locust's metrics"))
    prometheus_port: int = field(default=9090, metadata=_from("PROMETHEUS_PORT", _port, "Prometheus"))
    alertmanager_port: int = field(default=9093, metadata=_from("ALERTMANAGER_PORT", _port, "Alertmanager"))
    grafana_port: int = field(
        default=3000, metadata=_from("GRAFANA_PORT", _port, "Grafana, where a `grafana` binary is on PATH")
    )
    live_port: int = field(default=8050, metadata=_from("LIVE_PORT", _port, "the live page"))
    inbox_port: int = field(default=8060, metadata=_from("INBOX_PORT", _port, "the alert inbox"))

    admin_token: str | None = field(
        default=None,
        repr=False,
        metadata=_from("SERVICE_ADMIN_TOKEN", _token, "lets knobs be changed; one is made and kept when unset"),
    )
    state_dir: Path = field(
        default=_STATE, metadata=_from("TAILBOARD_STATE_DIR", _directory, "logs, rendered configuration and all data")
    )
    bin_dir: Path = field(
        default=_BIN, metadata=_from("TAILBOARD_BIN_DIR", _directory, "where fetched programs are kept")
    )
    rules_dir: Path = field(
        default=RULES, metadata=_from("TAILBOARD_RULES_DIR", _directory, "recording and alert rules")
    )
    service_cpus: tuple[int, ...] = field(
        default=(), metadata=_from("TAILBOARD_SERVICE_CPUS", _cpus, "CPUs of the service; all when unset")
    )
    generator_cpus: tuple[int, ...] = field(
        default=(), metadata=_from("TAILBOARD_GENERATOR_CPUS", _cpus, "CPUs of Locust; all when unset")
    )
    retention: str = field(
        default="31d",  # the error budget looks back over slo.yaml's 30 days
        metadata=_from("TAILBOARD_RETENTION", _retention, "how long Prometheus keeps samples"),
    )
    start_seconds: float = field(
        default=180.0, metadata=_from("TAILBOARD_START_SECONDS", _seconds, "longest wait until every part is ready")
    )

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # of whoever started us

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "StackSettings":
        """Read and check all of them; SettingsError names the first that is wrong."""
        fields = [item for item in dataclasses.fields(cls) if item.metadata]
        known = [item.metadata["variable"] for item in fields]
        _refuse_misspelt(environment, known)
        values: dict[str, Any] = {}
        for item in fields:
            text = environment.get(item.metadata["variable"], "").strip()
            if not text:
                continue
            try:
                values[item.name] = item.metadata["read"](text)
            except ValueError as error:
                shown = repr(text) if item.repr else "not usable"
                raise SettingsError(f"{item.metadata['variable']} is {shown}; expected {error}") from None
        for name in ("SERVICE_HOST", "SERVICE_ADMIN_HOST"):
            if environment.get(name, "").strip() not in ("", LOOPBACK, "0.0.0.0"):
                raise SettingsError(
                    f"{name} is {environment[name]!r}; expected {LOOPBACK} or 0.0.0.0, because the other parts look "
                    f"for the service on {LOOPBACK}"
                )
        return cls(**values, environment=dict(environment))

    @property
    def run_dir(self) -> Path:
        """What lives only while the stack runs, apart from the logs."""
        return self.state_dir / "run"

    @property
    def log_dir(self) -> Path:
        return self.run_dir / "logs"

    @property
    def data_dir(self) -> Path:
        return self.state_dir / "data"

    def moved_ports(self) -> dict[int, int]:
        """Every port as the files in the repository spell it, and where it is now."""
        return {int(str(item.default)): getattr(self, item.name) for item in self._port_fields()}

    def url(self, port: int) -> str:
        return f"http://{LOOPBACK}:{port}"

    def child_environment(self) -> dict[str, str]:
        """What every part gets: the caller's environment and all ports. The token is for the service alone."""
        ports = {variable(item.name): str(getattr(self, item.name)) for item in self._port_fields()}
        inherited = {name: value for name, value in self.environment.items() if name != "SERVICE_ADMIN_TOKEN"}
        spared = {  # the parts talk to each other directly, whatever proxy the caller has
            name: ",".join(filter(None, [self.environment.get(name), LOOPBACK, "localhost"]))
            for name in ("no_proxy", "NO_PROXY")
        }
        return {
            **inherited,
            **ports,
            **spared,
            "TAILBOARD_STATE_DIR": str(self.state_dir),
            "PYTHONUNBUFFERED": "1",
        }

    @classmethod
    def _port_fields(cls) -> list["dataclasses.Field[Any]"]:
        return [item for item in dataclasses.fields(cls) if item.name.endswith("_port")]


def variable(field_name: str) -> str:
    """The environment variable that sets a field."""
    return next(str(f.metadata["variable"]) for f in dataclasses.fields(StackSettings) if f.name == field_name)


def _refuse_misspelt(environment: Mapping[str, str], known: Sequence[str]) -> None:
    """A name that is nearly one of ours; other TAILBOARD_ names belong to the containers."""
    ours = [name.removeprefix(PREFIX) for name in known if name.startswith(PREFIX)]
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known:
            close = difflib.get_close_matches(name.removeprefix(PREFIX), ours, n=1, cutoff=0.7)
            if close:
                raise SettingsError(f"{name} is not a setting of the stack; did you mean {PREFIX}{close[0]}?")
