"""Child programs of the bench: nothing of them is left behind, and what went wrong is told with the end of the log."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

# `adopt_orphans` changes the process that calls it and stray children are ended, so all this runs in one of its own.
HEAD = """
import os, sys, time
from pathlib import Path
from bench.programs import Program, ProgramFailed, adopt_orphans, run
from bench.wrk import Request
adopt_orphans()
log = Path(sys.argv[1]) / "program.log"
def start(code, **more):
    return Program([sys.executable, "-c", code], os.environ, Path.cwd(), log, **more)
def until(path):
    while not path.exists():
        time.sleep(0.02)
"""
# A server's child that has left its parent's session and outlives it, as daemons do.
DAEMON = """
import os, pathlib, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        pathlib.Path({pid!r}).write_text(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
{then}
"""


def bench(root: Path, tmp_path: Path, code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", HEAD + code, str(tmp_path)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("then", ["time.sleep(600)", "sys.exit(3)"])
def test_even_a_daemon_of_a_server_is_ended_with_it(root: Path, tmp_path: Path, then: str) -> None:
    pid = tmp_path / "pid"
    code = DAEMON.format(pid=str(pid), then=then)
    done = bench(
        root,
        tmp_path,
        f"""
with start("import time; time.sleep(600)") as other:
    with start({code!r}) as program:
        until(Path({str(pid)!r}))
        time.sleep(0.3)
    print(other.ended(), flush=True)
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "None\n", "another program that runs is left alone"
    assert not psutil.pid_exists(int(pid.read_text()))


def test_a_server_that_ends_before_it_answers_is_told_with_its_last_words(root: Path, tmp_path: Path) -> None:
    done = bench(
        root,
        tmp_path,
        """
try:
    with start("print('no such model'); raise SystemExit(4)") as program:
        program.until_it_answers("http://127.0.0.1:9/x", Request("/x", b"{}"), 30)
except ProgramFailed as error:
    print(error)
""",
    )
    assert done.stdout.startswith("it ended with exit code 4 before it answered\n  the end of "), done.stderr
    assert done.stdout.endswith(":\n    no such model\n")


def test_a_server_that_stays_silent_is_given_up(root: Path, tmp_path: Path) -> None:
    done = bench(
        root,
        tmp_path,
        """
try:
    with start("import time; time.sleep(600)") as program:
        program.until_it_answers("http://127.0.0.1:9/x", Request("/x", b"{}"), 0.5)
except ProgramFailed as error:
    print(error)
""",
    )
    assert done.stdout.startswith("it did not answer within 0.5 s (last: "), done.stderr


def test_lines_are_exchanged_and_an_end_or_a_silence_is_said(root: Path, tmp_path: Path) -> None:
    done = bench(
        root,
        tmp_path,
        """
echo = "import sys\\nfor line in sys.stdin: print(line.strip() * 2, flush=True)"
with start(echo, talks=True) as program:
    print(program.ask("ab", 20), end="")
for code in ("print('x', file=__import__('sys').stderr); raise SystemExit(2)", "import time; time.sleep(600)"):
    with start(code, talks=True) as program:
        try:
            program.ask("ab", 0.7)
        except ProgramFailed as error:
            print(str(error).splitlines()[0])
""",
    )
    assert done.stdout == "abab\nit ended with exit code 2\nit did not answer within 0.7 s\n", done.stderr
