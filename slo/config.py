"""slo.yaml, read once and checked: what "good" is for each service, and when somebody is told that it is not.

Everything that depends on the SLO (rules, rule tests, dashboards, bucket edges, verdicts) takes it from here.
"""

import math
import re
import reprlib
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from slo.buckets import duration_edges
from slo.durations import duration_text, parse_duration

SCRAPE_SECONDS: Final = 5  # prometheus.yml scrapes and evaluates this often
SHORTEST_WINDOW_SECONDS: Final = 4 * SCRAPE_SECONDS  # a rate over fewer scrapes jumps, and dies with one lost scrape
SEVERITIES: Final = ("page", "ticket")
HIGHEST_OBJECTIVE: Final = 0.999999  # beyond, no number of requests that a window holds says anything
STACK_JOBS: Final = ("loadgen", "inbox", "haproxy", "prometheus", "alertmanager")  # of prometheus.yml, beside services
# Names of files and rule groups are made of a job and one of these.
_TAKEN: Final = re.compile(r"stack|.*-(budget|long-windows|breach-\w+)", re.ASCII)

_JOB: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*", re.ASCII)
_PROFILE_KEYS: Final = ("windows", "burn_rates", "min_requests", "for", "keep_firing_for")


class SloError(Exception):
    """slo.yaml cannot be used; the message is one sentence: which file, where in it, what was expected."""


@dataclass(frozen=True, slots=True)
class BurnRate:
    """Alert while the error budget burns at more than `factor` times the rate that would just last the window.

    Both windows must agree: the long one says that it matters, the short one that it still goes on
    (Google's SRE Workbook, "Alerting on SLOs", multiwindow multi-burn-rate alerts).
    """

    factor: float
    long_seconds: int
    short_seconds: int
    severity: str  # page | ticket


@dataclass(frozen=True, slots=True)
class Profile:
    """How an SLO is watched. A profile with plain `windows` is one burn rate of factor 1 that pages."""

    name: str
    burn_rates: tuple[BurnRate, ...]
    min_requests: int  # in the long window; fewer say nothing about a percentile
    for_seconds: int
    keep_firing_for_seconds: int


@dataclass(frozen=True, slots=True)
class Service:
    """One service's objective: the share `objective` of its requests is answered 2xx within `threshold_seconds`."""

    job: str  # Prometheus job
    objective: float  # above 0, below 1
    threshold_seconds: float  # an exact bucket edge on both sides of the wire
    window_days: int
    profile: Profile

    @property
    def budget(self) -> float:
        """Share of requests that may be bad. Rounded: 1 - 0.99 in binary is 0.010000000000000009."""
        return round(1 - self.objective, 12)


@dataclass(frozen=True, slots=True)
class SloFile:
    """The whole file."""

    services: tuple[Service, ...]  # at least one, each job once
    profiles: tuple[Profile, ...]

    def service(self, job: str) -> Service:
        """The service of that Prometheus job; SloError if there is none."""
        for service in self.services:
            if service.job == job:
                return service
        jobs = ", ".join(service.job for service in self.services)
        raise SloError(f"no service with job {job!r} in the SLO file; it has: {jobs}")

    @property
    def duration_edges(self) -> tuple[float, ...]:
        """Histogram edges in seconds with every threshold among them."""
        return duration_edges(*(service.threshold_seconds for service in self.services))


def load(path: str | Path) -> SloFile:
    """Read and check an SLO file; any mistake is an SloError of one sentence."""
    try:
        text = Path(path).read_bytes()
    except FileNotFoundError:
        raise SloError(f"{path}: no such file; expected the SLO file, such as slo.yaml") from None
    except OSError as error:
        raise SloError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        document = yaml.load(text, Loader=_UniqueKeys)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        raise SloError(f"{path}:{where} not valid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise SloError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    try:
        return _slo_file(_Node(document, ""))
    except SloError as error:
        raise SloError(f"{path}: {error}") from None


class _UniqueKeys(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice, of which YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                raise yaml.MarkedYAMLError(problem=f"key {name!r} is given twice", problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


@dataclass(frozen=True, slots=True)
class _Node:
    """A value of the document with its place in it, so that every refusal can say where."""

    value: Any
    where: str

    def refuse(self, expected: str) -> SloError:
        what = "empty" if self.value is None else reprlib.repr(self.value)
        return SloError(f"{self.where or 'the file'} is {what}; expected {expected}")

    def fields(self, known: tuple[str, ...], required: tuple[str, ...]) -> Mapping[str, "_Node"]:
        if not isinstance(self.value, dict):
            raise self.refuse(f"a mapping with {', '.join(required)}")
        at = f"{self.where}." if self.where else ""
        for key in self.value:
            if key not in known:
                raise SloError(f"{at}{key} is an unknown key; expected {', '.join(known)}")
        for key in required:
            if key not in self.value:
                raise SloError(f"{at}{key} is missing")
        return {key: _Node(value, f"{at}{key}") for key, value in self.value.items()}

    def items(self, expected: str) -> Iterator["_Node"]:
        if not isinstance(self.value, list) or not self.value:
            raise self.refuse(expected)
        return (_Node(value, f"{self.where}[{index}]") for index, value in enumerate(self.value))

    def number(self, expected: str) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not math.isfinite(self.value):
            raise self.refuse(expected)
        return float(self.value)

    def whole(self, expected: str) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < 1:
            raise self.refuse(expected)
        return self.value

    def duration(self, at_least: int = 0) -> int:
        if not isinstance(self.value, str):
            raise self.refuse("a duration with its unit, such as 30s or 2m")
        try:
            seconds = parse_duration(self.value)
        except ValueError:
            raise self.refuse("a duration such as 30s, 2m, 1h30m or 3d") from None
        if seconds < at_least:
            raise self.refuse(f"at least {duration_text(at_least)}, four scrapes of {duration_text(SCRAPE_SECONDS)}")
        return seconds

    def one_of(self, choices: tuple[str, ...]) -> str:
        if self.value not in choices:
            raise self.refuse(f"one of {', '.join(choices)}")
        return str(self.value)


def _slo_file(root: _Node) -> SloFile:
    fields = root.fields(("services", "profiles"), required=("services", "profiles"))
    profiles = _profiles(fields["profiles"])
    services: list[Service] = []
    for node in fields["services"].items("a list with at least one service"):
        service = _service(node, profiles)
        if any(service.job == other.job for other in services):
            raise SloError(f"{node.where}.job is {service.job!r} again; expected each job once")
        services.append(service)
    return SloFile(tuple(services), tuple(profiles.values()))


def _profiles(node: _Node) -> dict[str, Profile]:
    if not isinstance(node.value, dict) or not node.value:
        raise node.refuse("a mapping with at least one profile, such as local")
    return {str(name): _profile(str(name), _Node(value, f"profiles.{name}")) for name, value in node.value.items()}


def _profile(name: str, node: _Node) -> Profile:
    fields = node.fields(_PROFILE_KEYS, required=("min_requests",))
    if ("windows" in fields) == ("burn_rates" in fields):
        raise SloError(
            f"{node.where} has {'both' if 'windows' in fields else 'neither'} of windows and burn_rates; expected one"
        )
    if "windows" in fields:
        burn_rates: tuple[BurnRate, ...] = (_windows(fields["windows"]),)
    else:
        burn_rates = _burn_rates(fields["burn_rates"])
    return Profile(
        name=name,
        burn_rates=burn_rates,
        min_requests=fields["min_requests"].whole("a whole number of requests, at least 1"),
        for_seconds=fields["for"].duration() if "for" in fields else 0,
        keep_firing_for_seconds=fields["keep_firing_for"].duration() if "keep_firing_for" in fields else 0,
    )


def _windows(node: _Node) -> BurnRate:
    windows = [item.duration(SHORTEST_WINDOW_SECONDS) for item in node.items("two durations, such as [30s, 2m]")]
    if len(windows) != 2 or windows[0] >= windows[1]:
        raise node.refuse("two durations, the shorter first, such as [30s, 2m]")
    return BurnRate(factor=1, long_seconds=windows[1], short_seconds=windows[0], severity="page")


def _burn_rates(node: _Node) -> tuple[BurnRate, ...]:
    rates: list[BurnRate] = []
    for item in node.items("a list of burn rates"):
        rate = _burn_rate(item)
        if any(rate.long_seconds == other.long_seconds for other in rates):
            long = duration_text(rate.long_seconds)
            raise SloError(f"{item.where}.long is {long!r} again; expected each once, since it names the alert")
        rates.append(rate)
    return tuple(rates)


def _burn_rate(node: _Node) -> BurnRate:
    keys = ("factor", "long", "short", "severity")
    fields = node.fields(keys, required=keys)
    factor = fields["factor"].number("a number above 0, such as 14.4")
    if factor <= 0:
        raise fields["factor"].refuse("a number above 0, such as 14.4")
    long, short = fields["long"].duration(SHORTEST_WINDOW_SECONDS), fields["short"].duration(SHORTEST_WINDOW_SECONDS)
    if short >= long:
        raise fields["short"].refuse(f"less than long, which is {duration_text(long)}")
    return BurnRate(factor, long, short, fields["severity"].one_of(SEVERITIES))


def _service(node: _Node, profiles: Mapping[str, Profile]) -> Service:
    keys = ("job", "objective", "threshold_seconds", "window_days", "profile")
    fields = node.fields(keys, required=keys)
    job = fields["job"].value
    if not isinstance(job, str) or not _JOB.fullmatch(job):
        raise fields["job"].refuse("a Prometheus job: letters, digits, _ and -, a letter first")
    if job in STACK_JOBS:
        raise fields["job"].refuse(f"a job of its own: {', '.join(STACK_JOBS)} are the stack's")
    if _TAKEN.fullmatch(job):
        raise fields["job"].refuse("another name: the generated files and rule groups go by this one")
    objective = fields["objective"].number("a share between 0 and 1, such as 0.99")
    if not 0 < objective < 1:
        raise fields["objective"].refuse("a share above 0 and below 1, such as 0.99")
    if objective > HIGHEST_OBJECTIVE:
        raise fields["objective"].refuse(f"at most {HIGHEST_OBJECTIVE}")
    threshold = fields["threshold_seconds"].number("seconds as a number, such as 0.05")
    lowest, highest = duration_edges()[0], duration_edges()[-1]
    if not lowest <= threshold <= highest:
        raise fields["threshold_seconds"].refuse(
            f"seconds between {lowest:g} and {highest:g}, the histogram's first and last edge"
        )
    service = Service(
        job=job,
        objective=objective,
        threshold_seconds=threshold,
        window_days=fields["window_days"].whole("a whole number of days, at least 1"),
        profile=profiles[fields["profile"].one_of(tuple(profiles))],
    )
    check_profile(service, node.where)
    return service


def check_profile(service: Service, where: str) -> None:
    """SloError if the service's profile asks for the impossible; `where` the service stands in the file."""
    _check_burn_rates_can_fire(service, where)
    _check_windows_are_shorter(service, where)


def _check_burn_rates_can_fire(service: Service, where: str) -> None:
    """The bad ratio is at most 1, so a factor of 1 / budget or more asks for what cannot happen."""
    for index, burn in enumerate(service.profile.burn_rates):
        if burn.factor * service.budget >= 1:
            raise SloError(
                f"profiles.{service.profile.name}.burn_rates[{index}].factor is {burn.factor:g}, which can never fire "
                f"for {where}.objective {service.objective:g}; expected less than {1 / service.budget:g}"
            )


def _check_windows_are_shorter(service: Service, where: str) -> None:
    """A ratio over more than the SLO's own window would page for what the objective has forgotten."""
    for burn in service.profile.burn_rates:
        if burn.long_seconds > service.window_days * 86400:
            raise SloError(
                f"{where}.window_days is {service.window_days}; expected at least the longest window of its profile "
                f"{service.profile.name}, which is {duration_text(burn.long_seconds)}"
            )
