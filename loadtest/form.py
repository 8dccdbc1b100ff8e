"""What Locust's form, or a program in its place, posts to start or to edit a run, checked first."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from loadtest.arrivals import Trace
from loadtest.data_file import FOLDER, shipped_files
from loadtest.settings import FILES, MAX_CAP, LoadSettings, SettingsError
from loadtest.target import parse_target
from loadtest.trace_file import TraceError, read_trace

# Fields of Locust 2.47's own form.
LOCUST_FIELDS: Final = ("user_count", "spawn_rate", "host", "user_classes", "shape_class", "run_time", "profile")


@dataclass(frozen=True, slots=True)
class Now:
    """How things stand when a form comes."""

    settings: LoadSettings
    running: bool
    cap: int  # users of the run that goes on
    user_classes: Sequence[str]  # in use
    default_class: str
    options: Collection[str]  # that people's own files have added; Locust would let a form set any option that it has
    command_line: LoadSettings | None = None  # as they were when the program started
    shipped: Collection[str] = field(default_factory=shipped_files)  # files that a form may name
    trace_at: Callable[[str], Trace] = read_trace


def complete_form(form: Mapping[str, Sequence[str]], now: Now) -> dict[str, list[str]]:
    """The form with everything in it that Locust needs; SettingsError, one sentence, if it cannot be used."""
    for name in form:
        if name not in LOCUST_FIELDS and name not in LoadSettings.names() and name not in now.options:
            known = ", ".join(("user_count", "spawn_rate", "host", "run_time", "user_classes", *LoadSettings.names()))
            raise SettingsError(f"{name} is no field of this form; expected {known}")
    given = {name: values[-1].strip() for name, values in form.items() if values}
    if given.get("shape_class", "Default") not in ("", "Default"):
        raise SettingsError(f"shape_class is {given['shape_class']!r}; expected Default: arrivals shape the load here")
    given |= {name: _file(name, given[name], now) for name in FILES if name in given}
    settings = now.settings.with_values(given)
    if given.get("host"):
        parse_target(given["host"])
    full = {name: list(values) for name, values in form.items()}
    cap = _cap(given.get("user_count", ""), settings, now)
    full["user_count"] = [str(cap)]
    full["spawn_rate"] = [str(_spawn_rate(given.get("spawn_rate", ""), cap))]
    if not given.get("host"):
        full.pop("host", None)
    full["user_classes"] = _user_classes(form.get("user_classes", ()), now)
    for name in LoadSettings.names():
        if name in given:
            full[name] = [str(getattr(settings, name))]
    return full


def _file(name: str, value: str, now: Now) -> str:
    """A file that the form may name: what it names is sent to the target, which the form names as well.

    So only files that are everybody's, and those that the person at the command line has chosen.
    """
    in_folder = f"{FOLDER}/{value}"
    if in_folder in now.shipped:
        return in_folder
    chosen = {getattr(each, name) for each in (now.settings, now.command_line) if each is not None}
    if not value or value in chosen or value in now.shipped:
        return value
    raise SettingsError(
        f"{name} is {value[:80]!r}; expected the file named on the command line, or one in {FOLDER}: "
        f"{', '.join(each.removeprefix(FOLDER + '/') for each in now.shipped) or 'it is empty'}"
    )


def _cap(text: str, settings: LoadSettings, now: Now) -> int:
    trace = None
    if settings.arrivals == "trace":
        try:
            trace = now.trace_at(settings.trace)
        except TraceError as error:
            raise SettingsError(str(error)) from error
    if not text:
        return max(settings.default_cap(trace), now.cap if now.running else 0)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_CAP):
        raise SettingsError(
            f"user_count is {text!r}; expected a whole number from 1 to {MAX_CAP}: the cap on requests in flight"
        )
    return int(text)


def _spawn_rate(text: str, cap: int) -> float:
    """Users per second. All at once where nobody says: they only wait, so that there is nothing to spare the server."""
    if not text:
        return float(cap)
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not (rate > 0 and math.isfinite(rate)):
        raise SettingsError(f"spawn_rate is {text!r}; expected a number above 0: users started per second")
    return rate


def _user_classes(chosen: Sequence[str], now: Now) -> list[str]:
    """The classes to run. Locust ticks all by default, and its Edit dialog posts all again: neither is a choice."""
    if now.running:
        return list(now.user_classes)
    return [now.default_class] if now.default_class in chosen or not chosen else list(chosen)
