"""User classes that people bring, under the schedule: the real Locust with a file of one's own beside Tailboard's."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Locust = Callable[..., Any]
Identity = Callable[[dict[str, Any]], None]

# No super().on_start(), a pause that would stop everything if it were taken, tasks by weight and in nested sequence.
OWN = '''
import gevent
from locust import FastHttpUser, HttpUser, SequentialTaskSet, User, constant, task
from loadtest.scheduled import OnSchedule


class Http(OnSchedule, HttpUser):
    wait_time = constant(600)

    def on_start(self):
        self.client.post("/hello", json={})

    @task(3)
    def two_requests(self):
        gevent.sleep(0.2)  # as if the process had been busy: the first request leaves late
        self.client.post("/first", json={})
        self.client.post("/second", json={})

    @task
    class Steps(SequentialTaskSet):
        wait_time = constant(600)

        @task
        def step(self):
            self.client.post("/step", json={})

        @task
        def last_step(self):
            self.client.post("/last-step", json={})
            self.interrupt()


class Fast(OnSchedule, FastHttpUser):
    wait_time = constant(600)
    tasks = Http.tasks

    def on_start(self):
        self.client.post("/hello", json={})


class Plain(OnSchedule, User):
    """No client at all: fires the event itself, and one task in two raises."""

    @task
    def call(self):
        self.environment.events.request.fire(
            request_type="CALL", name="call", response_time=50, response_length=0, exception=None, context={}
        )

    @task
    def breaks(self):
        raise KeyError("the rows are missing")
'''


@pytest.fixture
def files(tmp_path: Path) -> str:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return f"loadtest/locustfile.py,{path}"


def by_name(stats: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry for entry in stats["stats"]}


@pytest.mark.parametrize("name", ["Http", "Fast"])
def test_one_arrival_is_one_task_whatever_the_client(
    locust: Locust, server: Any, files: str, identity: Identity, name: str
) -> None:
    with locust("-f", files, name) as run:
        run.swarm(arrivals="constant", rate=40, user_count=30)
        run.wait(lambda now: now["run"]["completed"] >= 80, 20)
        assert run.load()["run"]["dropped"] == 0
        server.hold_until = server.arrivals[-1] + 1.0
        run.stop()  # gracefully: tasks under way may end
        account = run.load()
        stats = by_name(run.stats())
    identity(account)
    assert (account["failed"], account["unfinished"], account["in_flight"]) == (0, 0, 0)
    first, second = stats["/first"]["num_requests"], stats["/second"]["num_requests"]
    steps = stats["/step"]["num_requests"] + stats["/last-step"]["num_requests"]
    assert first == second
    assert first + steps == account["completed"] == account["offered"]  # the schedule's doing, not the pause's
    assert first > stats["/step"]["num_requests"] > 0  # three to one by weight
    assert stats["/hello"]["num_requests"] == 30  # each user's own on_start ran
    assert stats["/first"]["min_response_time"] >= 200  # from the scheduled instant
    assert stats["/second"]["min_response_time"] < 100
    assert account["latency_seconds"]["p95"] >= 0.2


def test_a_task_that_raises_is_a_failed_arrival(locust: Locust, server: Any, files: str, identity: Identity) -> None:
    with locust("-f", files, "Plain") as run:
        run.swarm(arrivals="constant", rate=40)
        run.wait(lambda now: now["run"]["completed"] >= 20 and now["run"]["failed"] >= 20, 20)
        run.stop()
        account = run.load()
        calls = by_name(run.stats())["call"]["num_requests"]
    identity(account)
    assert account["completed"] == calls
    assert account["dropped"] == account["unfinished"] == 0
    assert server.arrivals == []


def test_the_example_runs_as_its_docstring_says(locust: Locust, server: Any, identity: Identity) -> None:
    """The server's replies hold one prediction, so that the example's own check of sixteen must fail."""
    with locust("-f", "loadtest/locustfile.py,loadtest/scenarios/own_user.py", "Client", "--rate", "80") as run:
        run.swarm()
        run.wait(lambda now: now["run"]["failed"] >= 3 and now["run"]["completed"] >= 60, 30)
        run.stop()
        account = run.load()
        stats = by_name(run.stats())
    identity(account)
    assert {"/predict", "/predict of 16", "/readyz"} <= set(stats)
    assert account["failed"] == stats["/predict of 16"]["num_requests"] == stats["/predict of 16"]["num_failures"]
    assert account["offered"] == len(server.arrivals)


def test_without_the_schedule_a_sentence_says_where_it_comes_from(
    root: Path, locust_command: list[str], server: Any, files: str
) -> None:
    own = files.split(",")[1]
    target = ["-H", f"http://127.0.0.1:{server.port}", "--headless", "-u", "1", "-t", "20s"]
    done = subprocess.run(
        [locust_command[0], "-f", own, "Fast", *target],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Fast waits for a schedule and there is none; expected `locust -f loadtest/locustfile.py," in done.stderr
    assert server.arrivals == []
