"""Template variables: options, choice, and their place in a query."""

from collections.abc import Sequence

import pytest

from stack.live.dashboard import Variable
from stack.live.variables import (
    ALL,
    Choice,
    UnknownVariable,
    choose,
    fixed_options,
    interpolate,
    label_query,
    resolve,
)

MODEL = Variable("model", "query", query="label_values(up, model)", multi=True, include_all=True)
ONE = Variable("q", "custom", query="0.5, median : 0.9, 0.99", current=("0.99",))
BUILT_IN = {"__rate_interval": "20s"}


def chosen(*values: str) -> dict[str, Choice]:
    return {"model": Choice(MODEL, ("a", "b.c", 'd"e'), values)}


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("rate(x[$__rate_interval])", ("a",), "rate(x[20s])"),
        ("rate(x[${__rate_interval}])", ("a",), "rate(x[20s])"),
        ('x{model=~"$model"}', ("a",), 'x{model=~"a"}'),
        ('x{model=~"[[model]]"}', ("b.c",), 'x{model=~"b\\\\.c"}'),  # a dot means a dot
        ('x{model=~"${model}"}', ("a", "b.c"), 'x{model=~"(a|b\\\\.c)"}'),
        ('x{model=~"$model"}', (ALL,), 'x{model=~"(a|b\\\\.c|d\\"e)"}'),
        ('x{model=~"${model:pipe}"}', ("a", "b.c"), 'x{model=~"a|b.c"}'),
        ("x ${model:csv}", ("a", "b.c"), "x a,b.c"),
        ('x{path=~"^/a$"}', ("a",), 'x{path=~"^/a$"}'),  # a dollar that names nothing
        ('label_replace(x, "a", "$1", "b", "(.*)${2}")', ("a",), 'label_replace(x, "a", "$1", "b", "(.*)${2}")'),
    ],
)
def test_interpolation(text: str, values: tuple[str, ...], expected: str) -> None:
    assert interpolate(text, chosen(*values), BUILT_IN) == expected


def test_a_variable_that_is_not_there_is_named() -> None:
    with pytest.raises(UnknownVariable, match=r"the query names the variable '\$\{DS_PROMETHEUS\}'"):
        interpolate("up{x='${DS_PROMETHEUS}'}", {}, BUILT_IN)


@pytest.mark.parametrize(
    ("query", "parsed"),
    [
        ("label_values(model)", ("", "model")),
        ("label_values(up, job)", ("up", "job")),
        ('label_values(x{a="b",c="d"}, instance)', ('x{a="b",c="d"}', "instance")),
        ("query_result(up)", None),
    ],
)
def test_label_queries(query: str, parsed: tuple[str, str] | None) -> None:
    assert label_query(query) == parsed


def test_options_written_in_the_file() -> None:
    assert fixed_options(ONE) == ("0.5", "0.9", "0.99")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((), (ALL,)),
        (("a",), ("a",)),
        (("a", "b"), ("a", "b")),
        (("All",), (ALL,)),
        (("a", ALL), (ALL,)),
        (('x"} or vector(1) #',), (ALL,)),  # not on offer, so it never reaches a query
    ],
)
def test_choices(asked: Sequence[str], expected: tuple[str, ...]) -> None:
    assert choose(MODEL, ["a", "b"], asked).chosen == expected


def test_the_saved_choice_counts_when_nothing_is_asked_for() -> None:
    assert choose(ONE, fixed_options(ONE), ()).chosen == ("0.99",)
    assert choose(ONE, fixed_options(ONE), ("0.5", "0.9")).chosen == ("0.5",)  # only one may be chosen


def test_regex_and_sort() -> None:
    variable = Variable("v", "query", regex="/^w(\\d+)$/", sort=4)
    assert choose(variable, ["w2", "w10", "other", "w10"], ()).options == ("10", "2")


def test_a_variable_may_stand_in_the_query_of_a_later_one() -> None:
    asked: list[str] = []

    def options_of(query: str) -> list[str]:
        asked.append(query)
        return ["digits"] if "up," in query else ["w0", "w1"]

    variables = [
        Variable("datasource", "datasource"),
        Variable("model", "query", query="label_values(up, model)"),
        Variable("worker", "query", query='label_values(x{model="$model"}, worker)'),
    ]
    choices = resolve(variables, {"worker": ["w1"]}, BUILT_IN, options_of)
    assert asked == ["label_values(up, model)", 'label_values(x{model="digits"}, worker)']
    assert choices["worker"].chosen == ("w1",)
    assert interpolate("${datasource}", choices, BUILT_IN) == "prometheus"
