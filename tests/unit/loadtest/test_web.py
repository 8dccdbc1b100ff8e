"""The form and the edits, with a stand-in for Locust's web app and runner."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Blueprint, Flask, Response, jsonify, request
from flask.testing import FlaskClient

from loadtest.account import COUNTS
from loadtest.analysis.verdict import Objective
from loadtest.director import Director
from loadtest.live import as_json
from loadtest.recorder import Recorder
from loadtest.settings import LoadSettings
from loadtest.web import attach
from loadtest.worker_report import Report

SLO = Objective(0.05, 0.99)


class FakeRunner:
    """What the director uses of Locust's runners: a local one, or with `clients` a master."""

    def __init__(self, clients: dict[str, str] | None = None) -> None:
        self.state = "ready"
        self.target_user_count = 0
        self.sent: list[tuple[str | None, dict[str, Any]]] = []
        if clients is not None:
            self.clients = {name: SimpleNamespace(id=name, state=state) for name, state in clients.items()}

    def send_message(self, kind: str, data: dict[str, Any], client_id: str | None = None) -> None:
        assert kind == "load_plan"
        self.sent.append((client_id, data))


class World:
    def __init__(self, runner: FakeRunner, **values: Any) -> None:
        """`values` are settings of the command line."""
        self.runner = runner
        self.swarms: list[dict[str, list[str]]] = []
        options = SimpleNamespace(stop_timeout=0, num_users=None, **{**LoadSettings().as_dict(), **values})
        self.options = options
        listeners = SimpleNamespace(add_listener=lambda listener: None)
        self.environment = SimpleNamespace(
            runner=runner,
            parsed_options=options,
            host="http://127.0.0.1:1",
            stop_timeout=0,
            user_classes=[type("OpenLoopUser", (), {})],
            events=SimpleNamespace(test_start=listeners),
        )
        self.report = Report(Recorder((0.1,)))
        self.director = Director(self.environment)
        self.app = Flask("stand_in", root_path=".")
        locust = Blueprint("locust", "stand_in", root_path=".")

        @locust.route("/")
        def index() -> str:
            return "<html><body><div id='root'></div></body></html>"

        @locust.route("/swarm", methods=["POST"])
        def swarm() -> Response:
            self.swarms.append(request.form.to_dict(flat=False))
            for name, value in request.form.items():
                if hasattr(options, name):
                    setattr(options, name, type(getattr(options, name))(value))
            return jsonify({"success": True})

        attach(self.app, self.environment, self.director, lambda: self.report, SLO, "OpenLoopUser")
        self.app.register_blueprint(locust)


@pytest.fixture
def world() -> World:
    return World(FakeRunner())


@pytest.fixture
def client(world: World) -> Iterator[FlaskClient]:
    with world.app.test_client() as client:
        yield client


def test_a_bad_form_is_refused_before_locust_sees_it(world: World, client: FlaskClient) -> None:
    reply = client.post("/swarm", data={"rate": "-5", "seed": "3"})
    assert reply.status_code == 200  # Locust's form shows the message of no other
    assert reply.get_json()["success"] is False
    assert reply.get_json()["message"].startswith("rate is '-5'; expected a number above 0")
    assert world.swarms == []
    assert world.options.seed == 1  # nothing half-set either


def test_locusts_own_options_are_no_fields_of_the_form(world: World, client: FlaskClient) -> None:
    """Locust would let a form set any of them, those that name files to write among them."""
    reply = client.post("/swarm", data={"rate": "5", "stop_timeout": "100"})
    assert "stop_timeout is no field of this form" in reply.get_json()["message"]
    assert world.options.stop_timeout == 0
    assert world.swarms == []


def test_a_start_is_completed_and_left_to_locust(world: World, client: FlaskClient) -> None:
    assert client.post("/swarm", data={"rate": "50"}).get_json()["success"]
    assert world.swarms == [
        {"rate": ["50.0"], "user_count": ["120"], "spawn_rate": ["120.0"], "user_classes": ["OpenLoopUser"]}
    ]
    assert world.runner.sent == []  # the run's start hands the plan out


def test_an_edit_reaches_the_worker_at_once(world: World, client: FlaskClient) -> None:
    world.runner.state = "running"
    client.post("/swarm", data={"rate": "70", "timeout_seconds": "3"})
    ((worker, plan),) = world.runner.sent
    assert (worker, plan["index"], plan["workers"]) == ("local", 0, 1)
    assert plan["settings"] == LoadSettings().with_values({"rate": 70, "timeout_seconds": 3}).as_dict()
    assert world.environment.stop_timeout == 4  # requests under way may end


def test_an_edit_at_the_master_gives_every_present_worker_its_share() -> None:
    """One that has connected and not reported has no generator yet: it would lose its share without a word."""
    world = World(FakeRunner({"b": "running", "a": "spawning", "gone": "missing", "new": "ready", "early": "ready"}))
    world.director.heard.update({"a", "b", "gone", "new"})
    world.runner.state = "running"
    world.app.test_client().post("/swarm", data={"rate": "70"})
    assert [(worker, plan["index"], plan["workers"]) for worker, plan in world.runner.sent] == [
        ("a", 0, 3),
        ("b", 1, 3),
        ("new", 2, 3),
    ]


def test_a_file_of_the_command_line_can_be_chosen_again_and_no_other() -> None:
    world = World(FakeRunner(), data="mine.npy")
    world.options.data = ""  # meanwhile somebody went back to the built-in rows
    client = world.app.test_client()
    assert client.post("/swarm", data={"data": "mine.npy"}).get_json()["success"]
    refused = client.post("/swarm", data={"data": "../secret.npy"}).get_json()
    assert (refused["success"], refused["message"][:24]) == (False, "data is '../secret.npy';")


def test_a_refused_edit_reaches_nobody(world: World, client: FlaskClient) -> None:
    world.runner.state = "running"
    client.post("/swarm", data={"rate": "0"})
    assert world.runner.sent == []


def test_the_page_shows_values_in_force_and_what_users_mean(world: World, client: FlaskClient) -> None:
    world.options.rate = 777.0
    page = client.get("/").get_data(as_text=True)
    assert '"rate": 777.0' in page
    assert "cap on requests in flight" in page
    assert page.rstrip().endswith("</body></html>")


def test_the_figures_of_the_run_as_json(world: World, client: FlaskClient) -> None:
    world.report.counts = dict(zip(COUNTS, (15, 13, 2, 11, 1, 0), strict=True))
    world.report.run.counts = dict(zip(COUNTS, (5, 4, 1, 3, 0, 0), strict=True))
    world.report.run.total.observe(0.04)
    world.report.in_flight = 1
    said = client.get("/load").get_json()
    assert said["run"] == dict(zip(COUNTS, (5, 4, 1, 3, 0, 0), strict=True))
    assert (said["offered"], said["in_flight"]) == (15, 1)
    assert said["latency_seconds"]["max"] == 0.04
    assert said["verdict"] == "TOO EARLY"
    assert said["slo"]["threshold_seconds"] == SLO.threshold_seconds
    assert client.post("/swarm", data={"slo_threshold_seconds": "0.02"}).get_json()["success"]
    assert client.get("/load").get_json()["slo"]["threshold_seconds"] == 0.02


def test_every_figure_of_the_tab_is_one_that_the_script_tells(root: Path) -> None:
    """A name in the page that the script does not know would stay empty, or say "undefined"."""
    page, script = ((root / "loadtest/page" / name).read_text() for name in ("open_loop.html", "open_loop.js"))
    told = set(re.findall(r"\b([a-z_]+)\b(?=[:,])", script))
    wanted = set(re.findall(r'data-(?:text|bad|label|width)="([a-z_]+)"', page))
    assert len(wanted) > 15
    assert wanted <= told
    assert set(re.findall(r'data-row="([a-z_]+)"', page)) <= set(as_json(Report(Recorder(())), SLO))


def test_locust_itself_stays_out_of_this_process() -> None:
    """Importing it patches the whole process for gevent, and every other test with it."""
    assert "locust" not in sys.modules
