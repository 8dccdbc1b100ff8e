"""What people see once the stack is up: where everything is and what it is for, and how to begin."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

# key in NativeStack.urls -> (title, path that a person opens, what for)
_PAGES: Final = {
    "locust": ("Locust", "", "start load; edit its rate while it runs"),
    "live": ("Live page", "", "p95, p99 and throughput, live"),
    "grafana": ("Grafana", "/d/latency-vs-throughput", "the same dashboards in Grafana"),
    "inbox": ("Alert inbox", "", "what would have paged you, and when it cleared"),
    "service": ("Service", "", "the model, a curl that works, the current knobs"),
    "service_admin": ("Service admin", "/metrics", "metrics; /admin/batching and /admin/slowest beside them"),
    "prometheus": ("Prometheus", "/graph", "any other question; rules and alerts"),
    "alertmanager": ("Alertmanager", "", "grouping and silences (with amtool where the build has no page)"),
    "locust_metrics": ("Locust metrics", "/metrics", "what the client saw, from the scheduled instant"),
}
_BOLD, _DIM, _LINK, _OFF = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"


def table(urls: Mapping[str, str], color: bool = False) -> str:
    """One line per page, in the order in which one needs them."""
    rows = [(title, urls[key] + path, use) for key, (title, path, use) in _PAGES.items() if key in urls]
    wide = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    bold, link, off = (_BOLD, _LINK, _OFF) if color else ("", "", "")
    return "\n".join(f"  {bold}{t:<{wide[0]}}{off}   {link}{u:<{wide[1]}}{off}   {use}" for t, u, use in rows)


def hints(urls: Mapping[str, str], token_file: Path | None, log_dir: Path, color: bool = False) -> str:
    """How to start load, how to change a knob, where the logs are. `token_file` None: the caller has the token."""
    bold, dim, off = (_BOLD, _DIM, _OFF) if color else ("", "", "")
    lines = []
    if "locust" in urls:
        lines.append(
            f"  {bold}Start load{off}   open {urls['locust']} and press Start; the rate can be edited meanwhile"
        )
    if "service_admin" in urls:
        token = f"$(cat {token_file})" if token_file else "$SERVICE_ADMIN_TOKEN"
        lines.append(
            f"  {bold}Turn a knob{off}  curl -X PATCH {urls['service_admin']}/admin/batching \\\n"
            f'                 -H "Authorization: Bearer {token}" -d \'{{"max_batch_rows": 1}}\''
        )
    lines.append(f"  {dim}Logs in {log_dir}{off}")
    return "\n".join(lines)
