"""What `python -m loadtest tune` takes, and the sentence for what it does not."""

import re
from pathlib import Path

import pytest

from loadtest.analysis.tuner.knobs import Knobs
from loadtest.errors import UsageError
from loadtest.tune.options import TuneOptions, parse


def parsed(*argv: str, cpus: tuple[int, ...] = (0, 1)) -> TuneOptions:
    return parse(argv, cpus)


def test_nothing_said_is_the_running_service_for_ten_minutes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SERVICE_PORT", "SERVICE_ADMIN_PORT", "SERVICE_ADMIN_TOKEN", "SLO_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TAILBOARD_STATE_DIR", str(tmp_path))
    (tmp_path / "admin-token").write_text("kept\n")
    options = parsed()
    assert (options.target, options.admin) == ("http://127.0.0.1:8000", "http://127.0.0.1:8001")
    assert options.token == "kept"
    assert (options.slo.threshold_seconds, options.slo.objective) == (0.05, 0.99)
    assert options.budget_seconds == 600
    assert options.cpus == ()
    assert options.out is None
    assert options.space(1024).batch_rows == (1, 2, 4, 8, 16, 32, 64, 128)
    assert options.space(100).batch_rows[-2:] == (64, 100)


def test_the_token_of_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TAILBOARD_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("SERVICE_ADMIN_TOKEN", "")
    assert parsed().token is None
    monkeypatch.setenv("SERVICE_ADMIN_TOKEN", "given")
    assert parsed().token == "given"


def test_lists_make_the_space() -> None:
    options = parsed(
        *("--own-service", "--batch-rows", "32,1", "--waits", "0,5ms,0.02s", "--policy", "fixed,adaptive"),
        *("--workers", "1,2", "--runtime", "sklearn=digits", "--runtime", "onnx=a=b.onnx"),
    )
    space = options.space(1024)
    assert len(space) == 2 * 3 * 2 * 2 * 2
    assert next(iter(space)) == Knobs(1, 0.0, "fixed", 1, "sklearn")
    assert options.waits_seconds == (0.0, 0.005, 0.02)
    assert options.models == {"sklearn": "digits", "onnx": "a=b.onnx"}


def test_with_a_service_of_its_own_the_generator_has_the_last_cpu() -> None:
    assert parsed("--own-service").cpus == (1,)
    assert parsed("--own-service", cpus=(3,)).cpus == ()
    assert parsed("--own-service", "--cpus", "0").cpus == (0,)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--budget", "5s"], "--budget is '5s'; expected at least 30s, such as 10m"),
        (["--budget", "soon"], "--budget is 'soon'; expected a time such as 30s, 10m or 1h"),
        (["--batch-rows", "0,8"], "--batch-rows is '0,8'; expected whole numbers such as 1,8,32"),
        (["--batch-rows", "8,8"], "--batch-rows is '8,8'; expected each value once"),
        (["--waits", "5"], "--waits is '5'; expected times such as 0,1ms,5ms"),
        (["--waits=-1ms"], "--waits is '-1ms'; expected times such as 0,1ms,5ms"),
        (["--waits", "61s"], "--waits is '61s'; expected times such as 0,1ms,5ms"),
        (["--waits", "nanms"], "--waits is 'nanms'; expected times such as 0,1ms,5ms"),
        (["--policy", "fast"], "--policy is 'fast'; expected some of adaptive, fixed"),
        (["--workers", "2"], "--workers was given without --own-service; expected both: it takes a restart"),
        (["--runtime", "a=b"], "--runtime was given without --own-service; expected both: it takes a restart"),
        (
            ["--own-service", "--runtime", "digits"],
            "--runtime is 'digits'; expected NAME=MODEL, each name once, such as onnx=models/forest.onnx",
        ),
        (["--target-rate", "0"], "--target-rate is 0; expected requests per second, above 0"),
        (["--cpus", "7"], "--cpus is '7'; expected some of those that this process may use, 0,1"),
        (["--admin", "nowhere"], "--admin: host is 'nowhere'; expected http://HOST:PORT"),
        (["--processes", "0"], "--processes is 0; expected a whole number from 1 to 64"),
        (
            ["--own-service", "--apply"],
            "--apply and --own-service were both given; expected one: that service ends with the search",
        ),
        (["--job", "other"], "--job is 'other'; expected one of inference, as slo.yaml has it"),
        (["--rate", "-3"], "rate is -3.0; expected a number above 0 and at most 100000 arrivals per second"),
        (["--arrivals", "ramp"], "unrecognized arguments: --arrivals ramp"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(argv: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(*argv)
    assert re.sub(r"\s+", " ", str(caught.value)) == sentence


def test_a_batch_beyond_the_queue_is_refused_once_the_service_has_said_what_it_takes() -> None:
    with pytest.raises(UsageError, match=r"--batch-rows has 2048; expected at most the queue's capacity, 1024 rows"):
        parsed("--batch-rows", "1,2048").space(1024)
