"""Plays every story of the collected files at once, each with both pairs of programs, and hands out how they went.

A story is a file's `play(world)`; `WORLD`, if the file has one, says what its world is made of. Stories mostly wait, so
side by side they take as long as the longest: about four minutes. What they measured is printed at the end of the run.
"""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stack.binaries import Binaries, version
from tests.ops.alert_path.world import running

PAIRS = ("release", "newest")
LONGEST_SECONDS = 400.0
MEASURED = pytest.StashKey[list[str]]()


class Play:
    """One story in a thread of its own. The thread is a daemon and its children end with it: Ctrl-C ends everything."""

    def __init__(self, module: ModuleType, binaries: Binaries, directory: Path) -> None:
        self._module, self._binaries, self._directory = module, binaries, directory
        self._told: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=directory.name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with running(self._directory, self._binaries, **getattr(self._module, "WORLD", {})) as world:
                self._told = self._module.play(world)
        except BaseException as error:  # noqa: BLE001  # a thread has nobody to raise to: told() does it
            self._error = error

    def told(self) -> Any:
        """What `play` returned; raises what it raised."""
        self._thread.join(LONGEST_SECONDS)
        assert not self._thread.is_alive(), f"the story {self._directory.name} has not ended"
        if self._error is not None:
            raise self._error
        return self._told


@pytest.fixture(scope="session")
def plays(
    request: pytest.FixtureRequest, binaries: Binaries, newer_binaries: Binaries, tmp_path_factory: Any
) -> Mapping[tuple[str, str], Play]:
    pairs = dict(zip(PAIRS, (binaries, newer_binaries), strict=True))
    lines = request.config.stash.setdefault(MEASURED, [])
    for name, pair in pairs.items():
        lines.append(f"{name}: {version(pair.prometheus)}; {version(pair.alertmanager)}")
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    modules = {item.module.__name__: item.module for item in items if "story" in item.fixturenames}
    return {
        (name, pair): Play(module, pairs[pair], tmp_path_factory.mktemp(f"{name.rpartition('.')[2]}-{pair}"))
        for name, module in modules.items()
        for pair in PAIRS
    }


@pytest.fixture(scope="module", params=PAIRS)
def story(request: pytest.FixtureRequest, plays: Mapping[tuple[str, str], Play]) -> Any:
    """What this file's `play` returned, with each pair of programs."""
    return plays[request.module.__name__, request.param].told()


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Callable[[str, float], None]:
    """Keeps a measured time for the end of the run."""

    def keep(what: str, seconds: float) -> None:
        pair = request.node.callspec.params["story"]
        request.config.stash[MEASURED].append(f"{pair}: {what}: {seconds:.1f} s")

    return keep


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if lines := config.stash.get(MEASURED, []):
        terminalreporter.section("alert path, measured")
        for line in sorted(lines):
            terminalreporter.write_line(line)
