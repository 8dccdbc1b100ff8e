"""`python -m loadtest run`'s options: what they mean, and what is said of those that cannot be used."""

from datetime import datetime, timezone
from pathlib import Path

import pytest

from loadtest.analysis.verdict import Objective
from loadtest.errors import UsageError
from loadtest.run.options import RunOptions, parse

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc)  # noqa: UP017  # mypy's and ruff's targets agree on it


def parsed(*argv: str) -> RunOptions:
    return parse(argv, NOW)


def test_the_defaults() -> None:
    options = parsed()
    assert options.settings.arrivals == "poisson"
    assert (options.duration_seconds, options.warmup_seconds, options.processes) == (60, 5, 1)
    assert options.slo.threshold_seconds in options.edges
    assert options.out == Path("out/run-20300102-030405")
    assert options.users is None
    assert options.abort_seconds is None


def test_what_is_given() -> None:
    options = parsed(
        *("--target", "http://127.0.0.1:9/", "--rate", "500", "--arrivals", "constant", "--duration", "2m"),
        *("--warmup", "0", "--header", "A: b", "--header", "C: d", "--abort-on-breach", "10s", "--users", "7"),
    )
    assert options.target == "http://127.0.0.1:9"
    assert (options.settings.rate, options.settings.arrivals) == (500, "constant")
    assert (options.duration_seconds, options.warmup_seconds, options.abort_seconds, options.users) == (120, 0, 10, 7)
    assert options.settings.header == "A: b | C: d"


def test_a_trace_is_as_long_as_it_is() -> None:
    assert parsed("--arrivals", "trace", "--trace", "x.csv").duration_seconds is None
    assert parsed("--arrivals", "trace", "--trace", "x.csv", "--duration", "9s").duration_seconds == 9


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--rate", "-5"], "rate is -5.0; expected a number above 0"),
        (["--rate", "many"], "invalid float value: 'many'"),
        (["--rat", "5"], "unrecognized arguments: --rat 5"),
        (["--target", "ftp://x"], "expected http://HOST:PORT"),
        (["--duration", "soon"], "--duration is 'soon'; expected a time such as 30s, 10m or 1h"),
        (["--duration", "0s"], "--duration is '0s'; expected more than 0"),
        (["--duration", "5s"], "expected a warm-up shorter than the run"),
        (["--processes", "0"], "--processes is 0; expected a whole number from 1 to 64"),
        (["--users", "0"], "--users is 0"),
        (["--closed-loop", "-1"], "--closed-loop is -1"),
        (["--closed-loop", "1", "--user", "x.py"], "expected one of them"),
        (["--slo", "missing.yaml"], "missing.yaml"),
        (["--slo-objective", "1"], "slo_objective is 1.0; expected a share from 0 to below 1"),
        (["--slo-threshold-seconds", "-1"], "slo_threshold_seconds is -1.0"),
        (["--job", "nobody"], "--job is 'nobody'; expected one of inference"),
        (["--arrivals", "trace"], "trace is ''; expected the file to replay"),
        (["--config", "missing.conf"], "missing.conf"),
    ],
)
def test_what_cannot_be_used_is_said_in_a_sentence(argv: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(*argv)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_scenario_file_fills_in_what_the_command_line_leaves_out(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.conf"
    scenario.write_text("rate = 300\nduration = 30s\narrivals = constant\n")
    options = parsed("--config", str(scenario), "--rate", "400")
    assert (options.settings.rate, options.settings.arrivals, options.duration_seconds) == (400, "constant", 30)


def test_the_objective_is_that_of_slo_yaml_unless_the_command_says_otherwise() -> None:
    assert parsed().slo == Objective(0.05, 0.99)
    assert parsed("--slo-threshold-seconds", "0.2").slo == Objective(0.2, 0.99)
    assert parsed("--slo-objective", "0.999").slo == Objective(0.05, 0.999)
