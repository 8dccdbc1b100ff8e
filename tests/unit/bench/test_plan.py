"""What the command line means, who is measured in which order, and how long it will take."""

from collections import Counter
from pathlib import Path

import pytest

from bench import options, servers, throughput
from bench.__main__ import plan
from bench.found import Found
from bench.options import Options
from bench.progress import Progress, minutes
from bench.servers import lineup
from bench.throughput import Throughput


def found(asked: Options) -> Found:
    runtimes = tuple(runtime for runtime in ("sklearn", "onnx") if runtime in asked.parts)
    return Found(asked, Throughput(lineup(runtimes, asked.peers), asked.connections))  # type: ignore[arg-type]


def planned_seconds(asked: Options) -> float:
    return sum(seconds for _, seconds, _ in plan(found(asked)))


def test_the_default_run_takes_at_most_about_sixteen_minutes() -> None:
    assert 6 * 60 < planned_seconds(options.read([])) <= 16 * 60


def test_a_glance_takes_at_most_about_six_minutes() -> None:
    assert 60 < planned_seconds(options.read(["--quick"])) <= 6 * 60


def test_more_rounds_seconds_and_peers_take_longer() -> None:
    once = planned_seconds(options.read(["--only", "sklearn"]))
    assert planned_seconds(options.read(["--only", "sklearn", "--rounds", "4"])) > 1.5 * once
    assert planned_seconds(options.read(["--only", "sklearn", "--seconds", "12"])) > 2 * once
    assert planned_seconds(options.read(["--only", "sklearn", "--peers", "mosec ray"])) > 1.2 * once


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], ["throughput", "open loop", "latency", "large", "metrics", "overload", "loadgen"]),
        (["--only", "onnx"], ["throughput", "open loop"]),
        (["--only", "overload,latency"], ["latency", "overload"]),
        (["--only", "memory,loadgen"], ["loadgen", "memory"]),
    ],
)
def test_only_the_parts_that_were_asked_for(arguments: list[str], names: list[str]) -> None:
    assert [name for name, _, _ in plan(found(options.read(arguments)))] == names


def test_options() -> None:
    assert options.read([]) == Options()
    assert options.read(["--peers", "triton mosec"]).peers == ("mosec", "triton"), "in one order, whatever was typed"
    assert options.read(["--peers", ""]).peers == (), "ours alone"
    assert options.read(["--connections", "64,1 64"]).connections == (1, 64)
    assert options.read(["--out", "there"]).out == Path("there").absolute()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--peers", "vllm"], "'vllm' is not known; expected some of mosec, litserve, bentoml, ray, triton"),
        (["--only", "speed"], "'speed' is not known"),
        (["--only", ""], "nothing is asked for"),
        (["--rounds", "0"], "'0'; expected a whole number from 1 to 3600"),
        (["--connections", "1,x"], "'x'; expected a whole number"),
        (["--connections", ""], "no number; expected whole numbers such as 1,32,128"),
    ],
)
def test_what_cannot_be_used_is_said(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        options.read(arguments)
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_peers_are_measured_at_both_waits_and_mosec_with_every_runtime() -> None:
    assert [server.key for server in lineup(("sklearn", "onnx"), ("mosec", "bentoml"))] == [
        "ours sklearn 1 worker",
        "mosec sklearn wait 5 ms",
        "mosec sklearn wait 1 ms",
        "mosec_lean sklearn wait 5 ms",
        "mosec_lean sklearn wait 1 ms",
        "bentoml sklearn adaptive",
        "ours onnx 1 worker",
        "ours onnx 0 workers",
        "mosec_onnx onnx wait 5 ms",
        "mosec_onnx onnx wait 1 ms",
    ]


def test_every_round_takes_all_and_every_second_one_backwards() -> None:
    three = lineup(("onnx",), ("mosec",))
    order = list(throughput.turns(three, 3))
    assert [number for number, _ in order] == [1] * 4 + [2] * 4 + [3] * 4
    assert [server for _, server in order] == [*three, *reversed(three), *three]
    assert set(Counter(server for _, server in order).values()) == {3}


def test_every_peer_has_its_app_and_its_lock(root: Path) -> None:
    for peer in servers.PEERS:
        assert (root / "bench" / "peers" / f"{peer}_app.py").is_file()
        lock = (root / "bench" / "peers" / f"{peer}.lock").read_text()
        pinned = [line for line in lock.splitlines() if line and not line.startswith((" ", "#"))]
        assert pinned
        assert all("==" in line and line.endswith("\\") for line in pinned), "every package with its version and hashes"
        assert "://" not in lock, "no index address"


def test_progress_corrects_its_estimate_by_what_it_took() -> None:
    now = [0.0]
    said: list[str] = []
    progress = Progress(100, said.append, lambda: now[0])
    assert progress.left_seconds() == 100
    now[0] = 10
    progress.done(20, "first")
    assert progress.left_seconds() == 80, "too early to correct anything"
    now[0] = 60
    progress.done(20, "second")
    assert progress.left_seconds() == pytest.approx(90)
    progress.skip(30)
    assert progress.left_seconds() == pytest.approx(45)
    assert said == ["first  [1 min 20 s left]", "second  [1 min 30 s left]"]


def test_progress_never_says_less_than_nothing() -> None:
    progress = Progress(10, lambda text: None, lambda: 0.0)
    progress.done(20, "longer than planned")
    progress.skip(50)
    assert progress.left_seconds() == 0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (7.4, "7 s"), (44, "45 s"), (59, "1 min"), (381, "6 min 20 s")]
)
def test_minutes(seconds: float, text: str) -> None:
    assert minutes(seconds) == text
