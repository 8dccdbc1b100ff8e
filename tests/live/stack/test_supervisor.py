"""The supervisor with small stand-ins: starting together, watching, stopping in order, leaving nothing behind."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stack.component import Component
from stack.supervisor import PartFailed, Supervisor, probe

STANDIN = Path(__file__).with_name("standin.py")
Make = Callable[..., Component]
Gone = Callable[[Iterable[int]], bool]


@pytest.fixture
def make(free_port: Callable[[], int], tmp_path: Path) -> Make:
    """A component that runs the stand-in with these arguments."""

    def component(name: str, *arguments: object, **fields: Any) -> Component:
        port = free_port()
        return Component(
            name=name,
            argv=(sys.executable, "-I", "-S", str(STANDIN), str(port), "--name", name, *map(str, arguments)),
            environment={"PATH": os.environ["PATH"]},
            ready_url=f"http://127.0.0.1:{port}/healthz",
            claims=(),
            **fields,
        )

    return component


class Told:
    """What was said, for the test to look at."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def supervise(tmp_path: Path, told: Told) -> Iterator[Callable[..., Supervisor]]:
    started: list[Supervisor] = []

    def supervisor(*components: Component, start_seconds: float = 30.0) -> Supervisor:
        started.append(Supervisor(components, tmp_path, tmp_path, told, start_seconds))
        return started[-1]

    yield supervisor
    for one in started:
        one.stop()


def test_start_returns_when_all_are_ready_and_says_so(make: Make, supervise: Any, told: Told) -> None:
    components = [make("quick"), make("slow", "--ready-after", 0.5)]
    supervisor = supervise(*components)
    supervisor.start()
    assert [probe(component.ready_url) for component in components] == [None, None]
    assert sorted(line.split()[0] for line in told.lines) == ["quick", "slow"]
    assert all("ready after" in line for line in told.lines)
    assert sorted(supervisor.pids) == ["quick", "slow"]
    supervisor.check()


def test_every_part_is_a_session_of_its_own_with_its_own_log(make: Make, supervise: Any, tmp_path: Path) -> None:
    supervisor = supervise(make("one"), make("two"))
    supervisor.start()
    for pid in supervisor.pids.values():
        assert os.getsid(pid) == pid
    assert (tmp_path / "one.log").read_text().startswith("one begins")
    supervisor.stop()
    supervise(make("one")).start()
    assert (tmp_path / "one.log.1").read_text().startswith("one begins"), "the log of the last run is kept"


def test_a_part_runs_on_the_cpus_it_was_given(make: Make, supervise: Any, tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    supervise(make("pinned", cpus=(cpu,)), make("free")).start()
    assert f"on CPUs [{cpu}]\n" in (tmp_path / "pinned.log").read_text()
    assert f"on CPUs {sorted(os.sched_getaffinity(0))}\n" in (tmp_path / "free.log").read_text()


def test_parts_stop_in_order(make: Make, supervise: Any, all_gone: Gone, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    supervisor = supervise(
        make("third", "--journal", journal, stop_order=3),
        make("first", "--journal", journal, stop_order=1),
        make("second", "--journal", journal, stop_order=2),
    )
    supervisor.start()
    pids = list(supervisor.pids.values())
    supervisor.stop()
    supervisor.stop()
    assert journal.read_text().split() == ["first", "second", "third"]
    assert all_gone(pids)


def test_one_that_ignores_the_request_is_killed_after_its_time(
    make: Make, supervise: Any, all_gone: Gone, told: Told
) -> None:
    supervisor = supervise(make("stubborn", "--stubborn", stop_seconds=0.5))
    supervisor.start()
    pids = list(supervisor.pids.values())
    began = time.monotonic()
    supervisor.stop()
    assert 0.5 <= time.monotonic() - began < 5
    assert "stubborn did not end within 0.5 s: killed" in told.text
    assert all_gone(pids)


def test_an_interrupt_while_stopping_kills_at_once(make: Make, supervise: Any, all_gone: Gone) -> None:
    supervisor = supervise(make("stubborn", "--stubborn", stop_seconds=60.0))
    supervisor.start()
    pids = list(supervisor.pids.values())
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    supervisor.stop()
    assert time.monotonic() - began < 10
    assert all_gone(pids)


def test_one_that_dies_stops_all_and_its_last_words_are_shown(make: Make, supervise: Any, all_gone: Gone) -> None:
    supervisor = supervise(make("healthy"), make("mortal", "--end-after", 1.5, "--code", 3))
    supervisor.start()
    pids = list(supervisor.pids.values())
    with pytest.raises(PartFailed) as caught:
        supervisor.wait()
    message = str(caught.value)
    assert message.startswith("mortal ended by itself (exit code 3), so everything was stopped\n")
    assert "the last words of a standin" in message
    assert "mortal.log" in message
    assert all_gone(pids)


def test_one_that_is_killed_is_said_to_be(make: Make, supervise: Any) -> None:
    supervisor = supervise(make("victim"))
    supervisor.start()
    os.kill(supervisor.pids["victim"], signal.SIGKILL)
    with pytest.raises(PartFailed, match=r"victim ended by itself \(killed by SIGKILL\)"):
        supervisor.wait()


def test_one_that_dies_while_others_start_ends_the_start(make: Make, supervise: Any, all_gone: Gone) -> None:
    supervisor = supervise(make("slow", "--ready-after", 60), make("mortal", "--end-after", 0.3, "--code", 1))
    began = time.monotonic()
    with pytest.raises(PartFailed, match="mortal ended by itself"):
        supervisor.start()
    assert time.monotonic() - began < 20
    assert supervisor.pids == {}


def test_a_program_that_does_not_exist_is_one_clear_message(make: Make, supervise: Any, tmp_path: Path) -> None:
    missing = Component(
        name="missing", argv=("/nowhere/program",), environment={}, ready_url="http://127.0.0.1:1/", claims=()
    )
    with pytest.raises(PartFailed, match="cannot run /nowhere/program: No such file or directory"):
        supervise(make("other"), missing).start()


def test_one_that_never_gets_ready_is_named_with_what_it_answers(make: Make, supervise: Any, all_gone: Gone) -> None:
    supervisor = supervise(make("never", "--ready-after", 600), start_seconds=8.0)
    with pytest.raises(PartFailed, match=r"never was not ready within 8 s \(http://.*/healthz: status 503\)"):
        supervisor.start()
    assert supervisor.pids == {}


def test_a_long_wait_says_for_what_and_what_that_is_doing(
    make: Make, supervise: Any, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stack.supervisor._STILL_WAITING_SECONDS", 0.5)
    supervise(make("slow", "--ready-after", 3)).start()
    waits = [line for line in told.lines if "waiting for slow" in line]
    assert "slow begins on CPUs" in waits[-1]


def test_nothing_of_a_parts_own_family_survives_it(make: Make, supervise: Any, all_gone: Gone, tmp_path: Path) -> None:
    """Neither when it is stopped nor when it dies by itself."""
    supervisor = supervise(make("parent", "--grandchild", tmp_path / "one"))
    supervisor.start()
    supervisor.stop()
    assert all_gone([int((tmp_path / "one").read_text())])
    supervisor = supervise(make("parent", "--grandchild", tmp_path / "two", "--end-after", 1.0))
    supervisor.start()
    with pytest.raises(PartFailed):
        supervisor.wait()
    assert all_gone([int((tmp_path / "two").read_text())])


def test_a_probe_tells_what_is_wrong_and_asks_no_proxy(
    make: Make, supervise: Any, free_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    component = make("ready")
    supervise(component).start()
    assert probe(component.ready_url) is None
    assert probe(f"http://127.0.0.1:{free_port()}/") == "Connection refused"
