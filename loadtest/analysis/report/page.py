"""Fills the templates: a result in, a whole page out."""

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import plotly.offline
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from loadtest.analysis import words
from loadtest.analysis.report import distribution, pairing, telling, timeline
from loadtest.analysis.report.axes import Figure
from loadtest.analysis.verdict import Objective, lateness_limit_seconds

TEMPLATES: Final = Path(__file__).with_name("templates")


def html(result: Mapping[str, Any]) -> str:
    """The report of one run. Without `series` in the result, say from a run that never began, it has no plots."""
    specs: dict[str, Figure] = {}
    if result.get("series") and result["measured"]["offered"]:
        slo = result["slo"]
        limit = lateness_limit_seconds(Objective(slo["threshold_seconds"], slo["objective"]))
        specs = {
            "by-share": distribution.latency_by_share(distribution.tail_lines(result), slo),
            "over-time": timeline.latency_over_time(result),
            "arrivals": timeline.arrivals_over_time(result),
            "histogram": distribution.histogram(result),
        }
        if not telling.is_closed(result):  # a closed loop has no schedule to be late against
            specs["lateness"] = timeline.lateness(result, limit)
    return rendered("report.html", specs, result=result)


def compared_html(a: Mapping[str, Any], b: Mapping[str, Any], comparison: Mapping[str, Any]) -> str:
    """Two runs side by side; `comparison` is what `loadtest.analysis.compare.compared` says of them."""
    names = comparison["names"]
    results = (a, b)
    specs: dict[str, Figure] = {}
    if all(result.get("series") and result["measured"]["offered"] for result in results):
        specs = {
            "by-share": distribution.latency_by_share(distribution.tail_lines_of_both(results, names), a["slo"]),
            "over-time": timeline.p99_of_both(results, names),
        }
    return rendered(
        "compared.html", specs, sides=list(zip(names, results, strict=True)), comparison=comparison, pairing=pairing
    )


def rendered(template: str, specs: Mapping[str, Figure], **values: Any) -> str:
    """A page from one of the templates; `specs` are its plots by the id of their element."""
    return (
        _environment()
        .get_template(template)
        .render(
            **values,
            telling=telling,
            specs=specs,
            colors=sorted(set(re.findall(r"@([a-z0-9]+)", json.dumps(specs)))),
            plotly=plotly.offline.get_plotlyjs() if specs else "",  # known not to end the script element
        )
    )


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "seconds": words.seconds_text,
        "setting": words.setting_text,
        "latency": words.latency_text,
        "share": words.share_text,
        "rate": words.rate_text,
        "count": words.count_text,
    }
    return environment
