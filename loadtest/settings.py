"""What a person sets for a load: names, defaults and limits, the same on the command line, in the form and by HTTP."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from loadtest import arrivals
from loadtest.analysis.verdict import Objective, Slo
from loadtest.arrivals import Plan, RateCurve, Share, Trace

ARRIVALS: Final = ("constant", "poisson", "ramp", "steps", "spike", "trace")
FILES: Final = ("data", "body_file", "trace")  # settings that name a file, which each worker reads
MAX_RATE: Final = 100_000.0  # arrivals per second; far above what a machine's Locust workers can send
MAX_SECONDS: Final = 7 * 86_400.0
MAX_TIMEOUT_SECONDS: Final = 600.0
MAX_ROWS_PER_REQUEST: Final = 4_096
MAX_SEED: Final = 2**63 - 1
MAX_SPEED: Final = 10_000.0  # seconds of trace per second
MAX_TEXT: Final = 2_048  # characters of a path, a header list or a file's name
MAX_CAP: Final = 20_000  # users in one run; each is a greenlet, and maybe a socket
CAP_HEADROOM: Final = 1.2  # the default cap lets every request wait for its whole timeout, and a fifth more

HEADER_SEPARATOR: Final = " | "
_OWN_HEADERS: Final = ("content-length", "transfer-encoding", "connection")  # they follow from the request
_TOLD_HEADERS: Final = ("accept", "content-type", "host", "user-agent")  # all others may be secrets
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_SHAPES: Final[Mapping[str, tuple[str, ...]]] = {
    "ramp": ("rate", "ramp_to_rate", "ramp_seconds"),
    "steps": ("steps",),
    "spike": ("rate", "spike_rate", "spike_after_seconds", "spike_seconds"),
}  # settings that make a curve which is not flat


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


def _share(name: str, value: Any) -> float:
    share = _number(0, 1, "", may_equal=True)(name, value)
    if share == 1:
        raise SettingsError(f"{name} is {value!r}; expected a share from 0 to below 1")
    return share


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


def _line(name: str, value: Any, expected: str) -> str:
    """One line of text that is safe in a request's head and in a page."""
    text = str(value).strip()
    if len(text) > MAX_TEXT or not text.isprintable() or "<" in text or ">" in text:
        raise SettingsError(f"{name} is {text[:80]!r}; expected {expected}, one line of at most {MAX_TEXT} characters")
    return text


def _path(name: str, value: Any) -> str:
    expected = "a path that begins with /, without spaces, such as /predict or /v2/models/NAME/infer"
    text = _line(name, value, expected)
    if not (text.startswith("/") and text.isascii()) or any(mark in text for mark in ' #"\\'):
        raise SettingsError(f"{name} is {text!r}; expected {expected}")
    return text


def _file(*endings: str) -> Callable[[str, Any], str]:
    expected = "the name of a file" + (f" that ends in {' or '.join(endings)}" if endings else "")

    def check(name: str, value: Any) -> str:
        text = _line(name, value, expected)
        if text and endings and not text.endswith(endings):
            raise SettingsError(f"{name} is {text!r}; expected {expected}")
        return text

    return check


def _headers(name: str, value: Any) -> str:
    # A repeated option of the command line comes as a list, the form's field as one text.
    text = HEADER_SEPARATOR.join(value) if isinstance(value, list | tuple) else value
    return HEADER_SEPARATOR.join(f"{header}: {content}" for header, content in parse_headers(text, name))


def parse_headers(text: Any, name: str = "header") -> tuple[tuple[str, str], ...]:
    """'Name: value | Name: value' as ((name, value), …); SettingsError if it is no such list."""
    expected = f"Name: value in plain letters, several with {HEADER_SEPARATOR!r} between them"
    headers = []
    for part in re.split(r"\s+\|(?:\s+|$)", _line(name, text, expected)):
        if not part.strip():
            continue
        header, colon, content = (each.strip() for each in part.partition(":"))
        # The contents are not repeated: they may be a secret, and this sentence ends in logs.
        if not (colon and _TOKEN.fullmatch(header) and content.isascii()):
            raise SettingsError(f"{name} has {header[:40]!r}; expected {expected}")
        if header.lower() in _OWN_HEADERS:
            raise SettingsError(f"{name} has {header!r}, which follows from the request; expected others")
        headers.append((header, content))
    return tuple(headers)


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
        "open loop: when requests start; constant is evenly spaced, trace replays a recording, "
        "the others are Poisson at the rate of their shape",
    )
    rate: float = _setting(
        100.0,
        _number(0, MAX_RATE, " arrivals per second"),
        "arrivals per second; users are only the cap on requests in flight, they do not make the load",
    )
    seed: int = _setting(1, _seed, "the same seed gives the same arrivals")
    path: str = _setting("/predict", _path, "where requests go: /predict, or /v2/models/NAME/infer with v2 tensors")
    data: str = _setting(
        "",
        _file(".npy", ".csv", ".jsonl"),
        "rows to send, a .npy, .csv or .jsonl file; without one the digits, or made-up rows in the model's shape",
    )
    rows_per_request: str = _setting("1", _rows, "rows in a request, or a mix such as 1,8,64")
    header: str = _setting(
        "", _headers, "a header for every request, Name: value; several with ' | ' between them, or repeat the option"
    )
    body_file: str = _setting(
        "", _file(), "a body that is sent as it is instead of rows; of a .jsonl file each line in its turn"
    )
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
    slo_threshold_seconds: float = _setting(
        0.0,
        _number(0, MAX_TIMEOUT_SECONDS, " seconds", may_equal=True),
        "objective that the load is judged by: answered 2xx within this time; 0: as slo.yaml says",
    )
    slo_objective: float = _setting(
        0.0, _share, "the share of arrivals that has to be, such as 0.99; 0: as slo.yaml says"
    )
    trace: str = _setting("", _file(), "trace: a file of instants, one a line or in a CSV's column TIMESTAMP")
    trace_speed: float = _setting(
        1.0, _number(0, MAX_SPEED, " seconds of trace per second"), "trace: 2 replays it in half of its time"
    )

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of all settings, in the order in which a person reads them."""
        return tuple(each.name for each in fields(cls))

    def with_values(self, values: Mapping[str, Any]) -> "LoadSettings":
        """These settings with those among `values` that are settings put in; SettingsError at the first bad one."""
        given = {name: values[name] for name in self.names() if name in values}
        mine = {each.name: getattr(self, each.name) for each in fields(self)}
        checks = {each.name: each.metadata["check"] for each in fields(self)}
        settings = LoadSettings(**mine | {name: checks[name](name, value) for name, value in given.items()})
        if settings.arrivals == "trace" and not settings.trace:
            raise SettingsError("trace is ''; expected the file to replay, because arrivals is 'trace'")
        if settings.data and settings.body_file:
            raise SettingsError(
                f"data is {settings.data!r} and body_file is {settings.body_file!r}; expected one of them, or none"
            )
        return settings

    def as_dict(self) -> dict[str, Any]:
        """All settings by name, as they travel to workers."""
        return {name: getattr(self, name) for name in self.names()}

    def as_told(self) -> dict[str, Any]:
        """All settings by name, as they may be shown to others: what a header says is left out if it may be secret."""
        headers = HEADER_SEPARATOR.join(
            f"{name}: {content if name.lower() in _TOLD_HEADERS else '(not shown)'}"
            for name, content in parse_headers(self.header)
        )
        return self.as_dict() | {"header": headers}

    def curve(self) -> RateCurve:
        """The rate over time that these settings ask for; of a trace its speed, in seconds of trace per second."""
        match self.arrivals:
            case "ramp":
                return arrivals.ramp(self.rate, self.ramp_to_rate, self.ramp_seconds)
            case "steps":
                return arrivals.steps(parse_steps(self.steps))
            case "spike":
                return arrivals.spike(self.rate, self.spike_rate, self.spike_after_seconds, self.spike_seconds)
            case "trace":
                return arrivals.constant(self.trace_speed)
            case _:
                return arrivals.constant(self.rate)

    def plan(self, share: Share, begun: float = 0.0, trace: Trace | None = None) -> Plan:
        """The plan of one worker's share, `begun` seconds into the load; `trace` is what that setting names."""
        replayed = self._needed(trace)
        return Plan(self.curve(), self.seed, self.arrivals == "constant", share, replayed, begun)

    def begun_after(self, before: "LoadSettings", seconds: float) -> float:
        """Where this load's curve stands when it takes over from that of `before` at `seconds`; 0: it begins anew.

        A trace goes on at the arrival where it is, whatever the speed. A shape told again goes on; another shape, or
        the same with other numbers, begins anew. A flat curve has no place to be at, and its time goes on.
        """
        if self.arrivals == before.arrivals == "trace":
            return seconds * before.trace_speed / self.trace_speed if self.trace == before.trace else 0.0
        if "trace" in (self.arrivals, before.arrivals):
            return 0.0
        mine, theirs = (
            (each.arrivals, *(getattr(each, name) for name in _SHAPES[each.arrivals]))
            if each.arrivals in _SHAPES
            else ()
            for each in (self, before)
        )
        return seconds if mine == theirs else 0.0

    def same_arrivals(self, other: "LoadSettings") -> bool:
        """Whether only settings differ that have no say in when requests start."""
        free = (
            *("path", "data", "rows_per_request", "header", "body_file", "timeout_seconds"),
            *("slo_threshold_seconds", "slo_objective"),
        )
        return self.with_values({name: getattr(other, name) for name in free}) == other

    def objective(self, slo: Slo) -> Objective:
        """What the load is judged by: as `slo` says, where these settings do not say otherwise."""
        return Objective(self.slo_threshold_seconds or slo.threshold_seconds, self.slo_objective or slo.objective)

    def default_cap(self, trace: Trace | None = None) -> int:
        """Users for this load when nobody says: enough for every request to wait for its whole timeout."""
        replayed = self._needed(trace)
        if replayed is None:
            most = self.curve().peak * self.timeout_seconds
        else:
            most = replayed.most_within(self.timeout_seconds * self.trace_speed)
        return max(1, min(MAX_CAP, math.ceil(CAP_HEADROOM * most)))

    def _needed(self, trace: Trace | None) -> Trace | None:
        if self.arrivals != "trace":
            return None
        if trace is None:
            raise ValueError(f"no trace came for arrivals 'trace'; expected what {self.trace!r} holds")
        return trace
