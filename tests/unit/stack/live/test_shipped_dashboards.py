"""The dashboards that ship use nothing that the live page cannot draw."""

import re
from pathlib import Path

from stack.live.catalogue import Catalogue
from stack.live.intervals import Window
from stack.live.panels.table import TRANSFORMATIONS
from stack.live.plan import annotation_query, panel_queries
from stack.live.variables import resolve

DRAWN = {"timeseries", "stat", "gauge", "bargauge", "heatmap", "xychart", "table", "text"}


def test_every_shipped_panel_can_be_drawn(root: Path) -> None:
    contents = Catalogue(root / "grafana" / "dashboards").contents()
    assert contents.troubles == ()
    assert contents.by_uid("latency-vs-throughput") is not None
    window = Window(1_800_000_000, 1_800_000_900)
    for dashboard in contents.dashboards:
        choices = resolve(dashboard.variables, {}, {"__rate_interval": "20s"}, lambda _: ["x"])
        for annotation in dashboard.annotations:
            annotation_query(annotation, window, choices, 5.0)
        for panel in dashboard.panels():
            where = f"{dashboard.uid}: {panel.title}"
            assert panel.type in DRAWN, where
            used = {str(item.get("id")) for item in panel.transformations}
            assert used <= TRANSFORMATIONS, where
            queries = panel_queries(panel, window, choices, 5.0)
            assert queries or panel.type == "text", where
            assert not any(re.search(r"\$\{?[A-Za-z_]|\[\[", query.expr) for _, query in queries), where
