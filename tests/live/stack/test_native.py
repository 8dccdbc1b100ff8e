"""`python -m stack` with the real Prometheus, Alertmanager and inbox: alerts arrive, nothing stays behind."""

import http.client
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from stack.binaries import Binaries
from stack.native import NativeStack, PartFailed, StackError
from stack.settings import ROOT, StackSettings

ONLY = ("prometheus", "alertmanager", "inbox")
Gone = Callable[..., bool]


def get(url: str) -> Any:
    """The body, from JSON where it is some."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request("GET", url)
        response = connection.getresponse()
        text = response.read().decode()
        assert response.status == 200, (url, response.status, text)
        return json.loads(text) if "json" in response.headers["Content-Type"] else text
    finally:
        connection.close()


def until(condition: Callable[[], Any], within_seconds: float = 60.0) -> Any:
    """The first true value of `condition`."""
    end = time.monotonic() + within_seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            assert value, "it did not happen in time"
            return value
        time.sleep(0.1)


class Running:
    """`python -m stack --only …` as a process of its own."""

    def __init__(self, environment: dict[str, str], only: Iterable[str] = ONLY) -> None:
        self.environment = environment
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stack", "--only", ",".join(only)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.note_path = Path(environment["TAILBOARD_STATE_DIR"]) / "run" / "stack.json"

    def ready(self) -> dict[str, Any]:
        """The note that it writes once everything runs."""

        def note() -> dict[str, Any] | None:
            assert self.process.poll() is None, self.process.communicate()[0]
            try:
                written: dict[str, Any] = json.loads(self.note_path.read_text())
            except FileNotFoundError:
                return None
            return written if written["status"] == "running" else None

        result: dict[str, Any] = until(note)
        return result

    def end(self, within_seconds: float = 30.0) -> tuple[int, str]:
        """(exit code, everything it printed), once it has ended by itself."""
        output, _ = self.process.communicate(timeout=within_seconds)
        return self.process.returncode, output


@pytest.fixture
def run(binaries: Binaries, environment: dict[str, str]) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def begin(**changes: str) -> Running:
        started.append(Running({**environment, **changes}))
        return started[-1]

    yield begin
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


def test_an_alert_arrives_in_the_inbox_and_is_resolved_there(binaries: Binaries, settings: StackSettings) -> None:
    with NativeStack(settings, say=lambda line: None, only=ONLY) as stack:
        assert set(stack.urls) == {"prometheus", "alertmanager", "inbox"}
        inbox = f"{stack.urls['inbox']}/api/alerts"
        ends = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
        subprocess.run(
            [
                *(binaries.amtool, f"--alertmanager.url={stack.urls['alertmanager']}", "alert", "add"),
                *("alertname=LatencySLOBreach", "severity=page", "job=inference", f"--end={ends}"),
                "--annotation=summary=too slow",
            ],
            check=True,
            timeout=60,
        )
        firing = until(lambda: get(inbox))[0]
        assert firing["status"] == "firing"
        assert firing["labels"] == {"alertname": "LatencySLOBreach", "severity": "page", "job": "inference"}
        assert firing["annotations"] == {"summary": "too slow"}
        assert abs(firing["received_at"] - time.time()) < 60
        until(lambda: [entry["status"] for entry in get(inbox)] == ["resolved", "firing"])
        assert "lasted" in get(stack.urls["inbox"] + "/")
        metrics = get(f"{stack.urls['inbox']}/metrics")
        assert 'inbox_alerts_received_total{alertname="LatencySLOBreach",status="resolved"} 1.0' in metrics
    kept = (settings.state_dir / "inbox.jsonl").read_text().splitlines()
    assert [json.loads(line)["status"] for line in kept] == ["firing", "resolved"]


def test_prometheus_runs_our_rules_on_our_ports(binaries: Binaries, settings: StackSettings) -> None:
    with NativeStack(settings, say=lambda line: None, only=ONLY) as stack:
        prometheus = stack.urls["prometheus"]
        groups = get(f"{prometheus}/api/v1/rules")["data"]["groups"]
        assert groups, "no rules were loaded"
        targets = until(lambda: get(f"{prometheus}/api/v1/targets")["data"]["activeTargets"])
        scraped = {target["labels"]["job"]: target["scrapeUrl"] for target in targets}
        assert scraped["inbox"] == f"http://127.0.0.1:{settings.inbox_port}/metrics"
        assert scraped["inference"] == f"http://127.0.0.1:{settings.service_admin_port}/metrics"
        assert scraped["loadgen"] == f"http://127.0.0.1:{settings.locust_metrics_port}/metrics"
        managers = until(lambda: get(f"{prometheus}/api/v1/alertmanagers")["data"]["activeAlertmanagers"])
        assert [manager["url"] for manager in managers] == [
            f"http://127.0.0.1:{settings.alertmanager_port}/api/v2/alerts"
        ]
        flags = get(f"{prometheus}/api/v1/status/flags")["data"]
        assert flags["web.listen-address"] == f"127.0.0.1:{settings.prometheus_port}"
        assert flags["storage.tsdb.retention.time"] == settings.retention
        # Its own page works from where it was unpacked.
        assert "Prometheus" in get(f"{prometheus}/classic/targets")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_everything_within_fifteen_seconds(
    run: Callable[..., Running], whole_family: Callable[[int], list[int]], all_gone: Gone, number: signal.Signals
) -> None:
    stack = run()
    note = stack.ready()
    assert note["pid"] == stack.process.pid
    pids = whole_family(stack.process.pid)
    assert len(pids) == 1 + len(ONLY)
    began = time.monotonic()
    stack.process.send_signal(number)
    code, output = stack.end()
    assert time.monotonic() - began < 15
    assert code == 0, output
    assert "Tailboard is up" in output
    assert "stopped: nothing of it runs any more" in output
    assert "Traceback" not in output
    assert all_gone(pids)
    assert not stack.note_path.exists()


def test_nothing_survives_a_supervisor_that_is_killed_and_the_next_start_is_not_fooled(
    run: Callable[..., Running], whole_family: Callable[[int], list[int]], all_gone: Gone
) -> None:
    stack = run()
    stack.ready()
    pids = whole_family(stack.process.pid)
    stack.process.kill()
    stack.process.communicate()
    assert all_gone(pids)
    assert stack.note_path.exists(), "it had no chance to tidy up"
    stack.note_path.write_text(stack.note_path.read_text().replace('"running"', '"gone"'))
    again = run()
    again.ready()
    again.process.send_signal(signal.SIGTERM)
    assert again.end()[0] == 0


def test_a_signal_while_it_starts_leaves_nothing_either(run: Callable[..., Running], all_gone: Gone) -> None:
    stack = run()
    until(lambda: (stack.note_path.parent / "logs" / "prometheus.log").exists())
    stack.process.send_signal(signal.SIGINT)
    code, output = stack.end()
    assert code == 0, output
    assert "Traceback" not in output
    assert all_gone([stack.process.pid])
    for name in ("PROMETHEUS_PORT", "ALERTMANAGER_PORT", "INBOX_PORT"):
        with pytest.raises(OSError, match="refused"):
            get(f"http://127.0.0.1:{stack.environment[name]}/")


def test_a_second_start_says_that_it_runs_and_where(run: Callable[..., Running]) -> None:
    first = run()
    first.ready()
    code, output = run().end()
    assert code == 0
    assert f"already running in {first.environment['TAILBOARD_STATE_DIR']} (pid {first.process.pid};" in output
    assert "What the environment says now does not change it." in output
    assert f"http://127.0.0.1:{first.environment['INBOX_PORT']}" in output
    assert first.process.poll() is None, "the first is left alone"
    assert get(f"http://127.0.0.1:{first.environment['INBOX_PORT']}/healthz") == {"status": "ok"}


def test_a_part_that_dies_stops_all_shows_its_log_and_fails(
    run: Callable[..., Running], whole_family: Callable[[int], list[int]], all_gone: Gone
) -> None:
    stack = run()
    note = stack.ready()
    pids = whole_family(stack.process.pid)
    os.kill(note["pids"]["alertmanager"], signal.SIGKILL)
    code, output = stack.end()
    assert code == 1
    assert "error: alertmanager ended by itself (killed by SIGKILL), so everything was stopped" in output
    assert "Starting Alertmanager" in output, "the end of its log"
    assert all_gone(pids)


def test_a_busy_port_is_one_sentence_and_nothing_is_started(
    run: Callable[..., Running], environment: dict[str, str]
) -> None:
    first = run()
    first.ready()
    code, output = run(TAILBOARD_STATE_DIR=environment["TAILBOARD_STATE_DIR"] + "-other").end()
    assert code == 1
    assert f"error: port {environment['INBOX_PORT']} (alert inbox) is held by python" in output
    assert "INBOX_PORT=" in output
    assert f"port {environment['PROMETHEUS_PORT']} (Prometheus) is held by prometheus (pid " in output
    assert "starting" not in output


def test_what_prometheus_refuses_is_shown(run: Callable[..., Running], tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "bad.yml").write_text("groups: [{name: x, rules: [{alert: A, expr: '1 +'}]}]\n")
    code, output = run(TAILBOARD_RULES_DIR=str(tmp_path / "rules")).end()
    assert code == 1
    assert "error: prometheus ended by itself" in output
    assert "bad.yml" in output


@pytest.mark.parametrize(
    ("changes", "code", "sentence"),
    [
        ({"INBOX_PORT": "many"}, 64, "error: INBOX_PORT is 'many'; expected a port from 1 to 65535\n"),
        ({"TAILBOARD_STATE_DIR": "/dev/null/x"}, 1, "error: cannot write in /dev/null/x/run/logs (Not a directory)"),
        ({"TAILBOARD_RULES_DIR": "/nowhere"}, 1, "error: /nowhere holds no *.yml files"),
    ],
)
def test_a_mistake_is_one_sentence(
    run: Callable[..., Running], changes: dict[str, str], code: int, sentence: str
) -> None:
    ended, output = run(**changes).end()
    assert ended == code
    assert output.startswith(sentence)
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("SERVICE_MAX_BATCH_ROWS", "0", "SERVICE_MAX_BATCH_ROWS is '0'; expected"),
        ("SERVICE_MODEL", "nope.skops", "there is no model file"),
        ("SERVICE_MODEL", "bla", "the model 'bla' is none that is known; expected"),
        ("SLO_FILE", "nope.yaml", ""),
    ],
)
def test_a_setting_that_the_service_refuses_starts_nothing(
    environment: dict[str, str], variable: str, value: str, sentence: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "stack"],
        cwd=ROOT,
        env={**environment, variable: value},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: {sentence}")
    assert value in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stdout == ""
    assert not Path(environment["TAILBOARD_STATE_DIR"]).exists()


def test_an_unknown_part_and_an_unknown_argument(environment: dict[str, str]) -> None:
    for arguments, code in ((["--only", "prometeus"], 1), (["--everything"], 64)):
        ended = subprocess.run(
            [sys.executable, "-m", "stack", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == code
        assert "prometeus is no part of the stack" in ended.stderr or "unrecognized arguments" in ended.stderr


def test_as_an_object_it_checks_stops_and_can_be_started_again(binaries: Binaries, settings: StackSettings) -> None:
    stack = NativeStack(settings, say=lambda line: None, only=["alertmanager"])
    with pytest.raises(StackError, match="not running"):
        stack.check()
    for _ in range(2):
        stack.start()
        stack.check()
        assert stat.S_IMODE((settings.state_dir / "admin-token").stat().st_mode) == 0o600
        assert stack.admin_token == (settings.state_dir / "admin-token").read_text().strip()
        with pytest.raises(StackError, match="started before"):
            NativeStack.start(stack)
        stack.stop()
        stack.stop()
        assert stack.pids == {}
    stack.start()
    os.kill(stack.pids["alertmanager"], signal.SIGKILL)
    with pytest.raises(PartFailed, match="alertmanager ended by itself"):
        until(stack.check)
    stack.stop()


def test_a_grafana_on_path_is_used_with_our_dashboards_and_ports(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in: what it was told is in its log."""
    program = tmp_path / "grafana" / "bin" / "grafana"
    program.parent.mkdir(parents=True)
    (tmp_path / "grafana" / "conf").mkdir()
    (tmp_path / "grafana" / "conf" / "defaults.ini").touch()
    standin = Path(__file__).with_name("standin.py")
    program.write_text(
        f'#!/bin/sh\necho "$@"; env\nexec {sys.executable} -I -S {standin} "$GF_SERVER_HTTP_PORT" --name grafana\n'
    )
    program.chmod(0o755)
    path = f"{program.parent}:{environment['PATH']}"
    monkeypatch.setenv("PATH", path)
    settings = StackSettings.from_environment({**environment, "PATH": path})
    with NativeStack(settings, say=lambda line: None, only=["grafana"]) as stack:
        assert stack.urls == {"grafana": f"http://127.0.0.1:{settings.grafana_port}"}
    told = (settings.log_dir / "grafana.log").read_text()
    assert f"server --homepath {tmp_path / 'grafana'}" in told
    assert f"PROMETHEUS_URL=http://127.0.0.1:{settings.prometheus_port}" in told
    assert f"DASHBOARDS_DIR={ROOT / 'grafana' / 'dashboards'}" in told
    provisioning = settings.run_dir / "grafana" / "provisioning"
    assert f"GF_PATHS_PROVISIONING={provisioning}" in told
    assert (provisioning / "datasources" / "prometheus.yml").is_file()
    assert (provisioning / "dashboards" / "tailboard.yml").is_file()
