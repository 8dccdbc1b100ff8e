"""Histograms of the load generator, asserted by value."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.outcomes import outcome_of
from loadtest.recorder import MAX_NAMES, Histogram, Recorder

EDGES = (0.001, 0.05, 1.0)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, "ok"),
        (204, "ok"),
        (301, "failed"),
        (400, "client_error"),
        (404, "client_error"),
        (413, "client_error"),
        (429, "shed"),
        (500, "failed"),
        (503, "shed"),
        (504, "failed"),
    ],
)
def test_outcome_of_a_status(status: int, outcome: str) -> None:
    assert outcome_of(status) == outcome


def test_a_value_on_an_edge_counts_below_it() -> None:
    histogram = Histogram(EDGES)
    for value in (0.0, 0.001, 0.0011, 0.05, 0.0500001, 7.0):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1, 1]
    assert histogram.cumulative() == [2, 4, 5, 6]
    assert histogram.total == 6
    assert histogram.sum == pytest.approx(7.1021001)


def test_histograms_with_other_edges_are_refused() -> None:
    with pytest.raises(ValueError, match="2 buckets came; expected 4"):
        Histogram(EDGES).add([1, 2], 0.5)


def test_all_outcomes_of_a_name_exist_from_the_start() -> None:
    recorder = Recorder(EDGES, ("/predict",))
    assert set(recorder.totals) == {("/predict", each) for each in ("ok", "client_error", "shed", "failed")}
    assert set(recorder.services) == set(recorder.totals)


def test_total_and_service_time_are_kept_apart() -> None:
    recorder = Recorder(EDGES, ("/predict",))
    recorder.observe("/predict", "ok", 0.9, 0.02)
    assert recorder.totals["/predict", "ok"].counts == [0, 0, 1, 0]
    assert recorder.services["/predict", "ok"].counts == [0, 1, 0, 0]
    assert recorder.totals["/predict", "failed"].total == 0


def test_names_are_bounded() -> None:
    recorder = Recorder(EDGES)
    for index in range(1000):
        recorder.observe(f"/{index}", "ok", 0.1, 0.1)
    assert len({name for name, _ in recorder.totals}) == MAX_NAMES + 1
    assert recorder.totals["other", "ok"].total == 1000 - MAX_NAMES


observations = st.lists(
    st.tuples(st.sampled_from(["/a", "/b"]), st.sampled_from(["ok", "failed"]), st.floats(0, 3), st.floats(0, 3))
)


@settings(deadline=None)
@given(st.lists(observations, min_size=1, max_size=4))
def test_merged_workers_equal_one_pool(workers: list[list[tuple[str, str, float, float]]]) -> None:
    pool, merged = Recorder(EDGES, ("/a", "/b")), Recorder(EDGES, ("/a", "/b"))
    for mine in workers:
        worker = Recorder(EDGES)
        for name, outcome, total, service in mine:
            worker.observe(name, outcome, total, service)
            pool.observe(name, outcome, total, service)
            worker.lateness.observe(total)
            pool.lateness.observe(total)
        merged.add(worker.packed())
    for key, histogram in pool.totals.items():
        assert merged.totals[key].counts == histogram.counts
        assert merged.services[key].counts == pool.services[key].counts
        assert merged.totals[key].sum == pytest.approx(histogram.sum)
    assert merged.lateness.counts == pool.lateness.counts


def test_an_unknown_outcome_is_refused() -> None:
    packed = Recorder(EDGES, ("/a",)).packed()
    packed["requests"][0][1] = "great"
    with pytest.raises(ValueError, match="outcome 'great' came"):
        Recorder(EDGES).add(packed)


def test_a_run_has_its_own_latencies_to_three_digits() -> None:
    recorder = Recorder(EDGES, ("/predict",))
    recorder.dispatched(0.5)
    recorder.observe("/predict", "ok", 9.0, 9.0)
    number = recorder.run.number
    recorder.begin_run()
    assert recorder.run.number == number + 1
    recorder.dispatched(0.001)
    recorder.observe("/predict", "ok", 0.0123, 0.0113)
    recorder.observe("/predict", "shed", 0.002, 0.001)
    recorder.observe("/predict", "failed", 2.0, 2.0, replied=False)
    assert recorder.run.total.quantile(1.0) == pytest.approx(0.0123, rel=0.001)
    assert (recorder.run.total.observed, recorder.run.service.observed) == (1, 2)
    assert recorder.run.lateness.max == 0.001
    assert recorder.run.outcomes == {"ok": 1, "client_error": 0, "shed": 1, "failed": 1}
    assert recorder.lateness.total == 2  # Prometheus's only grow
