"""What every dashboard shares: the datasource variable, the alert annotations, the links, its form as JSON."""

import json
from collections.abc import Sequence
from typing import Any, Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus

from slo import names
from slo.config import SCRAPE_SECONDS
from slo.dashboards.panels import BLUE, DATASOURCE, RED
from slo.expressions import selector

TAG: Final = "tailboard"
_NEW: Final = "30s"  # so long a change is a mark


def framed(uid: str, title: str, description: str, panels: Sequence[Any], *, span: str = "now-15m") -> dict[str, Any]:
    """A whole dashboard as Grafana reads it."""
    builder = (
        builders.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time(span, "now")
        .refresh("5s")
        .readonly()
        .with_variable(builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .link(
            builders.DashboardLink("Tailboard")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(False)
            .keep_time(True)
        )
    )
    for panel in panels:
        builder.with_panel(panel)
    dashboard = builder.build()
    dashboard.annotations = models.AnnotationContainer(list_val=[_firing_alerts(), _tuned()])
    # Ids in order: without them Grafana numbers the panels anew at every load, and links to a panel break.
    for number, panel in enumerate(dashboard.panels or [], start=1):
        panel.id_val = number
    text = JSONEncoder(sort_keys=True).encode(dashboard)
    content: dict[str, Any] = json.loads(text)
    for item in (*content["links"], *content["annotations"]["list"]):
        item.pop("placement")  # on the page, where one sees it; the SDK would put it into a menu
    return content


def _firing_alerts() -> models.AnnotationQuery:
    expr = selector(names.ALERTS, alertstate="firing", severity="=~page|ticket")
    marks = _marks("Alerts", RED, expr, "{{alertname}}", "{{severity}} for {{job}}")
    marks.tag_keys = "severity"
    return marks


def _tuned() -> models.AnnotationQuery:
    """When the knobs that the tuner chose came into force: the rate that it confirmed is there, and was not before."""
    expr = f"({names.TUNED_RATE} > 0) unless ({names.TUNED_RATE} offset {_NEW} > 0)"
    return _marks("Tuned", BLUE, expr, "tuned knobs", "the knobs that the tuner chose are in force at {{instance}}")


def _marks(name: str, color: str, expr: str, title: str, text: str) -> models.AnnotationQuery:
    """Marks on every chart where `expr` has a value."""
    return models.AnnotationQuery(
        name=name,
        enable=True,
        icon_color=color,
        datasource=DATASOURCE,
        expr=expr,
        step=f"{SCRAPE_SECONDS}s",
        title_format=title,
        text_format=text,
        target=prometheus.Dataquery(expr=expr, ref_id="Anno"),
    )
