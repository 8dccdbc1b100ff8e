"""The slowest requests: bounded, recent, and no stall hides the next."""

from service.records import RequestRecord
from service.slowest import KEPT_PER_SLICE, SLICE_SECONDS, SLICES, Slowest


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def ended(seconds: float, route: str = "/predict") -> RequestRecord:
    return RequestRecord(route, "ok", 200, seconds)


def test_each_slice_of_time_keeps_its_own() -> None:
    clock = Clock()
    kept = Slowest(clock)
    for _ in range(1000):
        kept.on_request(ended(9.0))
    clock.now += SLICE_SECONDS
    kept.on_request(ended(0.1))
    shown = kept.report(1000)
    assert len(shown) == KEPT_PER_SLICE + 1
    assert shown[-1]["total_ms"] == 100.0


def test_a_quicker_one_makes_room_for_a_slower_one() -> None:
    kept = Slowest(Clock())
    for milliseconds in range(1, 101):
        kept.on_request(ended(milliseconds / 1e3))
    for milliseconds in range(1, 101):
        kept.on_request(ended(milliseconds / 1e3))
    times = [entry["total_ms"] for entry in kept.report(100)]
    assert times == [float(ms) for ms in range(100, 90, -1) for _ in range(2)]


def test_old_ones_are_forgotten() -> None:
    clock = Clock()
    kept = Slowest(clock)
    kept.on_request(ended(9.0))
    clock.now += SLICES * SLICE_SECONDS + 1
    assert kept.report(10) == []


def test_only_inference_is_kept() -> None:
    kept = Slowest(Clock())
    kept.on_request(ended(9.0, "/healthz"))
    assert kept.report(10) == []


def test_it_never_grows_beyond_its_bound() -> None:
    clock = Clock()
    kept = Slowest(clock)
    for number in range(20_000):
        kept.on_request(ended(1.0 + number % 7))
        clock.now += 0.05
    assert len(kept.report(10**6)) <= SLICES * KEPT_PER_SLICE
