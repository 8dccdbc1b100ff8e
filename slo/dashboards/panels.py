"""The few kinds of panel that the dashboards are made of, each with what the lint rules ask of every panel.

Every panel has a description and a unit and asks the datasource variable. Figures at the top are instant queries: when
traffic stops they say so, where a range query would go on showing the last value that it saw.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any, Final

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, table, timeseries, xychart
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models import heatmap as heatmap_models
from grafana_foundation_sdk.models import prometheus as prometheus_models
from grafana_foundation_sdk.models import xychart as xychart_models

WINDOW: Final = "$__rate_interval"
DATASOURCE: Final = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
COLUMNS: Final = 24  # of Grafana's grid

GREEN: Final = "#2f9e44"
AMBER: Final = "#f08c00"
RED: Final = "#e03131"
BLUE: Final = "#1971c2"
VIOLET: Final = "#7048e8"
TEAL: Final = "#0c8599"
GREY: Final = "#868e96"

SECONDS: Final = "s"
PER_SECOND: Final = "reqps"
ROWS: Final = "short"
RATIO: Final = "percentunit"


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel, and how its series look."""

    expr: str
    legend: str
    color: str | None = None
    dashed: bool = False
    fill: bool = False


def figure(
    title: str,
    description: str,
    query: Query,
    unit: str,
    steps: Sequence[tuple[float | None, str]],
    *,
    span: int = 4,
    no_value: str = "no traffic",
    decimals: int | None = None,
    mappings: Sequence[dashboard.ValueMapping] = (),
) -> stat.Panel:
    """One number. `steps` are (from this value on, colour), the first from None."""
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .span(span)
        .height(4)
        .no_value(no_value)
        .thresholds(_thresholds(steps))
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(_target(query, "A", instant=True))
    )
    if decimals is not None:
        panel.decimals(decimals)
    if mappings:
        panel.mappings(list(mappings))
    return panel


def lines(
    title: str,
    description: str,
    queries: Sequence[Query],
    unit: str,
    *,
    span: int = 12,
    height: int = 9,
    stacked: bool = False,
    logarithmic: bool = False,
    below_zero: bool = False,
    maximum: float | None = None,
    axis_label: str = "",
) -> timeseries.Panel:
    """Series over time. The axis begins at 0, or where the lowest value is if that may be `below_zero`."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .span(span)
        .height(height)
        .line_width(2)
        .fill_opacity(25 if stacked else 0)
        .show_points(common.VisibilityMode.NEVER)
        .scale_distribution(_distribution(logarithmic))
        .axis_label(axis_label)
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs([])
        )
        .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    )
    if below_zero:
        panel.axis_soft_min(0)
    elif not logarithmic:
        panel.min(0)
    if maximum is not None:
        panel.max(maximum)
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    for index, query in enumerate(queries):
        panel.with_target(_target(query, ascii_uppercase[index]))
        if look := _look(query):
            panel.override_by_name(query.legend, look)
    return panel


def against(
    title: str,
    description: str,
    x: Query,
    ys: Sequence[Query],
    *,
    x_unit: str,
    y_unit: str,
    logarithmic: bool = False,
    span: int = 12,
    height: int = 9,
) -> xychart.Panel:
    """Points of `ys` over `x`, one per instant; a dashed y is drawn as a line. `logarithmic` is the y axis."""
    panel = (
        xychart.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .span(span)
        .height(height)
        .unit(y_unit)
        .mapping(xychart_models.SeriesMapping.MANUAL)
        .show(xychart_models.XYShowMode.POINTS)
        .scale_distribution(_distribution(logarithmic))
        .point_size(xychart.XychartFieldConfigPointSize().fixed(6))
        .fill_opacity(60)
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs([])
        )
        .with_target(_target(x, "A"))
        .with_transformation(
            dashboard.DataTransformerConfig(id_val="joinByField", options={"byField": "Time", "mode": "outer"})
        )
        .override_by_name(
            x.legend,
            [
                dashboard.DynamicConfigValue("unit", x_unit),
                dashboard.DynamicConfigValue("custom.axisLabel", x.legend),
                dashboard.DynamicConfigValue("custom.scaleDistribution", {"type": "linear"}),
            ],
        )
    )
    series: list[Builder[xychart_models.XYSeriesConfig]] = []
    for index, y in enumerate(ys, start=1):
        look = _look(y)
        if y.dashed:
            look.append(dashboard.DynamicConfigValue("custom.show", xychart_models.XYShowMode.LINES))
        panel.with_target(_target(y, ascii_uppercase[index])).override_by_name(y.legend, look)
        series.append(
            xychart.XYSeriesConfig()
            .name(xychart.XychartXYSeriesConfigName().fixed(y.legend))
            .x(xychart.XychartXYSeriesConfigX().matcher(_by_name(x.legend)))
            .y(xychart.XychartXYSeriesConfigY().matcher(_by_name(y.legend)))
        )
    return panel.series(series)


def density(title: str, description: str, expr: str, unit: str, *, span: int = 12, height: int = 9) -> heatmap.Panel:
    """A histogram over time; `expr` must keep the label `le`."""
    return (
        heatmap.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .span(span)
        .height(height)
        .unit(unit)
        .calculate(False)
        .color(
            heatmap.HeatmapColorOptions()
            .mode(heatmap_models.HeatmapColorMode.SCHEME)
            .scheme("Blues")
            .scale(heatmap_models.HeatmapColorScale.EXPONENTIAL)
            .exponent(0.5)
            .steps(64)
        )
        .filter_values(heatmap.FilterValueRange().le(1e-9))
        .y_axis(heatmap.YAxisConfig().unit(unit).axis_placement(common.AxisPlacement.LEFT))
        .cell_gap(0)
        .show_legend()
        .with_target(
            prometheus.Dataquery()
            .expr(expr)
            .legend_format("{{le}}")
            .format(prometheus_models.PromQueryFormat.HEATMAP)
            .range()
            .ref_id("A")
        )
    )


def listing(
    title: str,
    description: str,
    query: Query,
    columns: Mapping[str, str],
    unit: str = ROWS,
    *,
    span: int = 12,
    height: int = 9,
    no_value: str = "nothing",
) -> table.Panel:
    """Series as rows, as they are now. `columns` are labels, or "Value", in order with their headings; others hide."""
    hidden = {"Time", "Value", "__name__", "instance", "job"} - columns.keys()
    return (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .span(span)
        .height(height)
        .no_value(no_value)
        .with_target(_target(query, "A", instant=True).format(prometheus_models.PromQueryFormat.TABLE))
        .with_transformation(
            dashboard.DataTransformerConfig(
                id_val="organize",
                options={
                    "excludeByName": dict.fromkeys(sorted(hidden), True),
                    "indexByName": {name: index for index, name in enumerate(columns)},
                    "renameByName": dict(columns),
                },
            )
        )
    )


def beyond(last_edge_seconds: float) -> dashboard.RangeMap:
    """An interpolated quantile at the last edge means that the truth lies somewhere beyond it."""
    return dashboard.RangeMap(
        options=dashboard.DashboardRangeMapOptions(
            from_val=last_edge_seconds,
            to=None,
            result=dashboard.ValueMappingResult(text=f"> {last_edge_seconds:g} s", color=RED),
        )
    )


def _target(query: Query, ref_id: str, *, instant: bool = False) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(ref_id)
    return target.instant() if instant else target.range()


def _distribution(logarithmic: bool) -> common_builders.ScaleDistributionConfig:
    config = common_builders.ScaleDistributionConfig()
    if logarithmic:
        return config.type(common.ScaleDistribution.LOG).log(10)
    return config.type(common.ScaleDistribution.LINEAR)


def _thresholds(steps: Sequence[tuple[float | None, str]]) -> dashboard_builders.ThresholdsConfig:
    return (
        dashboard_builders.ThresholdsConfig()
        .mode(dashboard.ThresholdsMode.ABSOLUTE)
        .steps([dashboard.Threshold(value=_rounded(value), color=color) for value, color in steps])
    )


def _rounded(value: float | None) -> float | None:
    """0.8 * 0.05 is 0.04, not 0.04000000000000001."""
    return None if value is None else round(value, 12)


def _look(query: Query) -> list[dashboard.DynamicConfigValue]:
    look: list[dashboard.DynamicConfigValue] = []
    if query.color:
        look.append(dashboard.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": query.color}))
    if query.dashed:
        look.append(dashboard.DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [8, 6]}))
        look.append(dashboard.DynamicConfigValue("custom.lineWidth", 1))
    if query.fill:
        look.append(dashboard.DynamicConfigValue("custom.fillOpacity", 15))
    return look


def _by_name(name: str) -> Any:
    return xychart.MatcherConfig().id("byName").options(name)
