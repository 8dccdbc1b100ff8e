"""Pages for people from results: one run, and two side by side.

A page is one file that needs no network: Plotly is inside it. In: results as `loadtest.analysis.result` builds them.
"""

from loadtest.analysis.report.page import compared_html, html

__all__ = ["compared_html", "html"]
