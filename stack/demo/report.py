"""Writes what a run leaves behind: result.json for programs, report.html for people.

The page is one file that needs no network: Plotly is inside it.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import plotly.offline
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from stack.demo import plots
from stack.demo.record import Record
from stack.demo.telling import HEADINGS, cells, events, findings
from stack.demo.words import clock_text, quantile_name, rate_text, rows_name, rows_text, seconds_text, share_text

TEMPLATES: Final = Path(__file__).with_name("templates")


def write(record: Record, out: Path) -> Path:
    """Writes both files into `out` and gives the path of the report."""
    out.mkdir(parents=True, exist_ok=True)
    result = json.dumps(record.as_json(), indent=1, ensure_ascii=False)
    (out / "result.json").write_text(result + "\n", encoding="utf-8")
    report = out / "report.html"
    report.write_text(render(record), encoding="utf-8")
    return report


def render(record: Record) -> str:
    """The whole page."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "rate": rate_text,
        "rows": rows_text,
        "rows_name": rows_name,
        "seconds": seconds_text,
        "clock": clock_text,
        "share": share_text,
    }
    specs = {"over-time": plots.over_time(record)} if record.series else {}
    if record.ramp:
        specs["against-throughput"] = plots.against_throughput(record)
    return environment.get_template("report.html").render(
        record=record,
        p99=quantile_name(record.slo.objective),
        title=_title(record),
        events=events(record),
        findings=findings(record),
        headings=HEADINGS,
        cells=cells,
        specs=specs,
        colors=_colors(specs),
        plotly=Markup(plotly.offline.get_plotlyjs()),  # Plotly's own file, known not to end the script element
    )


def _title(record: Record) -> str:
    if record.verdict is not None:
        return record.verdict.sentence
    return "The demo was interrupted; this is what had been measured."


def _colors(specs: Mapping[str, Any]) -> list[str]:
    """Names of all colours that the plots ask the page for."""
    return sorted(set(re.findall(r'"@([a-z0-9]+)"', json.dumps(specs))))
