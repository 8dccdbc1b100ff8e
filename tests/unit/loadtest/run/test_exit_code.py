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


def test_ctrl_c_while_the_program_still_loads_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Loading:
        def find_spec(self, name: str, *_: Any) -> None:
            if name == "loadtest.run.program":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "loadtest.run.program", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Loading(), *sys.meta_path])
    assert main(["run"]) == 130
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "loadtest: interrupted before it had begun\n"
