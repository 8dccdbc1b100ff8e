"""The servers that can be measured: how each is started, what it is asked, and what it is set to."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from bench.environments import LOCKS
from bench.wrk import Request

Runtime = Literal["sklearn", "onnx"]
PEERS: Final = ("mosec", "litserve", "bentoml", "ray", "triton")
OURS: Final = "ours"
ROW: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0) * 2
_ROW_TEXT: Final = ", ".join(f"{value:g}" for value in ROW)
ONE_THREAD: Final = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
_NO_REPORTING: Final = {"BENTOML_DO_NOT_TRACK": "True", "RAY_USAGE_STATS_ENABLED": "0", "DO_NOT_TRACK": "1"}

# The same row for all, and probabilities from all.
OURS_REQUEST: Final = Request("/predict", f'{{"instances": [[{_ROW_TEXT}]], "method": "predict_proba"}}'.encode())
_PEER_BODY: Final = f'{{"instances": [[{_ROW_TEXT}]]}}'.encode()
_TRITON_BODY: Final = (
    f'{{"inputs": [{{"name": "x", "shape": [1, 20], "datatype": "FP64", "data": [{_ROW_TEXT}]}}]}}'.encode()
)


@dataclass(frozen=True, slots=True)
class Server:
    """One server in one setting."""

    family: str  # ours, mosec, mosec_lean, mosec_onnx, ...: what ratios are about
    runtime: Runtime
    setting: str  # what differs inside the family; the better one counts

    @property
    def key(self) -> str:
        return f"{self.family} {self.runtime} {self.setting}"

    @property
    def peer(self) -> str:
        """The name of its lock file and app; `ours` for ours."""
        return self.family.partition("_")[0]

    @property
    def label(self) -> str:
        return f"{self.family}, {self.setting}"


@dataclass(frozen=True, slots=True)
class Start:
    """How a server is run and asked."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: Path
    request: Request


def lineup(runtimes: Sequence[Runtime], peers: Sequence[str]) -> list[Server]:
    """Ours and the peers in all their settings, in the order in which they take turns."""
    servers: list[Server] = []
    if "sklearn" in runtimes:
        servers.append(Server(OURS, "sklearn", "1 worker"))
        for peer in peers:
            families = ("mosec", "mosec_lean") if peer == "mosec" else (peer,)
            servers += [Server(family, "sklearn", setting) for family in families for setting in _settings(peer)]
    if "onnx" in runtimes:
        servers += [Server(OURS, "onnx", "1 worker"), Server(OURS, "onnx", "0 workers")]
        if "mosec" in peers:
            servers += [Server("mosec_onnx", "onnx", setting) for setting in _settings("mosec")]
    return servers


def _settings(peer: str) -> tuple[str, ...]:
    return ("adaptive",) if peer == "bentoml" else ("wait 5 ms", "wait 1 ms")


def start_ours(
    python: str, model: str, port: int, admin_port: int, module: str = "service", **settings: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    """(argv, environment) of our service with its default settings, and with those given, e.g. model_workers="0"."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SERVICE_", "SLO_"))}
    ours = {"model": model, "port": str(port), "admin_port": str(admin_port), "drain_grace_seconds": "0", **settings}
    return (python, "-m", module), {**kept, **{f"SERVICE_{name.upper()}": value for name, value in ours.items()}}


def start_peer(server: Server, bin_dir: Path, forest: Path, port: int, more_ports: Sequence[int]) -> Start:
    """A peer's app, run as its users would run it."""
    peer = server.peer
    wait = server.setting.removeprefix("wait ").removesuffix(" ms")
    environment = {
        **os.environ,
        **ONE_THREAD,
        **_NO_REPORTING,
        "PATH": f"{bin_dir}{os.pathsep}{os.environ.get('PATH', '')}",
        "FOREST": str(forest),
        "PORT": str(port),
        "MORE_PORTS": ",".join(map(str, more_ports)),
        "MAX_WAIT_MS": wait if wait.isdigit() else "",
        "RUNTIME": {"mosec": "sklearn", "mosec_lean": "lean", "mosec_onnx": "onnx"}.get(server.family, ""),
    }
    python = str(bin_dir / "python")
    app = str(LOCKS / f"{peer}_app.py")
    request = Request("/predict", _PEER_BODY)
    argv: tuple[str, ...]
    match peer:
        case "mosec":
            argv = (python, app, "--address", "127.0.0.1", "--port", str(port), "--log-level", "warning")
            request = Request("/inference", _PEER_BODY)
        case "bentoml":
            serve = ("serve", "bentoml_app:Forest", "--working-dir", str(LOCKS))
            argv = (str(bin_dir / "bentoml"), *serve, "--host", "127.0.0.1", "--port", str(port))
        case "ray":
            argv = (python, app)
            request = Request("/", _PEER_BODY)
        case "triton":
            argv = (python, app)
            request = Request("/v2/models/forest/infer", _TRITON_BODY)
        case _:
            argv = (python, app)
    return Start(argv, environment, forest, request)
