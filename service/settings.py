"""Every setting of the service, read once from the environment; nothing else in `service` looks at it.

A bad value stops the start with one sentence: which variable, what it holds, what was expected.
"""

# ruff: noqa: RUF009 -- _setting only describes a field
import dataclasses
import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from service.batching.policy import POLICIES, Policy

PREFIX: Final = "SERVICE_"
MULTIPROCESS: Final = "PROMETHEUS_MULTIPROC_DIR"


class SettingsError(Exception):
    """A setting cannot be used; the message is one sentence: what, where, what was expected."""


# --- reading one value: text in, value out, ValueError with what was expected ------------------------------------


def _text(text: str) -> str:
    return text


def _path(text: str) -> Path:
    return Path(text)


def _flag(text: str) -> bool:
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if text.lower() not in known:
        raise ValueError("true or false")
    return known[text.lower()]


def _policy(text: str) -> Policy:
    if text not in POLICIES:
        raise ValueError(" or ".join(POLICIES))
    return cast(Policy, text)


def _whole(lowest: int, highest: int | None = None) -> Callable[[str], int]:
    expected = f"a whole number from {lowest} to {highest}" if highest else f"a whole number, at least {lowest}"

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text, re.ASCII) or int(text) < lowest or (highest and int(text) > highest):
            raise ValueError(expected)
        return int(text)

    return read


def _seconds(above_zero: bool, highest: float = 3600.0) -> Callable[[str], float]:
    expected = f"seconds {'above' if above_zero else 'from'} 0 {'and ' if above_zero else ''}up to {highest:g}"

    def read(text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            raise ValueError(expected) from None
        if not math.isfinite(seconds) or seconds < 0 or seconds > highest or (above_zero and seconds == 0):
            raise ValueError(expected)
        return seconds

    return read


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 < rate <= 1e9:
        raise ValueError("requests per second above 0")
    return rate


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text, re.ASCII):
        raise ValueError("letters, digits, '.', '_' and '-', because it is part of a URL")
    return text


def _token(text: str) -> str:
    if not re.fullmatch(r"[\x21-\x7e]+", text, re.ASCII):
        raise ValueError("printable ASCII without spaces, because it travels in a header")
    return text


def _setting(default: Any, read: Callable[[str], Any], meaning: str, *, shown: str | None = None) -> Any:
    """A field: its default, how text becomes a value, and its line in README's table."""
    return dataclasses.field(
        default=default, repr=read is not _token, metadata={"read": read, "meaning": meaning, "shown": shown}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The service's settings; the environment variable of `field` is SERVICE_<FIELD>, except SLO_FILE.

    Unset and empty mean the default (compose passes unset variables as empty ones).
    """

    model: str = _setting(
        "digits", _text, "`digits`, `digits?trees=N`, a path to a `.skops` or `.onnx` file, or `synthetic?…`"
    )
    model_name: str | None = _setting(
        None, _name, "name in the v2 routes and in the `model` label", shown="from the model"
    )
    model_workers: int = _setting(
        1, _whole(0, 64), "child processes that run the model; 0 runs it in a thread of the service"
    )
    model_cache_dir: Path = _setting(Path(".tailboard/models"), _path, "where the trained digits forest is kept")
    batching_policy: Policy = _setting(
        "adaptive", _policy, "`adaptive` waits only while that pays; `fixed` waits for size or time"
    )
    max_batch_rows: int = _setting(128, _whole(1, 65536), "most rows in one run of the model; changeable at run time")
    max_wait_seconds: float = _setting(
        0.005, _seconds(above_zero=False, highest=60), "longest wait for company; changeable at run time"
    )
    tuned_rate: float | None = _setting(
        None, _rate, "requests/s that the tuner confirmed for these knobs; drawn on the dashboards"
    )
    queue_capacity_rows: int = _setting(1024, _whole(1, 1_000_000), "rows that may wait; beyond that the answer is 429")
    request_timeout_seconds: float = _setting(
        1.0, _seconds(above_zero=True), "deadline of a request; then the answer is 504"
    )
    max_request_rows: int = _setting(1024, _whole(1, 1_000_000), "rows in one request; beyond that 413")
    max_request_bytes: int = _setting(8_388_608, _whole(1, 1 << 30), "bytes in one request body; beyond that 413")
    host: str = _setting("127.0.0.1", _text, "address of the inference port")
    port: int = _setting(8000, _whole(1, 65535), "inference port")
    admin_host: str = _setting("127.0.0.1", _text, "address of the admin port")
    admin_port: int = _setting(8001, _whole(1, 65535), "admin port: metrics, health, knobs, slowest requests")
    admin_token: str | None = _setting(None, _token, "lets `PATCH /admin/batching` in; refused without one")
    drain_grace_seconds: float = _setting(
        2.0, _seconds(above_zero=False), "after SIGTERM: not ready, yet still serving, for so long"
    )
    drain_timeout_seconds: float = _setting(
        10.0, _seconds(above_zero=False), "then at most so long to answer what was accepted"
    )
    allow_pickle: bool = _setting(
        False, _flag, "lets `SERVICE_MODEL` be a `.joblib` file, which can run any code while it loads"
    )
    slo_file: Path = _setting(Path("slo.yaml"), _path, "what a good request is: the threshold becomes a bucket edge")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Settings":
        """Read and check all of them; SettingsError names the first that is wrong."""
        if environment.get(MULTIPROCESS):
            raise SettingsError(
                f"{MULTIPROCESS} is set; the service keeps all its metrics in one process and counts nothing with it: "
                "unset it"
            )
        known = {variable(field.name): field for field in dataclasses.fields(cls)}
        for name in sorted(environment):
            if name.startswith(PREFIX) and name not in known:
                fields = [setting.removeprefix(PREFIX) for setting in known]
                close = difflib.get_close_matches(name.removeprefix(PREFIX), fields, n=1)
                hint = f"did you mean {PREFIX}{close[0]}?" if close else "README lists the settings"
                raise SettingsError(f"{name} is not a setting of the service; {hint}")
        values: dict[str, Any] = {}
        for name, field in known.items():
            text = environment.get(name, "").strip()
            if not text:
                continue
            try:
                values[field.name] = field.metadata["read"](text)
            except ValueError as error:
                shown = repr(text) if field.repr else "not usable"
                raise SettingsError(f"{name} is {shown}; expected {error}") from None
        settings = cls(**values)
        settings._check_together()
        return settings

    def _check_together(self) -> None:
        for name in ("max_request_rows", "max_batch_rows"):
            rows = getattr(self, name)
            if rows > self.queue_capacity_rows:
                raise SettingsError(
                    f"{variable(name)} is {rows}, above {variable('queue_capacity_rows')}, which is "
                    f"{self.queue_capacity_rows}; expected no more than the queue can hold"
                )
        if self.port == self.admin_port and self.host == self.admin_host:
            raise SettingsError(
                f"{variable('port')} and {variable('admin_port')} are both {self.port}; expected two different ports"
            )


def variable(field: str) -> str:
    """The environment variable of a field."""
    return field.upper() if field == "slo_file" else PREFIX + field.upper()


def table() -> Iterator[tuple[str, str, str]]:
    """README's settings table: (environment variable, default as text, meaning)."""
    for field in dataclasses.fields(Settings):
        yield variable(field.name), _default_text(field), field.metadata["meaning"]


def _default_text(field: "dataclasses.Field[Any]") -> str:
    if field.metadata["shown"] is not None:
        return str(field.metadata["shown"])
    match field.default:
        case None:
            return "none"
        case bool():
            return str(field.default).lower()
        case float():
            return f"{field.default:g}"
        case _:
            return str(field.default)
