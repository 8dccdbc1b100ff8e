"""What a person sets for a load: names, defaults and limits, the same on the command line, in the form and by HTTP."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from loadtest import arrivals
from loadtest.arrivals import Plan, RateCurve, Share

ARRIVALS: Final = ("constant", "poisson", "ramp", "steps", "spike")
MAX_RATE: Final = 100_000.0  # arrivals per second; far above what a machine's Locust workers can send
MAX_SECONDS: Final = 7 * 86_400.0
MAX_TIMEOUT_SECONDS: Final = 600.0
MAX_ROWS_PER_REQUEST: Final = 4_096
MAX_SEED: Final = 2**63 - 1
MAX_CAP: Final = 20_000  # users in one run; each is a greenlet, and maybe a socket
CAP_HEADROOM: Final = 1.2  # the default cap lets every request wait for its whole timeout, and a fifth more


class SettingsError(ValueError):
    """A setting that cannot be used: one sentence that says which, what it is and what was expected."""


def _number(above: float, most: float, unit: str, may_equal: bool = False) -> Callable[[str, Any], float]:
    expected = f"a number {'from' if may_equal else 'above'} {above:g} {'to' if may_equal else 'and at most'} {most:g}"

    def check(name: str, value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        # `not (… )` and not its opposite, so that NaN is refused too.
        if not (above <= number <= most and (may_equal or number > above)):
            raise SettingsError(f"{name} is {value!r}; expected {expected}{unit}")
        return number

    return check


def _seed(name: str, value: Any) -> int:
    text = str(value).strip()
    if not (text.isascii() and text.isdigit()) or int(text) > MAX_SEED:
        raise SettingsError(f"{name} is {value!r}; expected a whole number from 0 to {MAX_SEED}")
    return int(text)


def _arrivals(name: str, value: Any) -> str:
    if value not in ARRIVALS:
        raise SettingsError(f"{name} is {value!r}; expected one of {', '.join(ARRIVALS)}")
    return str(value)


def _steps(name: str, value: Any) -> str:
    parse_steps(value, name)
    return str(value)


def _rows(name: str, value: Any) -> str:
    parse_rows(value, name)
    return str(value)


def parse_steps(text: Any, name: str = "steps") -> list[tuple[float, float]]:
    """'100:30,200:30' as [(rate, seconds), …]; SettingsError if it is no such list."""
    expected = f"rate:seconds pairs such as 100:30,200:30, rates from 0 to {MAX_RATE:g} and not all 0, seconds above 0"
    stages = []
    for part in str(text).split(","):
        pair = part.split(":")
        try:
            rate, seconds = (float(number) for number in pair)
        except ValueError:
            raise SettingsError(f"{name} is {text!r}; expected {expected}") from None
        if not (0 <= rate <= MAX_RATE and 0 < seconds <= MAX_SECONDS):
            raise SettingsError(f"{name} is {text!r}; expected {expected}")
        stages.append((rate, seconds))
    if not any(rate for rate, _ in stages):
        raise SettingsError(f"{name} is {text!r}; expected {expected}")
    return stages


def parse_rows(text: Any, name: str = "rows_per_request") -> tuple[int, ...]:
    """'8' or the mix '1,8,64' as numbers of rows; SettingsError if it is no such list."""
    parts = [part.strip() for part in str(text).split(",")]
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= MAX_ROWS_PER_REQUEST for part in parts):
        raise SettingsError(
            f"{name} is {text!r}; expected a whole number from 1 to {MAX_ROWS_PER_REQUEST}, or a mix such as 1,8,64"
        )
    return tuple(int(part) for part in parts)


def _setting(default: Any, check: Callable[[str, Any], Any], help: str) -> Any:
    return field(default=default, metadata={"check": check, "help": help})


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """One load. Built by `with_values`, which checks; every value is kept in the type of its default."""

    arrivals: str = _setting(
        "poisson",
        _arrivals,
        "open loop: when requests start; constant is evenly spaced, the others are Poisson at the rate of their shape",
    )
    rate: float = _setting(
        100.0,
        _number(0, MAX_RATE, " arrivals per second"),
        "arrivals per second; users are only the cap on requests in flight, they do not make the load",
    )
    seed: int = _setting(1, _seed, "the same seed gives the same arrivals")
    rows_per_request: str = _setting("1", _rows, "rows in a request, or a mix such as 1,8,64")
    timeout_seconds: float = _setting(
        2.0, _number(0, MAX_TIMEOUT_SECONDS, " seconds"), "a request that takes longer has failed"
    )
    ramp_to_rate: float = _setting(
        1000.0,
        _number(0, MAX_RATE, " arrivals per second", may_equal=True),
        "ramp: from rate to this one, which then stays",
    )
    ramp_seconds: float = _setting(60.0, _number(0, MAX_SECONDS, " seconds"), "ramp: how long that takes")
    steps: str = _setting(
        "100:30,200:30,400:30", _steps, "steps: rate:seconds one after the other, the last rate stays; rate is not used"
    )
    spike_rate: float = _setting(
        1000.0, _number(0, MAX_RATE, " arrivals per second", may_equal=True), "spike: the rate in the spike"
    )
    spike_after_seconds: float = _setting(
        30.0, _number(0, MAX_SECONDS, " seconds", may_equal=True), "spike: when it begins"
    )
    spike_seconds: float = _setting(10.0, _number(0, MAX_SECONDS, " seconds"), "spike: how long it lasts")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of all settings, in the order in which a person reads them."""
        return tuple(each.name for each in fields(cls))

    def with_values(self, values: Mapping[str, Any]) -> "LoadSettings":
        """These settings with those among `values` that are settings put in; SettingsError at the first bad one."""
        given = {name: values[name] for name in self.names() if name in values}
        mine = {each.name: getattr(self, each.name) for each in fields(self)}
        checks = {each.name: each.metadata["check"] for each in fields(self)}
        return LoadSettings(**mine | {name: checks[name](name, value) for name, value in given.items()})

    def as_dict(self) -> dict[str, Any]:
        """All settings by name, as they travel to workers."""
        return {name: getattr(self, name) for name in self.names()}

    def curve(self) -> RateCurve:
        """The rate over time that these settings ask for."""
        match self.arrivals:
            case "ramp":
                return arrivals.ramp(self.rate, self.ramp_to_rate, self.ramp_seconds)
            case "steps":
                return arrivals.steps(parse_steps(self.steps))
            case "spike":
                return arrivals.spike(self.rate, self.spike_rate, self.spike_after_seconds, self.spike_seconds)
            case _:
                return arrivals.constant(self.rate)

    def plan(self, share: Share) -> Plan:
        """The schedule's plan for one worker's share."""
        return Plan(self.curve(), self.seed, self.arrivals == "constant", share)

    def same_arrivals(self, other: "LoadSettings") -> bool:
        """Whether only settings differ that have no say in when requests start."""
        free = {"rows_per_request": other.rows_per_request, "timeout_seconds": other.timeout_seconds}
        return self.with_values(free) == other

    def default_cap(self) -> int:
        """Users for this load when nobody says: enough for every request to wait for its whole timeout."""
        return max(1, min(MAX_CAP, math.ceil(CAP_HEADROOM * self.curve().peak * self.timeout_seconds)))
