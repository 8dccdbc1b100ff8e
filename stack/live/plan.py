"""Which queries a page needs, with every variable in its place; and what annotation samples mean. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stack.live.dashboard import Annotation, Panel, Target
from stack.live.intervals import Window, built_in_variables, parse_duration, step_seconds
from stack.live.panels.base import Mark
from stack.live.series import Series
from stack.live.variables import Choice, interpolate

_POINTS_PER_COLUMN = 20  # a panel of half the page's width has room for 240 steps
_FEWEST_POINTS, _MOST_POINTS = 60, 1000
_LABEL = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Query:
    """One question to Prometheus. Equal questions are asked once."""

    expr: str
    window: Window  # aligned to the step; an instant query looks at its end
    step: float
    instant: bool = False


def panel_queries(
    panel: Panel, window: Window, choices: Mapping[str, Choice], scrape_seconds: float
) -> list[tuple[Target, Query]]:
    """The questions behind a panel. UnknownVariable when a query names a variable that is not there."""
    queries = []
    for target in panel.targets:
        if target.hidden or not target.expr.strip():
            continue
        step = _step(panel, target, window, scrape_seconds)
        aligned = window.aligned(step)
        expr = interpolate(target.expr, choices, built_in_variables(window, step, scrape_seconds))
        if target.instant:
            end = window.aligned(scrape_seconds).end
            queries.append((target, Query(expr, Window(end, end, window.live), scrape_seconds, instant=True)))
        else:
            queries.append((target, Query(expr, aligned, step)))
    return queries


def _step(panel: Panel, target: Target, window: Window, scrape_seconds: float) -> float:
    room = panel.max_data_points or panel.grid.w * _POINTS_PER_COLUMN
    room = max(_FEWEST_POINTS, min(_MOST_POINTS, room))
    return step_seconds(window.seconds, room, _shortest(target.interval or panel.interval, scrape_seconds))


def _shortest(text: str, scrape_seconds: float) -> float:
    try:
        return max(parse_duration(text), 0.001) if text else scrape_seconds
    except ValueError:
        return scrape_seconds  # Grafana's own default for an interval that it cannot read


def annotation_query(
    annotation: Annotation, window: Window, choices: Mapping[str, Choice], scrape_seconds: float
) -> Query:
    """The question behind an annotation."""
    step = step_seconds(window.seconds, 240, _shortest(annotation.step, scrape_seconds))
    return Query(
        interpolate(annotation.expr, choices, built_in_variables(window, step, scrape_seconds)),
        window.aligned(step),
        step,
    )


def marks_of(annotation: Annotation, query: Query, series: Sequence[Series]) -> list[Mark]:
    """One mark for each unbroken stretch of samples of each series, oldest first."""
    marks = []
    for one in series:
        title = _filled(annotation.title, one.labels) or one.labels.get("alertname") or annotation.name or "event"
        text = _filled(annotation.text, one.labels) or ", ".join(
            f"{name}={value}" for name, value in sorted(one.labels.items()) if name not in ("__name__", "alertname")
        )
        for start, end in _stretches(one.times, query.step):
            ongoing = query.window.live and end >= query.window.end - 1.5 * query.step
            earlier = start <= query.window.start
            until = query.window.end if ongoing else end
            marks.append(Mark(start, until, title, text, annotation.colour, ongoing, earlier))
    return sorted(marks, key=lambda mark: (mark.start, mark.title))


def _filled(template: str, labels: Mapping[str, str]) -> str:
    return _LABEL.sub(lambda match: labels.get(match[1], ""), template).strip()


def _stretches(times: Sequence[float], step: float) -> list[tuple[float, float]]:
    stretches: list[tuple[float, float]] = []
    for time in times:
        if stretches and time - stretches[-1][1] <= 1.5 * step:
            stretches[-1] = (stretches[-1][0], time)
        else:
            stretches.append((time, time))
    return stretches
