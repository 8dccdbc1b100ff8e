"""A Grafana dashboard file as the page needs it: what to draw where, from which queries. Pure.

Grafana's schema is open: a key that is not known here is left alone, and a key of the wrong type counts as absent, so
that a dashboard of a newer Grafana still shows. Only what cannot be a dashboard at all is refused.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

Json = Mapping[str, Any]

COLUMNS: Final = 24  # of Grafana's grid

_EMPTY: Final[Json] = {}


class DashboardError(ValueError):
    """The text is no dashboard; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Place on Grafana's grid, within its section; a unit of height is about 38 pixels with its gap."""

    x: int
    y: int
    w: int
    h: int


@dataclass(frozen=True, slots=True)
class Target:
    """One query of a panel."""

    ref_id: str
    expr: str
    legend: str = ""  # legendFormat; "__auto" and "" name a series by its labels
    instant: bool = False
    format: str = "time_series"  # time_series | table | heatmap
    interval: str = ""  # a smallest step for this query
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel, drawn by its `type`."""

    id: int
    type: str
    title: str
    description: str
    grid: Grid
    targets: tuple[Target, ...]
    defaults: Json = field(default_factory=dict)  # fieldConfig.defaults
    overrides: tuple[Json, ...] = ()  # fieldConfig.overrides
    options: Json = field(default_factory=dict)
    transformations: tuple[Json, ...] = ()
    interval: str = ""
    max_data_points: int = 0  # 0: the page's own
    datasource: str = ""  # its type, where the file names one


@dataclass(frozen=True, slots=True)
class Section:
    """Panels under one row heading; the first section may have no heading."""

    id: int  # the row panel's id, 0 for the panels above the first row
    title: str
    collapsed: bool
    panels: tuple[Panel, ...]

    @property
    def rows(self) -> int:
        """Height in rows of the grid."""
        return max((panel.grid.y + panel.grid.h for panel in self.panels), default=1)


@dataclass(frozen=True, slots=True)
class Variable:
    """A template variable as the file has it; `stack.live.variables` gives it a value."""

    name: str
    type: str  # datasource | query | custom | constant | interval | textbox
    label: str = ""
    query: str = ""
    regex: str = ""
    multi: bool = False
    include_all: bool = False
    all_value: str = ""
    hidden: bool = False
    sort: int = 0
    current: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Annotation:
    """A query whose every stretch of samples is a mark on the time axis."""

    name: str
    expr: str
    title: str = ""  # titleFormat
    text: str = ""  # textFormat
    colour: str = "red"
    step: str = ""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard file."""

    uid: str
    title: str
    description: str
    sections: tuple[Section, ...]
    variables: tuple[Variable, ...]
    annotations: tuple[Annotation, ...]
    time_from: str  # default range, such as "now-15m"
    time_to: str
    version: str  # changes with the text: a page drawn from another version reloads

    def panels(self) -> Iterator[Panel]:
        for section in self.sections:
            yield from section.panels


def parse_dashboard(text: str) -> Dashboard:
    """Read a dashboard's JSON; DashboardError says in one sentence why it cannot be one."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise DashboardError(f"not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    if not isinstance(document, dict):
        raise DashboardError(f"the JSON is a {type(document).__name__}; expected a dashboard object")
    uid = string(document, "uid")
    if not uid:
        raise DashboardError("the dashboard has no uid; expected a text such as latency-vs-throughput")
    if not isinstance(document.get("panels"), list):
        raise DashboardError("the dashboard has no list of panels")
    time = mapping(document, "time")
    return Dashboard(
        uid=uid,
        title=string(document, "title") or uid,
        description=string(document, "description"),
        sections=_sections(objects(document, "panels")),
        variables=tuple(_variables(objects(mapping(document, "templating"), "list"))),
        annotations=tuple(_annotations(objects(mapping(document, "annotations"), "list"))),
        time_from=string(time, "from") or "now-15m",
        time_to=string(time, "to") or "now",
        version=hashlib.sha256(text.encode()).hexdigest()[:12],
    )


# --- reading a key whatever is there ----------------------------------------------------------------------------


def mapping(source: Json, key: str) -> Json:
    value = source.get(key)
    return value if isinstance(value, Mapping) else _EMPTY


def objects(source: Json, key: str) -> list[Json]:
    value = source.get(key)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def string(source: Json, key: str) -> str:
    value = source.get(key)
    return value if isinstance(value, str) else ""


def number(source: Json, key: str) -> float | None:
    value = source.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def flag(source: Json, key: str) -> bool:
    return source.get(key) is True


# --- the parts --------------------------------------------------------------------------------------------------


def _sections(panels: Sequence[Json]) -> tuple[Section, ...]:
    """Split at the row panels. An open row's panels follow it in the file; a collapsed row holds its own."""
    placed = sorted(panels, key=lambda panel: (_grid(panel).y, _grid(panel).x))
    sections: list[Section] = []
    heading: Json = _EMPTY
    below: list[Panel] = []
    ids = _Ids(panels)

    def close() -> None:
        if heading or below:
            sections.append(
                Section(
                    ids.of(heading) if heading else 0,
                    string(heading, "title"),
                    flag(heading, "collapsed"),
                    _without_gaps(below),
                )
            )

    for panel in placed:
        if string(panel, "type") == "row":
            close()
            heading, below = panel, [_panel(inner, ids) for inner in objects(panel, "panels")]
        else:
            below.append(_panel(panel, ids))
    close()
    return tuple(sections)


def _without_gaps(panels: Sequence[Panel]) -> tuple[Panel, ...]:
    """Each panel moved up until it meets another one, as Grafana lays them out; the section begins at row 0."""
    filled = [0] * COLUMNS  # by column: the first free row
    moved = []
    for panel in sorted(panels, key=lambda panel: (panel.grid.y, panel.grid.x)):
        grid = panel.grid
        under = slice(grid.x, grid.x + grid.w)
        y = max(filled[under])
        filled[under] = [y + grid.h] * grid.w
        moved.append(replace(panel, grid=replace(grid, y=y)))
    return tuple(moved)


class _Ids:
    """Panel ids as the file has them; a panel without one, or with one taken, gets the next free one."""

    def __init__(self, panels: Sequence[Json]) -> None:
        every = [*panels, *(inner for panel in panels for inner in objects(panel, "panels"))]
        self._next = 1 + max((int(number(panel, "id") or 0) for panel in every), default=0)
        self._given: set[int] = set()

    def of(self, panel: Json) -> int:
        given = int(number(panel, "id") or 0)
        if given <= 0 or given in self._given:
            given, self._next = self._next, self._next + 1
        self._given.add(given)
        return given


def _grid(panel: Json) -> Grid:
    place = mapping(panel, "gridPos")

    def cell(key: str, default: int, lowest: int, highest: int) -> int:
        return max(lowest, min(highest, int(number(place, key) if number(place, key) is not None else default)))  # type: ignore[arg-type]

    w = cell("w", 12, 1, COLUMNS)
    return Grid(x=cell("x", 0, 0, COLUMNS - w), y=cell("y", 0, 0, 10_000), w=w, h=cell("h", 8, 1, 100))


def _panel(panel: Json, ids: _Ids) -> Panel:
    fields = mapping(panel, "fieldConfig")
    return Panel(
        id=ids.of(panel),
        type=string(panel, "type"),
        title=string(panel, "title"),
        description=string(panel, "description"),
        grid=_grid(panel),
        targets=tuple(_targets(objects(panel, "targets"))),
        defaults=mapping(fields, "defaults"),
        overrides=tuple(objects(fields, "overrides")),
        options=mapping(panel, "options"),
        transformations=tuple(objects(panel, "transformations")),
        interval=string(panel, "interval"),
        max_data_points=int(number(panel, "maxDataPoints") or 0),
        datasource=string(mapping(panel, "datasource"), "type"),
    )


def _targets(targets: Sequence[Json]) -> Iterator[Target]:
    for index, target in enumerate(targets):
        yield Target(
            ref_id=string(target, "refId") or chr(ord("A") + index % 26),
            expr=string(target, "expr"),
            legend=string(target, "legendFormat"),
            instant=flag(target, "instant") and not flag(target, "range"),
            format=string(target, "format") or "time_series",
            interval=string(target, "interval"),
            hidden=flag(target, "hide"),
        )


def _variables(variables: Sequence[Json]) -> Iterator[Variable]:
    for variable in variables:
        if not string(variable, "name"):
            continue
        query = variable.get("query")
        yield Variable(
            name=string(variable, "name"),
            type=string(variable, "type"),
            label=string(variable, "label"),
            query=query if isinstance(query, str) else string(mapping(variable, "query"), "query"),
            regex=string(variable, "regex"),
            multi=flag(variable, "multi"),
            include_all=flag(variable, "includeAll"),
            all_value=string(variable, "allValue"),
            hidden=number(variable, "hide") == 2 or string(variable, "hide") == "hideVariable",
            sort=int(number(variable, "sort") or 0),
            current=_texts(mapping(variable, "current").get("value")),
        )


def _texts(value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(item for item in values if isinstance(item, str))


def _annotations(annotations: Sequence[Json]) -> Iterator[Annotation]:
    for annotation in annotations:
        expr = string(annotation, "expr") or string(mapping(annotation, "target"), "expr")
        # The entry that Grafana itself adds ("Annotations & Alerts") has no query.
        if not expr or annotation.get("enable") is False:
            continue
        yield Annotation(
            name=string(annotation, "name"),
            expr=expr,
            title=string(annotation, "titleFormat"),
            text=string(annotation, "textFormat"),
            colour=string(annotation, "iconColor") or "red",
            step=string(annotation, "step"),
        )
