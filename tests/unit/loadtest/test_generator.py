"""A process's load generator follows Locust's events and the director's plans. Nothing here runs a greenlet."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loadtest.generator import LoadGenerator, NoFreeUser
from loadtest.prepared import prepare
from loadtest.sample_file import read_rows
from loadtest.settings import LoadSettings
from loadtest.shapes import NotAsked


class Hook:
    def __init__(self) -> None:
        self.listeners: list[Callable[..., None]] = []
        self.fired: list[dict[str, Any]] = []

    def add_listener(self, listener: Callable[..., None]) -> None:
        self.listeners.append(listener)

    def fire(self, **values: Any) -> None:
        self.fired.append(values)
        for listener in self.listeners:
            listener(**values)


class World:
    def __init__(self, **runner: Any) -> None:
        """`runner`: more of what Locust's runner has."""
        self.listeners: dict[str, Callable[..., None]] = {}
        self.environment = SimpleNamespace(
            events=SimpleNamespace(test_start=Hook(), test_stopping=Hook(), test_stop=Hook(), request=Hook()),
            runner=SimpleNamespace(register_message=self.listeners.__setitem__, **runner),
            host="http://127.0.0.1:8000",
        )
        self.generator = LoadGenerator(self.environment, (0.1, 1.0))
        self.greenlet = self.generator.start()
        self.followed: list[Any] = []
        self.generator.scheduler.follow = self.follow  # type: ignore[method-assign]

    def follow(self, plan: Any, seconds: float) -> None:
        self.followed.append(plan)

    def plan(self, samples: str | None = None, **values: Any) -> None:
        settings = LoadSettings().with_values(values).as_dict()
        data = {"settings": settings, "index": 0, "workers": 1, "begun": 0.0, "seconds": None, "samples": samples}
        self.listeners["load_plan"](environment=self.environment, msg=SimpleNamespace(data=data))

    def begin(self) -> None:
        self.environment.events.test_start.fire(environment=self.environment)

    def end(self) -> None:
        self.environment.events.test_stopping.fire(environment=self.environment)


def refuse(host: str, port: int, path: str, headers: Any) -> Any:
    raise NotAsked("nobody is there")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("loadtest.generator.prepare", lambda settings, target: prepare(settings, target, refuse))
    made = World()
    yield made
    made.greenlet.kill(block=False)


def test_a_plan_waits_for_the_run_to_start(world: World) -> None:
    world.plan(rate=5)
    assert world.followed == []
    world.begin()
    assert [plan.curve.rate(0) for plan in world.followed] == [5]


def test_a_run_waits_for_its_plan(world: World) -> None:
    """A worker that joins late hears that there is a run before it hears its share of it."""
    world.begin()
    assert world.followed == []
    world.plan(rate=5)
    assert len(world.followed) == 1


def test_a_worker_that_was_told_to_spawn_before_it_could_listen_takes_part(world: World) -> None:
    """Locust sends a worker that joins a run its users at once; the run's start was said when nobody heard it."""
    late = World(worker_state="spawning")
    late.plan(rate=5)
    assert len(late.followed) == 1
    early = World(worker_state="ready")
    early.plan(rate=5)
    assert early.followed == []
    for each in (late, early):
        each.greenlet.kill(block=False)


def test_an_edit_of_the_rate_is_followed_one_of_the_timeout_begins_no_ramp_again(world: World) -> None:
    world.plan(arrivals="ramp")
    world.begin()
    world.plan(arrivals="ramp", timeout_seconds=7, rows_per_request="8")
    assert len(world.followed) == 1
    assert world.generator.settings.timeout_seconds == 7
    assert b"X-Request-Timeout-Ms: 7000" in world.generator.requests[0]
    world.plan(arrivals="ramp", ramp_to_rate=5)
    assert len(world.followed) == 2


def test_the_plan_of_a_run_that_ended_does_not_start_the_next(world: World) -> None:
    world.plan(rate=5)
    world.begin()
    world.end()
    world.begin()
    assert len(world.followed) == 1
    world.plan(rate=5)  # the same values, and still a new start
    assert len(world.followed) == 2


def test_a_drop_is_a_failure_for_locust_without_a_time(world: World) -> None:
    world.generator._dropped(0.25)
    (fired,) = world.environment.events.request.fired
    assert fired["response_time"] is None
    assert isinstance(fired["exception"], NoFreeUser)
    assert (fired["request_type"], fired["name"]) == ("POST", "/predict")
    assert world.generator.report().run.lateness.max == 0.25  # the scheduler's own, though no user was late


def test_a_drop_bears_the_name_of_the_users_of_the_run(world: World) -> None:
    world.begin()
    world.generator.drops_as = ("ARRIVAL", "Shopper")
    world.generator._dropped(0.0)
    world.begin()
    world.generator._dropped(0.0)
    names = [(fired["request_type"], fired["name"]) for fired in world.environment.events.request.fired]
    assert names == [("ARRIVAL", "Shopper"), ("POST", "/predict")]


def test_what_is_refused_is_told_once_per_status_and_run(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        world.generator.tell_once(400, b'{"error": "64 features expected"}')
    world.generator.tell_once(500, b"")
    assert [record.getMessage() for record in caplog.records] == [
        'the first reply with status 400 says: {"error": "64 features expected"}',
        "the first reply with status 500 says: ",
    ]


def test_what_keeps_a_worker_from_taking_part_is_told_and_nothing_is_sent(world: World, tmp_path: Path) -> None:
    told: list[Any] = []
    world.environment.runner.send_message = lambda *message: told.append(message)
    world.plan(data=str(tmp_path / "missing.csv"))
    world.begin()
    ((kind, sentence),) = told
    assert kind == "load_problem"
    assert "missing.csv" in sentence
    assert world.followed == []
    world.plan()  # an edit mends it
    assert len(world.followed) == 1
    world.plan(arrivals="trace", trace=str(tmp_path / "gone.csv"))
    assert "gone.csv" in told[-1][1]


def test_a_row_for_each_arrival_is_kept_where_the_director_says(world: World, tmp_path: Path) -> None:
    path = tmp_path / "a.samples"
    world.plan(samples=str(path))
    world.begin()
    world.generator.account.drop(5.0, 5.5)
    began, rows = read_rows(path)
    assert began > 0
    assert list(rows["scheduled"]) == [5.0]
    world.environment.events.test_stop.fire(environment=world.environment)
    world.generator.account.drop(6.0, 6.5)
    assert len(read_rows(path)[1]) == 1


def test_each_run_prepares_its_requests_anew(world: World, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("1,2\n")
    world.plan(data=str(rows))
    world.begin()
    assert b"[[1,2]]" in world.generator.requests[0].replace(b" ", b"").replace(b".0", b"")
    world.end()
    rows.write_text("3,4\n")
    world.plan(data=str(rows))
    world.begin()
    assert b"[[3,4]]" in world.generator.requests[0].replace(b" ", b"").replace(b".0", b"")
