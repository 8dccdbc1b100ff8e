"""The small programs that containers run beside their own: health check, admin token, knobs of all replicas."""

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "deploy/docker"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def server(answer: Callable[[str, str, bytes, Any], tuple[int, bytes]]) -> Iterator[int]:
    """An HTTP server on a free port; `answer(method, path, body, headers)` gives (status, body)."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, reply = answer(self.command, self.path, body, self.headers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        do_GET = do_PATCH = _answer

        def log_message(self, *_: Any) -> None:
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield http.server_port
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


# --- healthy.py --------------------------------------------------------------------------------------------------


def healthy(port: int, path: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", SCRIPTS / "healthy.py", str(port), path]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


def test_healthy_is_200_at_that_path() -> None:
    with server(lambda method, path, body, headers: (200 if path == "/readyz" else 503, b"no")) as port:
        assert healthy(port, "/readyz").returncode == 0
        other = healthy(port, "/healthz")
    assert other.returncode == 1
    assert "answered 'HTTP/1.0 503 Service Unavailable'; expected status 200" in other.stdout


def test_not_healthy_when_nobody_listens(free_port: Callable[[], int]) -> None:
    done = healthy(free_port(), "/readyz")
    assert done.returncode == 1
    assert "does not answer" in done.stdout


def test_not_healthy_when_the_server_is_hung_or_hangs_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert healthy(port, "/").returncode == 1  # accepted by the kernel, answered by nobody

    def hang_up() -> None:
        connection, _ = closing.accept()
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as closing:
        thread = threading.Thread(target=hang_up)
        thread.start()
        assert healthy(closing.getsockname()[1], "/").returncode == 1
        thread.join()


# --- enlisted.py -------------------------------------------------------------------------------------------------


def enlisted(port: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", SCRIPTS / "enlisted.py", "127.0.0.1", str(port)]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


@pytest.mark.parametrize(
    ("states", "status", "said"),
    [
        ({"HERE_1": "ready"}, 0, ""),
        ({"HERE_1": "running", "elsewhere_1": "missing"}, 0, ""),
        ({"HERE_1": "missing", "HERE_2": "spawning"}, 0, ""),  # restarted: the entry of its last life is still there
        ({"HERE_1": "missing"}, 1, "a worker that is missing"),
        ({"elsewhere_1": "running", "HEREAFTER_1": "running"}, 1, "no worker"),
        ({}, 1, "no worker"),
    ],
)
def test_enlisted_is_a_worker_of_this_host_that_can_take_a_load(states: dict[str, str], status: int, said: str) -> None:
    workers = [{"id": name.replace("HERE", socket.gethostname()), "state": state} for name, state in states.items()]
    reply = json.dumps({"workers": workers}).encode()
    with server(lambda method, path, body, headers: (200 if path == "/stats/requests" else 404, reply)) as port:
        done = enlisted(port)
    assert (done.returncode, done.stderr) == (status, "")
    assert said in done.stdout


def test_not_enlisted_when_the_master_is_away_or_in_trouble(free_port: Callable[[], int]) -> None:
    away = enlisted(free_port())
    with server(lambda method, path, body, headers: (500, b"no")) as port:
        trouble = enlisted(port)
    assert (away.returncode, trouble.returncode) == (1, 1)
    assert "the master does not say: " in away.stdout
    assert "expected status 200" in trouble.stdout
    assert away.stderr == trouble.stderr == ""


# --- with-admin-token.sh -----------------------------------------------------------------------------------------


def token_seen(kept: Path, given: str | None = None) -> str:
    environment = {"PATH": os.environ["PATH"], "ADMIN_TOKEN_FILE": str(kept)}
    if given is not None:
        environment["SERVICE_ADMIN_TOKEN"] = given
    command = [SCRIPTS / "with-admin-token.sh", "sh", "-c", 'printf %s "$SERVICE_ADMIN_TOKEN"']
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=True).stdout


def test_a_token_is_made_once_and_kept_private(tmp_path: Path) -> None:
    kept = tmp_path / "token"
    first = token_seen(kept)
    assert len(first) == 64
    assert int(first, 16) > 0
    assert token_seen(kept, given="") == first  # compose may pass an unset variable as an empty one
    assert kept.read_text() == first
    assert kept.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [kept]


def test_a_given_token_is_used_and_not_written(tmp_path: Path) -> None:
    assert token_seen(tmp_path / "token", given="mine") == "mine"
    assert list(tmp_path.iterdir()) == []


def test_replicas_that_start_together_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(lambda _: token_seen(tmp_path / "token"), range(24)))
    assert len(tokens) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


def test_the_program_takes_the_place_of_the_script(tmp_path: Path) -> None:
    """So that it gets the container's signals, and its exit status is the container's."""
    command = [SCRIPTS / "with-admin-token.sh", "sh", "-c", "echo $$; exit 7"]
    environment = {"PATH": os.environ["PATH"], "ADMIN_TOKEN_FILE": str(tmp_path / "token")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        out, _ = process.communicate(timeout=20)
    assert (int(out), process.returncode) == (process.pid, 7)


def test_shell_scripts_pass_shellcheck() -> None:
    program = Path(sys.executable).with_name("shellcheck")
    scripts = [*SCRIPTS.glob("*.sh"), *(ROOT / "tests/docker").glob("*.sh")]
    assert len(scripts) == 2
    done = subprocess.run([program, *scripts], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
    assert all(shutil.which(script) for script in scripts), "not executable"


# --- batching.py -------------------------------------------------------------------------------------------------


@pytest.fixture
def batching(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load("batching")
    monkeypatch.setenv("SERVICE_ADMIN_TOKEN", "secret")
    return module


def test_a_change_keeps_the_types_of_its_values(batching: ModuleType) -> None:
    assert batching.change_from(["policy=fixed", "max_batch_rows=1", "max_wait_seconds=0.005"]) == {
        "policy": "fixed",
        "max_batch_rows": 1,
        "max_wait_seconds": 0.005,
    }
    for wrong in ("max_batch_rows", "=1"):
        with pytest.raises(ValueError, match="is not NAME=VALUE"):
            batching.change_from([wrong])


def test_every_replica_is_changed_with_the_token(
    batching: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[str, str, Any, str | None]] = []

    def answer(method: str, path: str, body: bytes, headers: Any) -> tuple[int, bytes]:
        seen.append((method, path, json.loads(body) if body else None, headers["Authorization"]))
        return 200, b'{"max_batch_rows":1}'

    with server(answer) as port:
        monkeypatch.setattr(batching, "ADMIN_PORT", port)
        monkeypatch.setattr(batching, "replicas", lambda name, port: ["127.0.0.1", "localhost"])
        assert batching.main(["max_batch_rows=1"]) == 0
        assert batching.main([]) == 0
    patch = ("PATCH", "/admin/batching", {"max_batch_rows": 1}, "Bearer secret")
    assert seen == [patch, patch, *[("GET", "/admin/batching", None, None)] * 2]
    assert capsys.readouterr().out.splitlines()[0] == '127.0.0.1 {"max_batch_rows":1}'


def test_one_replica_that_refuses_or_is_gone_is_a_failure_and_the_rest_are_still_asked(
    batching: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with server(lambda method, path, body, headers: (400, b'{"error":"max_batch_rows is 0"}')) as port:
        monkeypatch.setattr(batching, "ADMIN_PORT", port)
        monkeypatch.setattr(batching, "replicas", lambda name, port: ["127.0.0.2", "127.0.0.1"])
        assert batching.main(["max_batch_rows=0"]) == 1
    said = capsys.readouterr().err
    assert "127.0.0.2 does not answer" in said
    assert 'max_batch_rows is 0"}' in said
    assert "2 of 2 replicas failed" in said


def test_wrong_usage_and_an_unknown_name_are_said(
    batching: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert batching.main(["nonsense"]) == 64
    assert "is not NAME=VALUE" in capsys.readouterr().err

    def unknown(name: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(batching, "replicas", unknown)
    assert batching.main([]) == 64
    assert "not known" in capsys.readouterr().err


def test_replicas_are_the_addresses_of_one_name(batching: ModuleType) -> None:
    assert batching.replicas("localhost", 8001) == ["127.0.0.1"]
