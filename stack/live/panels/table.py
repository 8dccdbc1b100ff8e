"""Rows of labels and values: the panel type "table", and whatever this page has no drawing for. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from stack.live.dashboard import Panel, flag, mapping, objects, string
from stack.live.fields import colour, field_for, mapped_text
from stack.live.panels.base import NO_DATA, Answer, Drawn
from stack.live.units import plain_text

_MOST_ROWS = 200
# Transformations that the one way in which tables are built here already amounts to.
TRANSFORMATIONS = {
    "merge",
    "organize",
    "joinByField",
    "labelsToFields",
    "seriesToRows",
    "filterFieldsByName",
    "sortBy",
    "timeSeriesTable",
}


def draw_table(panel: Panel, answers: Sequence[Answer]) -> Drawn:
    """A row for each set of labels, a column for each label and for each query's last value."""
    rows = _rows(answers)
    if not rows:
        return Drawn("message", "no_data", string(panel.defaults, "noValue") or NO_DATA)
    refs = [answer.target.ref_id for answer in answers]
    labels = list(dict.fromkeys(label for row, _ in rows for label in row if label != "__name__"))
    values = {ref: f"Value #{ref}" if len(refs) > 1 else "Value" for ref in refs}
    columns = [*labels, *values.values()]
    organise = next((mapping(t, "options") for t in panel.transformations if string(t, "id") == "organize"), {})
    hidden = {name for name, off in mapping(organise, "excludeByName").items() if off is True}
    hidden |= {name for name in columns if flag(mapping(field_for(panel, name).custom, "hideFrom"), "viz")}
    order = mapping(organise, "indexByName")
    columns = [name for name in columns if name not in hidden]
    columns.sort(key=lambda name: order[name] if isinstance(order.get(name), int) else len(columns))
    renamed = mapping(organise, "renameByName")
    ref_of = {name: ref for ref, name in values.items()}
    heads = [
        {"name": _title(panel, name, string(renamed, name), ref_of.get(name, "")), "number": name in ref_of}
        for name in columns
    ]
    cells = [[_cell(panel, name, renamed, ref_of, row, found) for name in columns] for row, found in rows]
    _sort(panel, heads, cells)
    unknown = sorted({string(t, "id") for t in panel.transformations} - TRANSFORMATIONS)
    notes = [f"{len(cells) - _MOST_ROWS} more rows are not shown"] if len(cells) > _MOST_ROWS else []
    notes += [f"the transformation {name!r} is not applied here" for name in unknown]
    for cell in (cell for row in cells for cell in row):
        cell.pop("sort")
    return Drawn("table", note="; ".join(notes), body={"table": {"columns": heads, "rows": cells[:_MOST_ROWS]}})


def _rows(answers: Sequence[Answer]) -> list[tuple[Mapping[str, str], dict[str, float]]]:
    """Label sets with the last value of each query that has them, in order of appearance."""
    rows: dict[tuple[tuple[str, str], ...], tuple[Mapping[str, str], dict[str, float]]] = {}
    for answer in answers:
        for series in answer.series:
            last = series.last()
            labels = {name: value for name, value in series.labels.items() if name != "__name__"}
            row = rows.setdefault(tuple(sorted(labels.items())), (labels, {}))
            row[1][answer.target.ref_id] = last[1] if last else math.nan
    return list(rows.values())


def _title(panel: Panel, column: str, renamed: str, ref_id: str) -> str:
    return field_for(panel, renamed or column, ref_id).display_name or renamed or column


def _cell(
    panel: Panel,
    column: str,
    renamed: Mapping[str, Any],
    ref_of: Mapping[str, str],
    labels: Mapping[str, str],
    values: Mapping[str, float],
) -> dict[str, Any]:
    """Text, colour, and what to sort by."""
    if column not in ref_of:
        text = labels.get(column, "")
        return {"text": text, "sort": (1, 0.0, text)}
    value = values.get(ref_of[column], math.nan)
    style = field_for(panel, string(renamed, column) or column, ref_of[column])
    mapped = mapped_text(None if math.isnan(value) else value, style.mappings)
    if math.isnan(value):
        return {"text": mapped[0] if mapped else style.no_value or "–", "sort": (2, 0.0, "")}
    text = (mapped[0] if mapped else "") or plain_text(value, style.unit, style.decimals)
    cell: dict[str, Any] = {"text": text, "sort": (0, value, "")}
    step = style.threshold_at(value)
    if mapped and mapped[1]:
        cell["colour"] = colour(mapped[1])
    elif string(mapping(style.custom, "cellOptions"), "type").startswith("color-") and step:
        cell["colour"] = colour(step.colour)
    return cell


def _sort(panel: Panel, heads: Sequence[Mapping[str, Any]], cells: list[list[dict[str, Any]]]) -> None:
    names = [head["name"] for head in heads]
    for wish in reversed(objects(panel.options, "sortBy")):
        name = string(wish, "displayName")
        if name in names:
            column = names.index(name)
            cells.sort(key=lambda row: row[column]["sort"], reverse=flag(wish, "desc"))
