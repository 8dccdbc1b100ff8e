"""The live page: renders the Grafana dashboard files from Prometheus's HTTP API, in a browser, without Grafana.

    dashboards/*.json ─▶ dashboard ─▶ plan (queries) ─▶ prometheus ─▶ series ─▶ panels/* ─▶ web ─▶ the browser's Plotly

`dashboard`, `variables`, `intervals`, `units`, `series` and `panels` are pure; `prometheus` speaks HTTP, `gather` runs
a page's queries side by side, `web` is the Flask application and `__main__` the composition root.
"""
