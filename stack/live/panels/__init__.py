"""Panel types and what draws them. Pure: answers of Prometheus in, something for the browser out."""

from collections.abc import Sequence
from dataclasses import replace

from stack.live.dashboard import Panel
from stack.live.intervals import Window
from stack.live.panels.base import Answer, Drawn, Mark
from stack.live.panels.heatmap import draw_heatmap
from stack.live.panels.stat import draw_stat
from stack.live.panels.table import draw_table
from stack.live.panels.text import draw_text
from stack.live.panels.timeseries import draw_timeseries
from stack.live.panels.xychart import draw_xychart


def draw(panel: Panel, answers: Sequence[Answer], window: Window, marks: Sequence[Mark]) -> Drawn:
    """Draw a panel by its type; a type that is not known here becomes a table, and says so."""
    if panel.type == "text":
        return draw_text(panel)
    if not panel.targets:
        return Drawn("message", "no_data", "This panel has no query")
    if panel.type in ("timeseries", "graph"):
        return draw_timeseries(panel, answers, window, marks)
    if panel.type in ("stat", "gauge", "bargauge", "singlestat"):
        return draw_stat(panel, answers, window)
    if panel.type == "heatmap":
        return draw_heatmap(panel, answers, window, marks)
    if panel.type == "xychart":
        return draw_xychart(panel, answers)
    table = draw_table(panel, answers)
    if panel.type == "table":
        return table
    return replace(table, note=f"the panel type {panel.type!r} is shown as a table here")


__all__ = ["Answer", "Drawn", "Mark", "draw"]
