"""The shipped rules broken on purpose, one small change each: what a mistake in them could look like.

Pure: rule files as Prometheus reads them go in, changed ones come out.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

RuleFiles = Mapping[str, dict[str, Any]]  # file name -> its content

FLIPPED: Final = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "==": "!=", "!=": "=="}
_STRING: Final = re.compile(r'"(?:\\.|[^"\\])*"')
_COMPARATOR: Final = re.compile(r"(?<= )(>=|<=|==|!=|>|<)(?= )")
_LIMIT: Final = re.compile(r"(?<= (?:>|<|/) )\d[\d.e-]*|(?<= (?:>=|<=|==|!=) )\d[\d.e-]*")
_MATCHER: Final = re.compile(r'(\w+)(?:=~|!~|!=|=)"(?:\\.|[^"\\])*"')
_FURTHER: Final = re.compile(r"(and|unless) on \([^)]*\) ")
_FLOOR: Final = re.compile(r">= \d+$")


@dataclass(frozen=True)
class Mutant:
    """One rule changed in one place."""

    file: str
    rule: str  # its name; an alert that is there several times has its labels behind it
    operator: str
    change: str  # what was changed, as people read it
    files: RuleFiles = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.rule}: {self.operator}: {self.change}"


def mutants(files: RuleFiles) -> Iterator[Mutant]:
    """Every operator at every place of every rule."""
    for name, content in files.items():
        for g, group in enumerate(content["groups"]):
            for r, rule in enumerate(group["rules"]):
                for operator, change, changed in _changes(rule):
                    broken = copy.deepcopy(dict(files))
                    rules = broken[name]["groups"][g]["rules"]
                    rules[r : r + 1] = [] if changed is None else [changed]
                    yield Mutant(name, title(rule), operator, change, broken)


def title(rule: Mapping[str, Any]) -> str:
    """Of a rule: unique among those shipped."""
    if "record" in rule:
        return str(rule["record"])
    labels = {key: value for key, value in rule["labels"].items() if key in ("window", "severity")}
    return f"{rule['alert']}{{{','.join(f'{key}={value}' for key, value in sorted(labels.items()))}}}"


def name_of(rule: Mapping[str, Any]) -> str:
    return str(rule.get("record") or rule["alert"])


def _changes(rule: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any] | None]]:
    """(operator, change, the changed rule; None where it is dropped)."""
    yield "drop the rule", "-", None
    for key in ("for", "keep_firing_for"):
        if key in rule:
            yield f"drop {key}", rule[key], {k: v for k, v in rule.items() if k != key}
    for operator, change, expr in _expressions(rule["expr"]):
        yield operator, change, {**rule, "expr": expr}


def _expressions(expr: str) -> Iterator[tuple[str, str, str]]:
    bare = _STRING.sub(lambda match: "_" * len(match[0]), expr)
    for found in _COMPARATOR.finditer(bare):
        yield "flip a comparator", _at(expr, found), _put(expr, found, FLIPPED[found[0]])
    for found in _LIMIT.finditer(bare):
        if float(found[0]):
            yield "threshold × 2", _at(expr, found), _put(expr, found, f"{2 * float(found[0]):g}")
    for found in _MATCHER.finditer(expr):
        yield "drop a matcher", f"{found[0]} in {_around(expr, found)}", _without(expr, found)
        if found[1] == "le":
            edge = float(found[0].split('"')[1])
            yield "another le", f"{found[0]} × 2", _put(expr, found, f'le="{2 * edge!r}"')
            yield "another le", f"{found[0]} spelled with one more 0", _put(expr, found, f'{found[0][:-1]}0"')
        if found[0] == 'outcome="ok"':
            for bad in ("shed", "failed"):
                yield "bad counts as good", bad, _put(expr, found, f'outcome=~"ok|{bad}"')
    for found in re.finditer(r" > 0(?=\))", bare):
        yield "drop a guard against 0", _around(expr, found), _put(expr, found, "")
    for found in re.finditer(r"(?<=histogram_quantile\()0\.99", bare):
        yield "another quantile", found[0], _put(expr, found, "0.9")
    for found in re.finditer(r"absent\((.*)\)", expr):
        yield "drop absent", found[0], _put(expr, found, found[1])
    yield from _conditions(expr)


def _conditions(expr: str) -> Iterator[tuple[str, str, str]]:
    """Lines that begin with `and on` or `unless on` are conditions, and so is what comes before the first of them."""
    lines = expr.split("\n")
    further = [index for index, line in enumerate(lines) if _FURTHER.match(line)]
    for index in further:
        operator = "drop the traffic floor" if _FLOOR.search(lines[index]) else "drop a condition"
        yield operator, lines[index], "\n".join(lines[:index] + lines[index + 1 :])
    if further and lines[further[0]].startswith("and "):
        first = _FURTHER.sub("", lines[further[0]], count=1)
        yield "drop a condition", " ".join(lines[: further[0]]), "\n".join([first, *lines[further[0] + 1 :]])
    for index in further:
        if "(job, instance)" in lines[index]:
            line = lines[index].replace("on (job, instance)", "on (job)", 1)
            if line.startswith("unless"):
                yield "match by job alone", lines[index], "\n".join([*lines[:index], line, *lines[index + 1 :]])
    for index, line in enumerate(lines):
        if line.strip() == "or":
            yield "drop a branch", lines[index - 1].strip(), "\n".join(lines[: index - 1] + lines[index + 1 :])
            yield "drop a branch", lines[index + 1].strip(), "\n".join(lines[:index] + lines[index + 2 :])


def _put(expr: str, found: re.Match[str], text: str) -> str:
    return expr[: found.start()] + text + expr[found.end() :]


def _without(expr: str, found: re.Match[str]) -> str:
    """A matcher goes with one of its commas."""
    before, after = expr[: found.start()], expr[found.end() :]
    return before + after.removeprefix(",") if after.startswith(",") else before.removesuffix(",") + after


def _at(expr: str, found: re.Match[str]) -> str:
    """The words around it on its line."""
    start = expr.rfind("\n", 0, found.start()) + 1
    line = expr[start:].split("\n", 1)[0]
    at = found.start() - start
    before = re.sub(r"\{[^{}]*\}", "{…}", line[:at])[-60:]
    return f"…{before}[{found[0]}]{line[at + len(found[0]) :][:12]}".strip()


def _around(expr: str, found: re.Match[str]) -> str:
    """The metric, or the recording, that it stands behind, and which of several."""
    before = re.findall(r"[a-z_:][\w:]*(?=\{)|job:[\w:]+", _STRING.sub('""', expr[: found.start()]))
    return f"{before[-1]} ({len(before)})" if before else expr[:20]


# --- no more than the rules that a change can be seen in ----------------------------------------------------------


def affected(files: RuleFiles, rule: str) -> set[str]:
    """Names of the rules that a changed rule can show in: itself, and all that read it."""
    names = {name_of(each): _text(each) for each in _rules(files)}
    found = {rule}
    while more := {name for name, text in names.items() if name not in found and any(f in text for f in found)}:
        found |= more
    return found


def needed(files: RuleFiles, names: Sequence[str] | set[str]) -> set[str]:
    """Names of these rules and of all that they read."""
    texts: dict[str, str] = {}
    for each in _rules(files):
        texts[name_of(each)] = texts.get(name_of(each), "") + _text(each)
    found = {name for name in names if name in texts}
    while more := {name for name in texts if name not in found and any(name in texts[f] for f in found)}:
        found |= more
    return found


def only(content: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """A rule file with these rules alone."""
    groups = [
        {**group, "rules": [rule for rule in group["rules"] if name_of(rule) in names]} for group in content["groups"]
    ]
    return {"groups": groups}


def _rules(files: RuleFiles) -> Iterator[dict[str, Any]]:
    for content in files.values():
        for group in content["groups"]:
            yield from group["rules"]


def _text(rule: Mapping[str, Any]) -> str:
    return str(rule["expr"]) + str(rule.get("annotations", ""))
