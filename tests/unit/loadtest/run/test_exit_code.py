"""Whatever happens, an exit code of 1 says FAIL of the service and nothing else."""

import sys
from types import ModuleType
from typing import Any

import pytest

from loadtest.__main__ import main


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_run_that_breaks_is_no_fail(
    error: BaseException,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def run(argv: Any) -> int:
        raise error

    program: Any = ModuleType("loadtest.run.program")  # the real one takes the process over
    program.run, program.TrialError = run, RuntimeError
    monkeypatch.setitem(sys.modules, "loadtest.run.program", program)
    assert main(["run"]) == 2
    assert capsys.readouterr().out == "INVALID\n"
    assert ("disk full" in caplog.text) is isinstance(error, OSError)
