"""Real model workers: started, killed, frozen, refused, left alone by their parent."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from service.batching.batcher import Batcher
from service.batching.errors import DeadlinePassed, ModelDown, ModelFailed
from service.batching.policy import Knobs
from service.batching.records import Runner, Ticket
from service.models import ModelError, load, parse_model
from service.models.process import start_runners

ROOT = Path(__file__).resolve().parents[4]
SYNTHETIC = "synthetic?fixed_seconds=0.002&per_row_seconds=0&features=4"
GROUP = ("predict", "float64", 4)
PATIENCE = 120.0  # seconds; a busy machine imports scikit-learn slowly


def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def children() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if "service.models.worker" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def workers() -> list[psutil.Process]:
    """Those that run batches or would: all but the template."""
    return [process for process in children() if process.name() == "model-worker"]


class Started:
    def __init__(self, model: str, cache_dir: Path, workers: int, **options: Any) -> None:
        self.restarts = 0
        self.info, self.runners = start_runners(parse_model(model), cache_dir, False, workers, self.count, **options)
        self.extra: list[Callable[[], None]] = []

    def count(self) -> None:
        self.restarts += 1

    def pid(self, number: int = 0) -> int:
        runner: Any = self.runners[number]
        assert runner.pid
        return int(runner.pid)

    def close(self) -> None:
        for close in self.extra:
            close()
        for runner in self.runners:
            runner.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    started: list[Started] = []

    def begin(model: str = SYNTHETIC, workers: int = 1, **options: Any) -> Started:
        started.append(Started(model, tmp_path, workers, **options))
        return started[-1]

    yield begin
    for one in started:
        one.close()
    assert not children(), "a model worker was left behind"


def batcher_on(started: Started, deliver: Callable[[Any], None], runners: list[Runner] | None = None) -> Batcher:
    batcher = Batcher(runners or started.runners, Knobs("adaptive", 128, 0.005), 1024, deliver, lambda record: None)
    batcher.teach(started.info.cost_samples)
    batcher.start()
    started.extra.append(batcher.close)
    return batcher


def wake(tickets: Any) -> None:
    for ticket in tickets:
        ticket.context.set()


def ask(batcher: Batcher, rows: Any, group: Any = GROUP, timeout: float = 30.0) -> Ticket:
    ticket = Ticket(rows, group, time.monotonic() + timeout, threading.Event())
    batcher.submit(ticket)
    return ticket


def test_rows_there_and_back(start: Callable[..., Started]) -> None:
    started = start()
    assert (started.info.name, started.info.features, started.info.runtime) == ("synthetic", 4, "synthetic")
    assert [rows for rows, _ in started.info.cost_samples] == [1] * 10 + [32] * 10
    parts = [np.full((rows, 4), float(rows)) for rows in (1, 5, 3)]
    result, seconds = started.runners[0].run(GROUP, parts)
    assert list(result) == [4.0] * 1 + [20.0] * 5 + [12.0] * 3  # type: ignore[call-overload]
    assert 0.002 <= seconds < 0.1
    big = np.random.default_rng(0).normal(size=(50_000, 4))  # more than any socket buffer
    np.testing.assert_allclose(started.runners[0].run(GROUP, [big])[0], big.sum(axis=1))  # type: ignore[arg-type]


def test_64_callers_at_once_get_what_the_bare_model_says(start: Callable[..., Started], tmp_path: Path) -> None:
    started = start("digits?trees=30")
    bare = load(parse_model("digits?trees=30"), tmp_path, False)
    rows = np.random.default_rng(0).integers(0, 17, (64 * 8, 64)).astype(float)
    batcher = batcher_on(started, wake)
    barrier = threading.Barrier(64)
    answers: dict[int, list[Any]] = {}

    def call(number: int) -> None:
        barrier.wait()
        mine = rows[8 * number : 8 * number + 8]
        sizes = [1, 2, 5]
        got: list[Any] = []
        at = 0
        for size in sizes:
            for method in ("predict", "predict_proba"):
                ticket = ask(batcher, mine[at : at + size], (method, "float64", 64))
                ticket.context.wait(PATIENCE)
                assert ticket.error is None
                got.append(ticket.result)
            at += size
        answers[number] = got

    threads = [threading.Thread(target=call, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(64):
        at = 8 * number
        for position, size in enumerate([1, 2, 5]):
            for shift, method in enumerate(("predict", "predict_proba")):
                expected = bare.run(method, rows[at : at + size])
                np.testing.assert_array_equal(answers[number][2 * position + shift], expected)
            at += size
    assert batcher.depth_rows == 0
    assert batcher.drain(1.0)


def test_a_worker_killed_under_load_takes_at_most_its_batch_along(start: Callable[..., Started]) -> None:
    started = start()
    until(lambda: len(children()) == 3)  # the template, the worker, the spare
    batcher = batcher_on(started, wake)
    stop = threading.Event()
    outcomes: list[tuple[float, type | None, int]] = []

    def client(number: int) -> None:
        row = np.full((1, 4), float(number))
        while not stop.is_set():
            ticket = ask(batcher, row)
            ticket.context.wait(PATIENCE)
            if ticket.error is None:
                assert float(ticket.result[0]) == 4.0 * number  # type: ignore[index]
            outcomes.append((time.monotonic(), type(ticket.error) if ticket.error else None, ticket.batch_rows))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    until(lambda: len(outcomes) > 200)
    victim = started.pid()
    spare_ready = lambda: len(started.runners[0]._pool._spares) == 1  # type: ignore[attr-defined]  # noqa: E731
    until(spare_ready)
    os.kill(victim, signal.SIGKILL)
    until(lambda: started.restarts == 1)
    after = len(outcomes)
    until(lambda: len(outcomes) > after + 200)
    stop.set()
    for thread in threads:
        thread.join()
    failed = [kind for _, kind, _ in outcomes if kind is not None]
    assert set(failed) <= {ModelDown}
    assert len(failed) <= 16  # one batch of as many callers as there are
    assert started.pid() != victim
    until(lambda: len(children()) == 3)  # a new spare
    assert batcher.healthy
    assert batcher.depth_rows == 0


def test_a_worker_that_died_while_idle_costs_no_request(start: Callable[..., Started]) -> None:
    started = start()
    until(lambda: len(started.runners[0]._pool._spares) == 1)  # type: ignore[attr-defined]
    os.kill(started.pid(), signal.SIGKILL)
    until(lambda: started.restarts == 1)
    result, _ = started.runners[0].run(GROUP, [np.ones((2, 4))])
    assert list(result) == [4.0, 4.0]  # type: ignore[call-overload]


def test_a_hung_worker_is_killed_and_replaced(start: Callable[..., Started]) -> None:
    started = start(hang_limit_seconds=0.5)
    until(lambda: len(started.runners[0]._pool._spares) == 1)  # type: ignore[attr-defined]
    victim = started.pid()
    os.kill(victim, signal.SIGSTOP)
    with pytest.raises(ModelDown, match=r"did not answer within 0\.5 s and was killed"):
        started.runners[0].run(GROUP, [np.ones((1, 4))])
    started.runners[0].ready()
    assert list(started.runners[0].run(GROUP, [np.ones((1, 4))])[0]) == [4.0]  # type: ignore[call-overload]
    until(lambda: started.restarts == 1)
    assert not psutil.pid_exists(victim)


def test_deadlines_are_kept_while_every_worker_hangs(start: Callable[..., Started]) -> None:
    started = start(hang_limit_seconds=60.0)
    batcher = batcher_on(started, wake)
    os.kill(started.pid(), signal.SIGSTOP)
    begun = time.monotonic()
    tickets = [ask(batcher, np.ones((1, 4)), timeout=0.4) for _ in range(5)]
    for ticket in tickets:
        assert ticket.context.wait(5.0)
        assert isinstance(ticket.error, DeadlinePassed)
    assert 0.4 <= time.monotonic() - begun < 2.0
    assert batcher.depth_rows == 0


def test_a_dead_spare_is_replaced_and_not_counted(start: Callable[..., Started]) -> None:
    started = start()
    until(lambda: len(started.runners[0]._pool._spares) == 1)  # type: ignore[attr-defined]
    (spare,) = [process.pid for process in workers() if process.pid != started.pid()]
    os.kill(spare, signal.SIGKILL)
    until(lambda: spare not in [p.pid for p in children()] and len(started.runners[0]._pool._spares) == 1)  # type: ignore[attr-defined]
    assert started.restarts == 0


def test_a_models_own_error_is_told_and_the_worker_lives(start: Callable[..., Started]) -> None:
    started = start("digits?trees=3")
    pid = started.pid()
    rows = np.zeros((2, 64))
    rows[1, 5] = 1e300
    with pytest.raises(ModelFailed, match="too large for a 32-bit float"):
        started.runners[0].run(("predict", "float64", 64), [rows])
    assert len(started.runners[0].run(("predict", "float64", 64), [rows[:1]])[0]) == 1
    assert started.pid() == pid


def test_one_bad_row_among_64_callers_fails_only_its_caller(start: Callable[..., Started]) -> None:
    started = start("digits?trees=3")
    batcher = batcher_on(started, wake)
    batcher.knobs = Knobs("fixed", 64, 5.0)
    good = np.zeros((1, 64))
    bad = np.full((1, 64), 1e300)
    tickets = [ask(batcher, bad if number == 40 else good, ("predict", "float64", 64)) for number in range(64)]
    for ticket in tickets:
        assert ticket.context.wait(PATIENCE)
    assert [number for number, ticket in enumerate(tickets) if ticket.error] == [40]
    assert isinstance(tickets[40].error, ModelFailed)


def test_workers_share_the_load(start: Callable[..., Started]) -> None:
    started = start("synthetic?fixed_seconds=0.2&features=4", workers=2)
    batcher = batcher_on(started, wake)
    batcher.knobs = Knobs("fixed", 1, 0.0)
    begun = time.monotonic()
    for ticket in [ask(batcher, np.ones((1, 4))) for _ in range(2)]:
        ticket.context.wait(PATIENCE)
    assert time.monotonic() - begun < 0.39  # in turn they would take 0.4 s
    assert started.pid(0) != started.pid(1)


def test_ctrl_c_and_sigterm_are_the_parents_business(start: Callable[..., Started]) -> None:
    started = start()
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(started.pid(), number)
    assert list(started.runners[0].run(GROUP, [np.ones((1, 4))])[0]) == [4.0]  # type: ignore[call-overload]
    assert os.getpgid(started.pid()) != os.getpgid(0)
    assert started.restarts == 0


def test_closing_ends_every_child_even_in_the_middle_of_a_batch(start: Callable[..., Started]) -> None:
    started = start("synthetic?fixed_seconds=4&features=4")
    failures: list[BaseException] = []

    def run() -> None:
        try:
            started.runners[0].run(GROUP, [np.ones((1, 4))])
        except ModelDown as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.2)
    begun = time.monotonic()
    started.close()
    thread.join(10)
    assert time.monotonic() - begun < 3.0
    assert len(failures) == 1
    assert not children()
    started.close()  # again: harmless
    started.runners[0].ready()  # returns though there is no worker any more


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing.skops", "there is no model file"),
        ("broken.onnx", "cannot be read as an ONNX model"),
        ("broken.joblib", "SERVICE_ALLOW_PICKLE=true"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_one_sentence(
    start: Callable[..., Started], tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, says: str
) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    (tmp_path / "broken.joblib").write_bytes(b"not a model")
    with pytest.raises(ModelError) as refusal:
        start(str(tmp_path / name))
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert capfd.readouterr().err == ""
    assert not children()


PARENT = """
import sys, time
from pathlib import Path
from service.models import parse_model
from service.models.process import start_runners
info, runners = start_runners(parse_model(sys.argv[1]), Path(sys.argv[2]), False, 1, lambda: None)
assert not {"sklearn", "skops", "onnxruntime", "scipy"} & set(sys.modules), "the parent loaded a model library"
print(runners[0].pid, flush=True)
runners[0].run(("predict", "float64", info.features), [__import__("numpy").zeros((1, info.features))])
time.sleep(60)
"""


@pytest.mark.parametrize("model", ["digits?trees=3", "synthetic?fixed_seconds=4"])
def test_children_die_with_a_killed_parent(tmp_path: Path, model: str) -> None:
    """Idle, and in the middle of a batch that would go on for long. The parent has loaded no model library."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, model, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    family = psutil.Process(parent.pid).children(recursive=True)
    assert pid in [process.pid for process in family]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    gone, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
    assert len(gone) == len(family)


def test_in_process_without_workers(start: Callable[..., Started]) -> None:
    started = start("digits?trees=3", workers=0)
    assert not children()
    batcher = batcher_on(started, wake)
    ticket = ask(batcher, np.zeros((2, 64)), ("predict_proba", "float64", 64))
    assert ticket.context.wait(PATIENCE)
    assert np.shape(ticket.result) == (2, 10)  # type: ignore[arg-type]
    with pytest.raises(ModelFailed, match="too large"):
        started.runners[0].run(("predict", "float64", 64), [np.full((1, 64), 1e300)])
