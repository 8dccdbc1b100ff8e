"""The real Locust against a server that counts for itself: arrivals keep their schedule whatever the server does."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

from loadtest.arrivals import Plan, Schedule, constant

Locust = Callable[..., Any]
Identity = Callable[[dict[str, Any]], None]

HISTOGRAM = "loadgen_request_duration_seconds"


def quantile(metrics: dict[str, float], q: float) -> float:
    """Upper edge of the bucket with that quantile, over all outcomes."""
    counts: dict[float, float] = {}
    for key, value in metrics.items():
        if key.startswith(HISTOGRAM + "_bucket"):
            edge = float(key.split('le="')[1].split('"')[0].replace("+Inf", "inf"))
            counts[edge] = counts.get(edge, 0) + value
    total = counts[float("inf")]
    return next(edge for edge, count in sorted(counts.items()) if count >= q * total)


def pace(times: list[float], rate: float) -> float:
    """Arrivals per second at which an evenly spaced schedule ran, judged by the server's own clock.

    A request is seen at its instant or, on a busy machine, later; so the least late of the first third and of the
    last third are compared with the schedule, and not the first and the last.
    """
    third = len(times) // 3
    behind = [at - index / rate for index, at in enumerate(sorted(times))]
    drift = min(behind[-third:]) - min(behind[:third])
    seconds = (len(times) - third) / rate
    return rate * seconds / (seconds + drift)


def test_pace_can_tell() -> None:
    assert pace([k / 297 for k in range(2000)], 300) == pytest.approx(297, rel=0.001)


def test_arrivals_at_the_server_keep_the_rate_when_service_time_goes_from_5_to_500_ms(
    locust: Locust, server: Any, identity: Identity
) -> None:
    server.delay_seconds = 0.005
    with locust() as run:
        run.swarm(arrivals="constant", rate=300, timeout_seconds=5)
        time.sleep(3)
        server.delay_seconds = 0.5
        time.sleep(3)
        run.stop()
        account = run.load()
    assert pace(server.arrivals, 300) == pytest.approx(300, rel=0.01)
    assert account["run"]["started"] == len(server.arrivals)
    assert account["in_flight"] == account["dropped"] == account["failed"] == 0  # the stop waited for all of them
    identity(account)


def test_poisson_arrivals_reach_the_server_when_the_seed_says(locust: Locust, server: Any) -> None:
    with locust() as run:
        run.swarm(arrivals="poisson", rate=60, seed=4)
        time.sleep(6)
        run.stop()

    def typically_late(seed: int) -> float:
        """Median distance from the schedule of that seed, put as early as the arrivals allow."""
        schedule = Schedule(Plan(constant(60), seed), 0.0)
        behind = [at - schedule.take() for at in server.arrivals]
        return statistics.median(behind) - min(behind)

    # The schedule's gaps are tested to be exponential where there is no machine in between.
    assert typically_late(seed=4) < 0.05
    assert typically_late(seed=5) > 0.05


def test_one_second_of_stall_shows_in_p99_and_no_burst_follows(locust: Locust, server: Any, identity: Identity) -> None:
    server.delay_seconds = 0.005
    with locust() as run:
        run.swarm(arrivals="constant", rate=100, timeout_seconds=5)
        run.wait(lambda now: now["completed"] >= 500, 30)
        stall = time.monotonic()
        server.hold_until = stall + 1
        run.wait(lambda now: now["completed"] >= 2000, 40)
        total = run.stats()["stats"][-1]
        metrics = run.metrics()
        run.stop()
        account = run.load()
    assert total["response_time_percentile_0.99"] >= 700
    assert total["response_time_percentile_0.99"] <= total["max_response_time"]
    assert quantile(metrics, 0.99) >= 0.7
    assert account["dropped"] == 0
    identity(account)
    # During the stall and after it the server sees the schedule's own 100 a second, and nothing in addition: no
    # arrival comes before the instant that its place in the row gives it.
    behind = [at - index / 100 for index, at in enumerate(server.arrivals)]
    assert min(behind[500:]) >= min(behind[:500]) - 0.01
    assert pace(server.arrivals, 100) == pytest.approx(100, rel=0.01)
    assert len(server.arrivals) == account["offered"]


def test_a_frozen_server_shows_at_once_and_the_cap_drops(locust: Locust, server: Any, identity: Identity) -> None:
    with locust() as run:
        run.swarm(arrivals="constant", rate=50, user_count=40, timeout_seconds=4)
        run.wait(lambda now: now["completed"] >= 50, 20)
        server.hold_until = time.monotonic() + 60
        frozen = run.wait(lambda now: now["oldest_in_flight_seconds"] > 1.5, 4)
        assert frozen["in_flight"] == 40  # the cap
        assert frozen["dropped"] > 10
        assert run.metrics()["loadgen_oldest_in_flight_seconds"] > 1.5
        assert run.metrics()["loadgen_in_flight"] == 40
        failed = run.wait(lambda now: now["failed"] >= 40, 10)  # they time out, and others take their place
        identity(failed)
        errors = {each["error"]: each["occurrences"] for each in run.stats()["errors"]}
        metrics = run.metrics()
        run.stop()
        account = run.load()
    assert any("dropped: the cap on requests in flight is reached" in error for error in errors)
    assert any("timed out" in error for error in errors)
    assert metrics['loadgen_arrivals_total{state="dropped"}'] >= frozen["dropped"]
    answered = sum(value for key, value in metrics.items() if key.startswith(HISTOGRAM + "_count"))
    assert answered <= account["started"]  # a drop has no latency and is in no histogram
    assert account["in_flight"] == 0
    identity(account)


def test_latency_counts_from_the_scheduled_instant_and_service_time_from_the_send(locust: Locust, server: Any) -> None:
    server.delay_seconds = 0.1
    with locust() as run:
        run.swarm(arrivals="constant", rate=50)
        run.wait(lambda now: now["completed"] >= 100, 20)
        run.stop()
        metrics = run.metrics()
        figures = run.stats()["stats"][-1]
    ok = '{name="/predict",outcome="ok"}'
    count = metrics[f"{HISTOGRAM}_count{ok}"]
    total = metrics[f"{HISTOGRAM}_sum{ok}"]
    service = metrics[f"loadgen_service_duration_seconds_sum{ok}"]
    lateness = metrics["loadgen_dispatch_lateness_seconds_sum"]
    assert (
        metrics["loadgen_dispatch_lateness_seconds_count"] == count == figures["num_requests"] == len(server.arrivals)
    )
    assert service / count >= 0.1
    assert lateness / count > 1e-6
    assert total - service == pytest.approx(lateness, rel=1e-6)  # request by request, so also in the sums
    assert figures["avg_response_time"] == pytest.approx(1000 * total / count, rel=1e-6)  # and so in Locust's figures


def test_an_edit_of_the_rate_takes_effect_within_two_seconds(locust: Locust, server: Any, identity: Identity) -> None:
    with locust() as run:
        run.swarm(arrivals="constant", rate=50)
        run.wait(lambda now: now["completed"] >= 50, 20)
        edited = time.monotonic()
        run.swarm(rate=200)
        run.wait(lambda now: now["target_rate"] == 200, 2)
        time.sleep(max(0.0, edited + 4.2 - time.monotonic()))
        assert run.metrics()["loadgen_target_rate"] == 200
        run.stop()
        account = run.load()
        assert run.metrics()["loadgen_target_rate"] == 0
    assert server.rate(edited + 2, edited + 4) == pytest.approx(200, rel=0.2)
    assert account["started"] == len(server.arrivals)
    assert account["dropped"] == 0
    identity(account)


def test_an_edit_of_the_cap_alone_does_not_begin_the_steps_again(locust: Locust, server: Any) -> None:
    with locust() as run:
        run.swarm(arrivals="steps", steps="20:1.5,60:60", user_count=20)
        run.wait(lambda now: now["target_rate"] == 60, 10)
        run.swarm(user_count=30, timeout_seconds=3)
        assert run.load()["target_rate"] == 60
        assert run.stats()["user_count"] == 30
        run.swarm(steps="35:60", user_count=10)
        assert run.load()["target_rate"] == 35
        run.wait(lambda now: run.stats()["user_count"] == 10, 10)


@pytest.mark.parametrize(
    ("form", "at_first", "later"),
    [
        ({"arrivals": "ramp", "rate": 20, "ramp_to_rate": 80, "ramp_seconds": 2}, (20, 80), (80, 80)),
        (
            {"arrivals": "spike", "rate": 20, "spike_rate": 90, "spike_after_seconds": 1.5, "spike_seconds": 60},
            (20, 20),
            (90, 90),
        ),
    ],
    ids=["ramp", "spike"],
)
def test_shapes(
    locust: Locust, form: dict[str, Any], at_first: tuple[float, float], later: tuple[float, float]
) -> None:
    with locust() as run:
        run.swarm(**form)
        first = run.wait(lambda now: now["target_rate"] > 0, 5)["target_rate"]
        assert at_first[0] <= first <= at_first[1]
        run.wait(lambda now: later[0] <= now["target_rate"] <= later[1], 10)


def test_every_outcome_is_counted_where_it_belongs(locust: Locust, server: Any, identity: Identity) -> None:
    server.replies = [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 5\r\n\r\nwrong",
        b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n",
        b"",  # hangs up
    ]
    with locust() as run:
        run.swarm(arrivals="constant", rate=60)
        run.wait(lambda now: now["started"] >= 120, 20)
        run.stop()
        account = run.load()
        metrics = run.metrics()
        log = run.output
    sixth = len(server.arrivals) / 6
    counts = {
        outcome: metrics[f'{HISTOGRAM}_count{{name="/predict",outcome="{outcome}"}}']
        for outcome in ("ok", "client_error", "shed", "failed")
    }
    for outcome, shares in {"ok": 1, "client_error": 1, "shed": 2, "failed": 2}.items():
        assert counts[outcome] == pytest.approx(sixth * shares, abs=shares)
    assert account["completed"] == counts["ok"]
    assert account["failed"] == counts["client_error"] + counts["shed"] + counts["failed"]
    assert account["started"] == len(server.arrivals)  # none sent twice
    identity(account)
    assert log.count("the first reply with status 400 says: wrong") == 1


def test_a_stop_waits_for_requests_under_way(locust: Locust, server: Any, identity: Identity) -> None:
    server.delay_seconds = 1.0
    with locust() as run:
        run.swarm(arrivals="constant", rate=20)
        run.wait(lambda now: now["in_flight"] >= 10, 20)
        run.stop()
        account = run.load()
        assert account["in_flight"] == account["unfinished"] == account["failed"] == 0
        assert account["completed"] == len(server.arrivals)
        identity(account)
        # And a second run on the same process starts from nothing.
        server.delay_seconds = 0.0
        run.swarm(arrivals="constant", rate=20)
        again = run.wait(lambda now: now["run"]["completed"] >= 10, 20)
        assert again["run"]["offered"] < account["offered"] + 10
        run.stop()
        identity(run.load()["run"] | {"in_flight": 0})


def test_the_closed_loop_class_asks_one_after_the_other(locust: Locust, server: Any, identity: Identity) -> None:
    server.delay_seconds = 0.05
    with locust() as run:
        run.swarm(user_classes="ClosedLoopUser", user_count=2)
        run.wait(lambda now: now["completed"] >= 40, 20)
        now = run.load()
        assert now["in_flight"] <= 2
        assert now["target_rate"] == 0  # no schedule
        run.stop()
        identity(run.load())
    assert server.rate(server.arrivals[0], server.arrivals[-1]) < 41  # two users, 50 ms each
