"""tuned.env: read alike by env, by a shell and by compose."""

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from loadtest.analysis.frontier_file import About
from loadtest.analysis.tuned_env import tuned_env
from loadtest.analysis.tuner.found import Found
from loadtest.analysis.tuner.knobs import Knobs

FoundOf = Callable[[str], Found]
COMPOSE_LINE = re.compile(r"#.*|[A-Z_]+=[^\s'\"$#\\`]+")  # what `--env-file` takes without quoting or interpolation
READERS = {
    "env": "env $(grep -v '^#' {path}) env",
    "shell": "set -a; . {path}; set +a; env",
}


def settings(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def with_knobs(found: Found, knobs: Knobs) -> Found:
    return replace(found, knobs=knobs)


def test_it_holds_the_setting_and_says_what_it_is(found_of: FoundOf, about: About) -> None:
    found = found_of("chosen")
    text = tuned_env(found, about)
    assert text is not None
    assert settings(text) == {
        "SERVICE_BATCHING_POLICY": "adaptive",
        "SERVICE_MAX_BATCH_ROWS": "64",
        "SERVICE_MAX_WAIT_SECONDS": "0",
        "SERVICE_TUNED_RATE": f"{found.rate:.6g}",
    }
    said = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    for fact in (
        f"{found.rate:,.0f} requests/s",
        "p99 within 50 ms",
        "confirmed 3 times",
        "digits",
        "2026-03-14",
        "bench-1",
    ):
        assert fact in said


@pytest.mark.parametrize("kind", ["cannot meet", "too slow", "nothing", "partial"])
def test_where_nothing_was_confirmed_there_is_no_file(found_of: FoundOf, about: About, kind: str) -> None:
    assert tuned_env(found_of(kind), about) is None


def test_what_the_generator_held_is_a_setting_too(found_of: FoundOf, about: About) -> None:
    text = tuned_env(found_of("generator limited"), about)
    assert text is not None
    assert settings(text)["SERVICE_MAX_BATCH_ROWS"] == "32"


def test_workers_and_the_runtimes_model_are_set_where_they_were_chosen(found_of: FoundOf, about: About) -> None:
    found = with_knobs(found_of("chosen"), Knobs(32, 0.00025, "fixed", workers=2, runtime="onnx"))
    text = tuned_env(found, replace(about, models={"onnx": "models/digits.onnx"}))
    assert text is not None
    assert settings(text) == {
        "SERVICE_BATCHING_POLICY": "fixed",
        "SERVICE_MAX_BATCH_ROWS": "32",
        "SERVICE_MAX_WAIT_SECONDS": "0.00025",
        "SERVICE_TUNED_RATE": f"{found.rate:.6g}",
        "SERVICE_MODEL_WORKERS": "2",
        "SERVICE_MODEL": "models/digits.onnx",
    }
    for models in ({"onnx": "synthetic?a=1&b=2"}, {"onnx": "my models/digits.onnx"}, {}):
        text = tuned_env(found, replace(about, models=models))
        assert text is not None
        assert "SERVICE_MODEL" not in settings(text)
        assert "# It was measured with the runtime onnx: set SERVICE_MODEL to" in text


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_gets_the_same_and_none_of_what_others_wrote(
    found_of: FoundOf, about: About, tmp_path: Path, reader: str
) -> None:
    evil = "digits\nSERVICE_HOST=0.0.0.0 $(touch evil) `touch evil` 'a' \"b\"\r\u2028SERVICE_PORT=1"
    said = replace(about, model=evil, target=evil, started_at=evil, host={"name": evil, "cpu": evil})
    found = with_knobs(found_of("chosen"), Knobs(32, 0.00001, "fixed", workers=2))
    text = tuned_env(found, said)
    assert text is not None
    assert all(COMPOSE_LINE.fullmatch(line) for line in text.split("\n")[:-1])
    path = tmp_path / "tuned.env"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["/bin/bash", "-c", READERS[reader].format(path=path)],
        cwd=tmp_path, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    read = {name: value for name, value in settings(done.stdout).items() if name.startswith("SERVICE_")}
    assert read == settings(text)
    assert float(read["SERVICE_MAX_WAIT_SECONDS"]) == 0.00001
    assert [each.name for each in tmp_path.iterdir()] == ["tuned.env"]
