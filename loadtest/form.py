"""What Locust's form, or a program in its place, posts to start or to edit a run, checked first. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from loadtest.settings import MAX_CAP, LoadSettings, SettingsError
from loadtest.target import parse_target

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
    options: Collection[str]  # all options by name; Locust lets a form set any


def complete_form(form: Mapping[str, Sequence[str]], now: Now) -> dict[str, list[str]]:
    """The form with everything in it that Locust needs; SettingsError, one sentence, if it cannot be used."""
    for name in form:
        if name not in LOCUST_FIELDS and name not in now.options:
            known = ", ".join(("user_count", "spawn_rate", "host", "run_time", "user_classes", *LoadSettings.names()))
            raise SettingsError(f"{name} is no field of this form; expected {known}")
    given = {name: values[-1].strip() for name, values in form.items() if values}
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


def _cap(text: str, settings: LoadSettings, now: Now) -> int:
    if not text:
        return max(settings.default_cap(), now.cap if now.running else 0)
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
