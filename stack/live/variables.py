"""Template variables: which values there are to choose from, which is chosen, and their place in a query. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stack.live.dashboard import Variable

ALL: Final = "$__all"

# A name begins with a letter: "$1" belongs to label_replace().
_NAME: Final = r"[A-Za-z_]\w*"
_REFERENCE: Final = re.compile(rf"\$({_NAME})|\$\{{({_NAME})(?::(\w+))?\}}|\[\[({_NAME})(?::(\w+))?\]\]", re.ASCII)
_LABEL_VALUES: Final = re.compile(r"label_values\(\s*(?:(.+?)\s*,\s*)?([A-Za-z_]\w*)\s*\)", re.ASCII | re.DOTALL)


class UnknownVariable(ValueError):
    """A query names a variable that the dashboard does not have."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A variable with its options and what is chosen; `ALL` stands for every option."""

    variable: Variable
    options: tuple[str, ...]
    chosen: tuple[str, ...]

    def values(self) -> tuple[str, ...]:
        """The chosen values with `ALL` spelled out."""
        return self.options if ALL in self.chosen else self.chosen

    def promql(self, format: str = "") -> str:
        """As it stands in a query: escaped for a quoted regular expression where more than one value may be chosen."""
        variable = self.variable
        if ALL in self.chosen and variable.all_value:
            return variable.all_value
        values = self.values()
        if format in ("raw", "text"):
            return ",".join(values)
        if format == "csv":
            return ",".join(values)
        if format == "pipe":
            return "|".join(values)
        if format == "regex" or variable.multi or variable.include_all:
            if not values:
                return ".*"
            escaped = [_escape(value) for value in values]
            return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"
        return values[0] if values else ""


def _escape(value: str) -> str:
    """A value as a regular expression inside a PromQL string: each backslash is doubled for the string."""
    return re.sub(r"([\\^$*+?.()|\[\]{}])", r"\\\\\1", value).replace('"', r"\"")


def interpolate(text: str, choices: Mapping[str, Choice], built_in: Mapping[str, str]) -> str:
    """Replace $name, ${name}, ${name:format} and [[name]]; UnknownVariable for a name that neither has."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2] or match[4]
        if name in built_in:
            return built_in[name]
        if name in choices:
            return choices[name].promql(match[3] or match[5] or "")
        raise UnknownVariable(f"the query names the variable {match[0]!r}, which the dashboard does not define")

    return _REFERENCE.sub(value, text)


def label_query(query: str) -> tuple[str, str] | None:
    """(selector or "", label) of `label_values(selector, label)`; None for another kind of query."""
    match = _LABEL_VALUES.fullmatch(query.strip())
    return (match[1] or "", match[2]) if match else None


def choose(variable: Variable, found: Iterable[str], asked: Sequence[str]) -> Choice:
    """Options and choice: what the viewer asked for, else what the file has saved, else the first option.

    Whatever is asked for but not on offer is dropped, so that no text of a URL reaches a query unless it is an option.
    """
    options = tuple(_sorted(_filtered(found, variable.regex), variable.sort))
    every = variable.include_all and (variable.multi or bool(options))
    for wanted in (asked, variable.current):
        chosen = tuple(
            ALL if value in ("All", ALL) and every else value
            for value in wanted
            if value in options or (value in ("All", ALL) and every)
        )
        if chosen:
            chosen = (ALL,) if ALL in chosen else chosen
            return Choice(variable, options, chosen if variable.multi else chosen[:1])
    if every:
        return Choice(variable, options, (ALL,))
    return Choice(variable, options, options[:1])


def fixed_options(variable: Variable) -> tuple[str, ...]:
    """Options of a variable that needs no query."""
    if variable.type in ("custom", "interval"):
        parts = (re.sub(r"\\(.)", r"\1", part).strip() for part in re.split(r"(?<!\\),", variable.query))
        return tuple(part.split(" : ", 1)[-1].strip() for part in parts if part)
    if variable.type in ("constant", "textbox"):
        return (variable.query,)
    return ()


def resolve(
    variables: Sequence[Variable],
    asked: Mapping[str, Sequence[str]],
    built_in: Mapping[str, str],
    options_of: Callable[[str], Sequence[str]],
) -> dict[str, Choice]:
    """Every variable in the file's order, so that one may stand in the query of a later one.

    `options_of` runs the (interpolated) query of a query variable. A datasource variable has the one value that
    there is: this page knows one Prometheus.
    """
    choices: dict[str, Choice] = {}
    for variable in variables:
        if variable.type == "datasource":
            choices[variable.name] = Choice(variable, ("prometheus",), ("prometheus",))
        elif variable.type == "query":
            found = options_of(interpolate(variable.query, choices, built_in))
            choices[variable.name] = choose(variable, found, asked.get(variable.name, ()))
        else:
            choices[variable.name] = choose(variable, fixed_options(variable), asked.get(variable.name, ()))
    return choices


def _filtered(found: Iterable[str], regex: str) -> list[str]:
    """Grafana's /regex/: what does not match goes; a group, if there is one, is what stays of the value."""
    unique = list(dict.fromkeys(found))
    pattern = regex.strip().removeprefix("/").removesuffix("/")
    if not pattern:
        return unique
    try:
        matches = [(value, re.search(pattern, value)) for value in unique]
    except re.error:
        return unique
    kept = (match.group(1) if match.re.groups else value for value, match in matches if match)
    return list(dict.fromkeys(value for value in kept if value is not None))


def _sorted(values: list[str], sort: int) -> list[str]:
    """Grafana's numbers: 0 as found, 1/2 alphabetical, 3/4 numerical, 5/6 without case; even ones descend."""
    if sort in (3, 4):
        return sorted(values, key=lambda value: (_leading_number(value), value), reverse=sort == 4)
    if sort in (5, 6):
        return sorted(values, key=str.casefold, reverse=sort == 6)
    if sort in (1, 2):
        return sorted(values, reverse=sort == 2)
    return values


def _leading_number(text: str) -> float:
    match = re.search(r"-?\d+(?:\.\d+)?", text)
    return float(match[0]) if match else float("inf")
