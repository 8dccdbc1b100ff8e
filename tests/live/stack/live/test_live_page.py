"""The program itself in front of a real Prometheus that scrapes a fake service, and in front of worse."""

import json
import math
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stack.binaries import Binaries
from tests.live.stack.live.world import FakeService, exporter, live_page, prometheus, until

DASHBOARD = """
{"uid": "own", "title": "Own", "time": {"from": "now-5m", "to": "now"},
 "templating": {"list": [
   {"type": "query", "name": "model", "query": "label_values(inference_request_duration_seconds_count, model)"}]},
 "panels": [
  {"id": 1, "type": "stat", "title": "served", "fieldConfig": {"defaults": {"unit": "reqps"}}, "targets": [
   {"expr": "sum(rate(inference_request_duration_seconds_count{model=\\"$model\\"}[$__rate_interval]))",
    "instant": true}]},
  {"id": 2, "type": "timeseries", "title": "broken", "gridPos": {"y": 9}, "targets": [{"expr": "sum(rate("}]}
 ]}
"""


def get(url: str, timeout: float = 20) -> Any:
    with urllib.request.urlopen(url, timeout=timeout) as response:
        return json.load(response)


@pytest.fixture(scope="module")
def service() -> FakeService:
    return FakeService(rate=400, median_seconds=0.01)


@pytest.fixture(scope="module")
def dashboards(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dashboards")
    for path in (root / "grafana" / "dashboards").glob("*.json"):
        (directory / path.name).write_bytes(path.read_bytes())
    (directory / "own.json").write_text(DASHBOARD)
    return directory


def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def page(
    binaries: Binaries, service: FakeService, dashboards: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("world")
    with (
        exporter(service) as target,
        prometheus(binaries.prometheus, port(), directory, target) as prometheus_url,
        live_page(port(), prometheus_url, dashboards, directory / "live.log") as url,
    ):
        yield url


def served(page: str, uid: str = "latency-vs-throughput", query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = get(f"{page}/api/d/{uid}{query}")
    return found


def test_every_shipped_panel_has_data_under_load(page: str) -> None:
    # The budget comes from a recording rule, and this Prometheus has none.
    def silent() -> dict[str, Any]:
        panels = served(page)["panels"].items()
        return {
            number: panel
            for number, panel in panels
            if panel["state"] != "ok" and "error_budget" not in "".join(panel["queries"])
        }

    assert served(page)["status"]["state"] in ("ok", "no_service", "no_traffic")
    until(lambda: not silent(), 40, "data in every panel")
    assert served(page)["status"] == {"state": "ok", "message": ""}


def test_the_p99_on_the_page_is_that_of_the_service(page: str, service: FakeService) -> None:
    truth = service.median_seconds * math.exp(service.spread * statistics.NormalDist().inv_cdf(0.99)) * 1000

    def p99() -> float | None:
        for panel in served(page)["panels"].values():
            if panel["kind"] == "stat" and "histogram_quantile(0.99" in "".join(panel["queries"]):
                stat = panel["stats"][0]
                return float(stat["text"]) if stat["known"] else None
        return None

    value: Any = until(p99, 30, "a p99")
    assert value == pytest.approx(truth, rel=0.1)  # a bucket is a quarter wide; interpolation does the rest


def test_latency_beyond_the_last_bucket_is_said_to_be_beyond_it(page: str, service: FakeService) -> None:
    """Case M5: no flat line at 10 s."""
    usual, service.median_seconds = service.median_seconds, 60.0

    def flagged() -> dict[str, Any]:
        panels = served(page)["panels"].values()
        names = [trace.get("name") for panel in panels for trace in panel.get("figure", {}).get("data", ())]
        p99 = next(p for p in panels if p["kind"] == "stat" and "quantile(0.99" in "".join(p["queries"]))["stats"][0]
        both = {"p99 is beyond 10 s", "client is beyond 10 s"} <= set(names)
        return p99 if both and p99["text"] == "> 10 s" else {}

    found: Any = until(flagged, 40, "the flag in both figures and on the tile")
    assert found["colour"] == "#e03131"
    service.median_seconds = usual
    for panel in served(page)["panels"].values():
        traces = {trace.get("name"): trace["y"] for trace in panel.get("figure", {}).get("data", ())}
        [edge] = {value for name in traces if name and "is beyond" in name for value in traces[name] if value} or {
            math.inf
        }
        lines = [name for name in traces if name in ("p99", "server", "client, from schedule", "client, from send")]
        assert all(value < edge for name in lines for value in traces[name] if value), lines


def test_a_variable_has_its_values_and_reaches_the_query(page: str) -> None:
    def rate() -> float:
        found = served(page, "own")
        if found["variables"][0]["options"] != ["digits"]:
            return 0.0
        assert found["panels"]["1"]["queries"][0].count('model="digits"') == 1
        return float(found["panels"]["1"]["stats"][0]["text"].replace(",", "").replace("no data", "0"))

    until(lambda: 320 < rate() < 480, 40, "the rate of that model's requests")
    assert served(page, "own", "?var-model=%22%7D")["variables"][0]["chosen"] == ["digits"]


def test_prometheus_s_own_words_about_a_failed_query(page: str) -> None:
    panel = served(page, "own")["panels"]["2"]
    assert panel["state"] == "error"
    assert panel["message"].startswith("Query A failed: bad_data:")
    assert "parse error" in panel["message"]


def test_an_edited_file_is_another_version(page: str, dashboards: Path) -> None:
    before = served(page, "own")["version"]
    (dashboards / "own.json").write_text(DASHBOARD.replace('"served"', '"served now"'))
    assert served(page, "own")["version"] != before
    with urllib.request.urlopen(f"{page}/d/own", timeout=10) as response:
        assert b"served now" in response.read()


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/api/d/latency-vs-throughput?from=soon", 400, "'soon' is no time"),
        ("/api/d/latency-vs-throughput?from=now-1s", 400, "shorter than 10 s"),
        ("/api/d/nowhere", 404, "no dashboard with the uid 'nowhere'"),
        ("/d/nowhere", 404, "There is no dashboard"),
        ("/elsewhere", 404, "There is no such page"),
    ],
)
def test_what_is_asked_wrongly(page: str, path: str, status: int, words: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refusal:
        get(page + path)
    assert refusal.value.code == status
    assert words in refusal.value.read().decode()


def test_everything_comes_from_here(page: str) -> None:
    with urllib.request.urlopen(f"{page}/", timeout=10) as response:  # the first dashboard
        html = response.read().decode()
        assert response.headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert 'src="http' not in html
    request = urllib.request.Request(f"{page}/plotly.min.js", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=20) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        assert "immutable" in response.headers["Cache-Control"]
        assert len(response.read()) < 2_000_000


# --- trouble ----------------------------------------------------------------------------------------------------


def test_without_prometheus_the_page_says_so(root: Path, free_port: Callable[[], int], tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    with live_page(free_port(), nobody, root / "grafana" / "dashboards", tmp_path / "log") as url:
        found = served(url)
    assert found["status"] == {"state": "no_prometheus", "message": f"no Prometheus at {nobody}: connection refused"}


def test_a_prometheus_that_never_answers_does_not_hang_the_page(
    root: Path, free_port: Callable[[], int], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as mute:  # accepts, and says nothing
        address = f"http://127.0.0.1:{mute.getsockname()[1]}"
        environment = {"LIVE_QUERY_TIMEOUT_SECONDS": "1"}
        with live_page(free_port(), address, root / "grafana" / "dashboards", tmp_path / "log", **environment) as url:
            seconds: list[float] = []

            def view() -> None:
                start = time.monotonic()
                assert served(url)["status"]["state"] == "no_prometheus"
                seconds.append(time.monotonic() - start)

            viewers = [threading.Thread(target=view) for _ in range(12)]
            for viewer in viewers:
                viewer.start()
            start = time.monotonic()
            with urllib.request.urlopen(f"{url}/healthz", timeout=5) as response:
                assert response.read() == b"ok\n"
            health_seconds = time.monotonic() - start
            for viewer in viewers:
                viewer.join(30)
    assert len(seconds) == 12
    assert max(seconds) < 8  # one timeout of a second, and a busy machine
    assert health_seconds < 5


def run_once(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stack.live"], capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": "/usr/bin:/bin", **environment},
    )  # fmt: skip


def test_a_busy_port_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        ended = run_once(LIVE_PORT=str(taken))
    assert ended.returncode == 1
    assert ended.stderr == (
        f"the live page cannot listen on 127.0.0.1:{taken} (address already in use); LIVE_PORT and LIVE_HOST move it\n"
    )


def test_a_bad_setting_is_one_sentence() -> None:
    ended = run_once(PROMETHEUS_URL="prometheus")
    assert (ended.returncode, ended.stderr) == (
        1,
        "PROMETHEUS_URL is 'prometheus'; expected an address such as http://127.0.0.1:9090\n",
    )


def test_sigterm_ends_it(root: Path, free_port: Callable[[], int], tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    running = live_page(free_port(), nobody, root / "grafana" / "dashboards", tmp_path / "log")
    with running as url:
        assert served(url)["status"]["state"] == "no_prometheus"
        start = time.monotonic()
    assert time.monotonic() - start < 5
