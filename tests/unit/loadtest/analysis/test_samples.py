"""Rows of arrivals: what is computed from them, and that none is lost from the count."""

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.analysis.samples import SAMPLE, SAMPLE_FORMAT, End, Samples, joined

NAN = math.nan
ONE_OF_EACH = Samples.of(
    [
        (0.0, 0.001, 0.011, End.OK, 0),
        (0.1, 0.1, 0.12, End.CLIENT_ERROR, 0),
        (0.2, 0.2, 0.23, End.SHED, 0),
        (0.3, 0.3, 0.34, End.FAILED, 1),
        (0.4, 0.4, 2.4, End.TIMED_OUT, 1),
        (0.5, 0.5, 0.51, End.CONNECTION, 1),
        (0.6, NAN, 0.605, End.DROPPED, 1),
        (0.7, 0.7, NAN, End.IN_FLIGHT, 1),
        (0.8, NAN, NAN, End.GAP, 2),
    ]
)


def test_only_an_ok_reply_has_a_total_time() -> None:
    assert ONE_OF_EACH.total_seconds.tolist() == [pytest.approx(0.011)] + [math.inf] * 8
    assert ONE_OF_EACH.success_seconds.tolist() == [pytest.approx(0.011)]


def test_service_time_counts_from_the_send_and_needs_a_reply() -> None:
    assert ONE_OF_EACH.service_seconds[:4].tolist() == pytest.approx([0.010, 0.020, 0.030, 0.040])
    assert np.isnan(ONE_OF_EACH.service_seconds[4:]).all()


def test_lateness_of_a_drop_is_when_it_was_dropped() -> None:
    lateness = ONE_OF_EACH.lateness_seconds
    assert lateness[:8].tolist() == pytest.approx([0.001, 0, 0, 0, 0, 0, 0.005, 0], abs=1e-12)
    assert math.isnan(lateness[8])


def test_counts_of_one_of_each() -> None:
    assert ONE_OF_EACH.counts() == {
        "offered": 9, "started": 7, "completed": 1, "failed": 5, "dropped": 2, "in_flight_at_end": 1,
    }  # fmt: skip


@given(st.lists(st.sampled_from(list(End)), max_size=60))
def test_every_arrival_is_in_exactly_one_count(ends: list[End]) -> None:
    counts = Samples.of((0.1 * i, NAN, NAN, end, 0) for i, end in enumerate(ends)).counts()
    assert counts["offered"] == len(ends)
    assert counts["offered"] == sum(counts[name] for name in ("completed", "failed", "dropped", "in_flight_at_end"))
    assert counts["started"] == counts["offered"] - counts["dropped"]


def test_a_span_takes_its_first_instant_and_leaves_its_last() -> None:
    assert ONE_OF_EACH.between(0.2, 0.5).scheduled.tolist() == [0.2, 0.3, 0.4]
    assert len(ONE_OF_EACH.between(5, 9)) == 0


def test_workers_rows_are_merged_by_instant() -> None:
    mine = np.array([(0.0, 0, 1, End.OK, 0), (2.0, 2, 3, End.OK, 0)], dtype=SAMPLE)
    theirs = np.array([(1.0, 1, 2, End.OK, 1), (3.0, 3, 4, End.OK, 1)], dtype=SAMPLE)
    assert joined([mine, theirs]).scheduled.tolist() == [0, 1, 2, 3]
    assert len(joined([])) == 0


def test_a_row_is_the_same_bytes_for_struct() -> None:
    row = struct.pack(SAMPLE_FORMAT, 1.5, 1.6, 1.7, End.SHED, 3)
    assert np.frombuffer(row, dtype=SAMPLE).tolist() == [(1.5, 1.6, 1.7, End.SHED, 3)]


def test_rows_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="expected rows of"):
        Samples(np.zeros(3))
