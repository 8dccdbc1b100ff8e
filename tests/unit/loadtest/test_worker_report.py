"""Reports of workers and their sum, and the metrics made of them, by value."""

import math

import msgpack
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from loadtest.account import Account
from loadtest.analysis.samples import End
from loadtest.metrics import registry
from loadtest.recorder import Recorder
from loadtest.worker_report import FRESH_SECONDS, Report, WorkerReports
from slo import names
from slo.buckets import duration_edges

EDGES = duration_edges(0.05)


def busy_report(now: float = 10.0) -> Report:
    """3 offered: one done in 40 ms (20 of them waiting to be sent), one in flight since 9.5, one dropped."""
    account, recorder = Account(), Recorder(EDGES, ("/predict",))
    done = account.start(9.0)
    account.start(9.5)
    account.drop(1.0, 1.0)
    account.finish(done, End.OK)
    recorder.begin_run()
    recorder.dispatched(0.02)
    recorder.observe("/predict", "ok", 0.04, 0.02)
    return Report.of(account, recorder, rate=30.0, now=now)


def exported(report: Report) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = generate_latest(registry(lambda: report)).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_report_as_json() -> None:
    assert busy_report().as_json() == {
        "offered": 3,
        "started": 2,
        "dropped": 1,
        "completed": 1,
        "failed": 0,
        "unfinished": 0,
        "in_flight": 1,
        "oldest_in_flight_seconds": 0.5,
        "target_rate": 30.0,
    }


def test_metrics_by_value() -> None:
    values = exported(busy_report())
    ok = (("name", "/predict"), ("outcome", "ok"))

    def bucket(metric: str, le: str) -> float:
        return values[metric + "_bucket", (("le", le), *ok)]

    assert bucket(names.LOADGEN_REQUEST_DURATION, "0.032") == 0
    assert bucket(names.LOADGEN_REQUEST_DURATION, "0.04") == 1
    assert bucket(names.LOADGEN_REQUEST_DURATION, "0.05") == 1  # the SLO's edge
    assert bucket(names.LOADGEN_SERVICE_DURATION, "0.02") == 1
    assert values[names.LOADGEN_REQUEST_DURATION + "_sum", ok] == pytest.approx(0.04)
    assert values[names.LOADGEN_DISPATCH_LATENESS + "_bucket", (("le", "0.02"),)] == 1
    assert values[names.LOADGEN_DISPATCH_LATENESS + "_count", ()] == 1
    assert {state: values[names.LOADGEN_ARRIVALS, (("state", state),)] for state in names.ARRIVAL_STATES} == {
        "offered": 3,
        "started": 2,
        "dropped": 1,
    }
    assert values[names.LOADGEN_IN_FLIGHT, ()] == 1
    assert values[names.LOADGEN_OLDEST_IN_FLIGHT, ()] == 0.5
    assert values[names.LOADGEN_TARGET_RATE, ()] == 30


def test_all_children_exist_before_the_first_request_and_nothing_else_does() -> None:
    values = exported(Report(Recorder(EDGES, ("/predict",))))
    assert set(values.values()) == {0.0}
    outcomes = {dict(labels)["outcome"] for name, labels in values if name == "loadgen_request_duration_seconds_count"}
    assert outcomes == set(names.OUTCOMES)
    families = {name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") for name, _ in values}
    assert families == {value for key, value in vars(names).items() if key.startswith("LOADGEN_")}


def test_the_master_adds_up_its_workers() -> None:
    clock = [0.0]
    workers = WorkerReports(EDGES, ("/predict",), lambda: clock[0])
    workers.receive("a", busy_report(now=10.0).packed())
    workers.receive("b", busy_report(now=11.0).packed())
    whole = workers.sum()
    assert whole.counts["offered"] == 6
    assert (whole.in_flight, whole.oldest_seconds, whole.rate) == (2, 1.5, 60)
    assert whole.recorder.totals["/predict", "ok"].total == 2
    assert whole.recorder.lateness.total == 2


def test_a_report_that_comes_twice_or_is_lost_changes_nothing() -> None:
    workers = WorkerReports(EDGES, ("/predict",), lambda: 0.0)
    for _ in range(3):
        workers.receive("a", busy_report().packed())
    assert workers.sum().counts["offered"] == 3


def test_a_silent_worker_keeps_its_counts_but_has_no_load_any_more() -> None:
    clock = [0.0]
    workers = WorkerReports(EDGES, ("/predict",), lambda: clock[0])
    workers.receive("dead", busy_report().packed())
    clock[0] = FRESH_SECONDS + 1
    workers.receive("alive", busy_report().packed())
    whole = workers.sum()
    assert whole.counts["offered"] == 6
    assert (whole.in_flight, whole.rate) == (1, 30)


def test_a_report_travels_as_locust_sends_it() -> None:
    workers = WorkerReports(EDGES, ("/predict",), lambda: 0.0)
    workers.receive("a", msgpack.loads(msgpack.dumps(busy_report().packed())))
    assert exported(workers.sum()) == exported(busy_report())


def test_the_figures_of_a_run_are_over_all_its_arrivals() -> None:
    run = busy_report().run
    assert run.counts == {"offered": 3, "started": 2, "dropped": 1, "completed": 1, "failed": 0, "unfinished": 0}
    assert (run.total.total, run.total.lost, run.total.max) == (2, 1, math.inf)  # the one in flight has not ended
    assert run.total.quantile(0.5) == pytest.approx(0.04, rel=0.001)
    assert run.service.max == run.lateness.max == 0.02
    assert busy_report().ages.max == 0.5


def test_a_run_begins_with_nothing() -> None:
    account, recorder = Account(), Recorder(EDGES, ("/predict",))
    account.drop(1.0, 1.0)
    recorder.observe("/predict", "ok", 9.0, 9.0)
    recorder.begin_run()
    before = account.counts()
    account.finish(account.start(2.0), End.CONNECTION)
    account.cut_short(account.start(2.0))
    recorder.observe("/predict", "failed", 1.0, 1.0, replied=False)
    run = Report.of(account, recorder, 0.0, 3.0, before).run
    assert (run.counts["offered"], run.counts["dropped"], run.counts["failed"], run.counts["unfinished"]) == (
        2,
        0,
        1,
        1,
    )
    assert (run.total.total, run.total.lost) == (2, 2)
    assert run.service.total == 0  # what got no reply has no service time
    assert recorder.totals["/predict", "ok"].total == 1  # while Prometheus's counts only grow


def test_workers_add_up_the_figures_of_a_run() -> None:
    workers = WorkerReports(EDGES, ("/predict",), lambda: 0.0)
    for name, share in (("a", 0.2), ("b", 0.7), ("c", 0.1)):
        workers.receive(name, {**busy_report().packed(), "cpu_share": share})
    whole = workers.sum()
    assert (whole.run.total.total, whole.run.total.lost, whole.run.service.total) == (6, 3, 3)
    assert whole.run.counts["offered"] == 9
    assert whole.run.outcomes == {"ok": 3, "client_error": 0, "shed": 0, "failed": 0}
    assert whole.ages.total == 3
    assert whole.cpu_share == 0.7  # the busiest decides


def test_reports_of_the_run_before_say_nothing_about_this_one() -> None:
    """Workers hear of a start a little later than the master, and until then tell the old story."""
    workers = WorkerReports(EDGES, ("/predict",), lambda: 0.0)
    old = busy_report().packed()
    workers.receive("a", old)
    workers.begin_run()
    workers.receive("a", old)
    assert workers.sum().run.counts["offered"] == 0
    assert workers.sum().counts["offered"] == 3  # which counts all runs
    workers.receive("a", {**old, "run": {**old["run"], "number": old["run"]["number"] + 1}})
    workers.receive("joined later", old)
    assert workers.sum().run.counts["offered"] == 6


def test_a_worker_that_falls_silent_under_load_is_lost_one_that_had_none_is_not() -> None:
    clock = [0.0]
    workers = WorkerReports(EDGES, ("/predict",), lambda: clock[0])
    workers.receive("killed", busy_report().packed())
    workers.receive("gone home", {**busy_report().packed(), "rate": 0.0})
    assert workers.sum().workers_lost == 0
    clock[0] = FRESH_SECONDS + 1
    assert workers.sum().workers_lost == 1
    workers.begin_run()
    assert workers.sum().workers_lost == 0  # that was another run


def test_the_gap_of_a_lost_worker_counts_as_dropped_and_what_it_had_in_flight_as_unfinished() -> None:
    now = [100.0]
    workers = WorkerReports(EDGES, (), lambda: now[0])
    workers.begin_run()
    account = Account()
    account.start(99.0)
    for _ in range(9):
        account.finish(account.start(99.0), End.OK)
    recorder = Recorder(EDGES)
    recorder.begin_run()
    packed = Report.of(account, recorder, 50.0, 100.0).packed()
    workers.receive("a", packed)
    now[0] = 104.0
    workers.lose("a")
    for _ in range(2):  # however often one looks, and however late
        whole = workers.sum()
        for counts in (whole.counts, whole.run.counts):
            assert counts["offered"] == 10 + 200
            assert counts["dropped"] == 200
            assert (counts["started"], counts["completed"], counts["unfinished"]) == (10, 9, 1)
        assert whole.in_flight == 0
        assert whole.rate == 0
        assert whole.workers_lost == 1
        assert whole.run.total.lost == 201
        now[0] = 500.0
    workers.begin_run()  # the next run has not lost it
    whole = workers.sum()
    assert whole.counts["dropped"] == 200
    assert whole.run.counts["dropped"] == whole.run.total.lost == whole.workers_lost == 0
    workers.receive("a", packed)  # it was only silent
    assert workers.sum().counts["dropped"] == 0
