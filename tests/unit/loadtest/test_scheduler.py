"""Arrivals meet users, on a fake clock and in the test's own thread."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtest.account import COUNTS, Account
from loadtest.analysis.samples import End
from loadtest.arrivals import Plan, Share, Trace, constant
from loadtest.scheduler import Scheduler


class World:
    """A scheduler with a clock that only the test moves, and users that note what they are given."""

    def __init__(self) -> None:
        self.now = 0.0
        self.drops: list[float] = []  # how late
        self.account = Account()
        self.scheduler = Scheduler(self.account, lambda: self.now, self.drop)

    def drop(self, late_seconds: float) -> None:
        self.drops.append(late_seconds)

    def user(self, name: str = "") -> "FakeUser":
        user = FakeUser(name)
        self.scheduler.join(user)
        return user

    def go_to(self, now: float) -> float:
        self.now = now
        return self.scheduler.run_once()


class FakeUser:
    def __init__(self, name: str) -> None:
        self.name = name
        self.given: list[tuple[int, float]] = []

    def take_arrival(self, number: int, scheduled: float) -> None:
        self.given.append((number, scheduled))


@pytest.fixture
def world() -> World:
    return World()


def every_second(rate: float = 1) -> Plan:
    return Plan(constant(rate), even=True)


def test_without_a_plan_or_without_users_there_is_nothing_to_wait_for(world: World) -> None:
    assert world.scheduler.run_once() == math.inf
    world.scheduler.follow(every_second())
    assert world.scheduler.run_once() == math.inf
    assert world.scheduler.rate() == 0


def test_time_begins_when_there_is_a_user(world: World) -> None:
    world.scheduler.follow(every_second())
    world.now = 50
    assert world.scheduler.join(FakeUser("first"))  # the scheduler is to run
    assert world.scheduler.run_once() == pytest.approx(1)
    assert not world.scheduler.join(FakeUser("second"))
    world.go_to(51)
    assert world.account.offered == 1


def test_an_arrival_goes_to_a_free_user_with_its_scheduled_instant(world: World) -> None:
    world.scheduler.follow(every_second())
    user = world.user()
    world.go_to(0)
    assert world.go_to(1.25) == pytest.approx(0.75)  # woken late; the next is due at 2 all the same
    assert user.given == [(0, 1.0)]
    assert world.account.in_flight == {0: 1.0}


def test_last_in_first_out(world: World) -> None:
    world.scheduler.follow(every_second())
    cold, warm = world.user("cold"), world.user("warm")
    world.go_to(0)
    for now in (1, 2, 3):
        world.go_to(now)
        world.scheduler.join(warm)
    assert (len(warm.given), len(cold.given)) == (3, 0)


def test_an_arrival_without_a_free_user_is_dropped_not_kept(world: World) -> None:
    world.scheduler.follow(every_second())
    user = world.user()
    world.go_to(0)
    world.go_to(3.5)  # three are due, one user is there
    assert (world.account.started, world.account.dropped, world.drops) == (1, 2, [1.5, 0.5])
    world.scheduler.join(user)
    world.scheduler.run_once()
    assert len(user.given) == 1  # the dropped ones do not come back
    world.go_to(4)
    assert [scheduled for _, scheduled in user.given] == [1, 4]


def test_a_stalled_server_is_followed_by_no_burst(world: World) -> None:
    """Three users wait through a stall; when they are free again only the schedule's own arrivals come."""
    world.scheduler.follow(every_second(10))
    users = [world.user() for _ in range(3)]
    world.go_to(0)
    for tick in range(1, 101):
        world.go_to(tick / 100)  # a whole second of stall: nobody comes back
    assert (world.account.started, world.account.dropped) == (3, 7)
    for number, user in enumerate(users):
        world.account.finish(number, End.OK)
        world.scheduler.join(user)
    world.go_to(1.05)
    assert world.account.offered == 10
    world.go_to(1.1)
    assert (world.account.offered, world.account.started) == (11, 4)


def test_a_late_scheduler_releases_everything_due_with_each_its_own_instant(world: World) -> None:
    world.scheduler.follow(every_second(10))
    users = [world.user() for _ in range(8)]
    world.go_to(0)
    world.go_to(0.5)
    assert sorted(scheduled for user in users for _, scheduled in user.given) == pytest.approx(
        [0.1, 0.2, 0.3, 0.4, 0.5]
    )


def test_a_scheduler_too_slow_for_its_rate_still_comes_back(world: World) -> None:
    """Each release takes longer than a gap: were `now` read anew in the loop, it would never end."""
    slow = Scheduler(world.account, lambda: world.now, lambda late: setattr(world, "now", world.now + 1))
    slow.follow(every_second(10))
    slow.join(FakeUser("busy"))
    slow.run_once()
    world.now = 1.0
    assert slow.run_once() < 0  # already due again; the caller lets others run first
    assert world.account.offered == 10


def test_a_user_that_leaves_gets_nothing(world: World) -> None:
    world.scheduler.follow(every_second())
    staying, leaving = world.user(), world.user()
    world.go_to(0)
    assert world.scheduler.leave(leaving)
    assert not world.scheduler.leave(leaving)
    world.go_to(1)
    assert (len(staying.given), len(leaving.given)) == (1, 0)


def test_an_edit_releases_what_is_due_and_goes_on_from_now(world: World) -> None:
    world.scheduler.follow(every_second(1))
    users = [world.user() for _ in range(9)]
    world.go_to(0)
    world.now = 2.5
    world.scheduler.follow(every_second(10))
    assert world.account.offered == 2
    assert world.scheduler.rate() == 10
    world.go_to(2.71)
    assert sorted(at for user in users for _, at in user.given) == pytest.approx([1, 2, 2.55, 2.65])


@pytest.mark.parametrize("trace", [None, Trace([k / 7 for k in range(200)])], ids=["even", "trace"])
@pytest.mark.parametrize("told", [4.1, 4.8], ids=["in time", "late"])
def test_when_a_worker_is_lost_the_others_take_over_at_the_same_place_of_the_load(
    trace: Trace | None, told: float
) -> None:
    """Their users came at different times, so that their curves are not equally far when they are told."""
    zeros, handover = (0.0, 0.4, 0.2), 4.3

    def plan(index: int, workers: int, begun: float = 0.0) -> Plan:
        return Plan(constant(1 if trace else 7), even=True, share=Share(index, workers), trace=trace, begun=begun)

    def made(world: World, zero: float, until: float) -> list[int]:
        while world.now < until:
            world.go_to(round(world.now + 0.1, 6))
        return [round((at - zero) * 7) for user in users[zero] for _, at in user.given]

    users, worlds = {}, {}
    for index, zero in enumerate(zeros):
        world = worlds[zero] = World()
        users[zero] = [world.user() for _ in range(70)]
        world.scheduler.follow(plan(index, 3), 10.0)
        world.go_to(zero)
    lost_made = made(worlds[0.4], 0.4, 3.0)  # then it is lost
    numbers = list(lost_made)
    for index, zero in enumerate((0.0, 0.2)):
        made(worlds[zero], zero, told)
        worlds[zero].scheduler.follow(plan(index, 2, handover), 10.0)
        mine = made(worlds[zero], zero, 12.0)
        assert len(mine) == len(set(mine))
        numbers += mine
    if told > handover:
        return
    whole = range(0 if trace else 1, 70)
    share = [number for number in whole if (number - whole[0]) % 3 == 1 and number / 7 <= handover]
    assert len(numbers) == len(set(numbers)), "none twice"
    assert set(whole) - set(numbers) == set(share) - set(lost_made) != set(), "what the lost one had, and no more"


def test_stop_counts_what_was_due_and_then_nothing(world: World) -> None:
    world.scheduler.follow(every_second())
    world.user()
    world.go_to(0)
    world.now = 2.0
    world.scheduler.stop()
    assert (world.account.offered, world.account.started, world.account.dropped) == (2, 1, 1)
    assert world.go_to(99) == math.inf
    assert world.account.offered == 2
    assert world.scheduler.rate() == 0


# What may happen next: time passes, a request ends (well or not, or cut short), an edit.
steps = st.lists(
    st.tuples(
        st.sampled_from(["pass", "pass", "ok", "failed", "cut", "edit", "leave"]),
        st.floats(0.0, 0.7),
        st.integers(0, 9),
    ),
    max_size=80,
)


@settings(deadline=None)
@given(steps, st.integers(1, 5))
def test_every_arrival_is_accounted_for_whatever_happens(events: list[tuple[str, float, int]], cap: int) -> None:
    world = World()
    world.scheduler.follow(every_second(7))
    users = [world.user(str(index)) for index in range(cap)]
    serving: dict[int, FakeUser] = {}
    seen: set[int] = set()
    world.scheduler.run_once()
    endings: dict[str, Callable[[int], None]] = {
        "ok": lambda number: world.account.finish(number, End.OK),
        "failed": lambda number: world.account.finish(number, End.FAILED, "HTTP 500"),
        "cut": world.account.cut_short,
    }
    for event, seconds, which in events:
        if event in endings and serving:
            number = sorted(serving)[which % len(serving)]
            endings[event](number)
            world.scheduler.join(serving.pop(number))
        elif event == "edit":
            world.scheduler.follow(every_second(1 + which))
        elif event == "leave":
            world.scheduler.leave(users[which % cap])
        world.go_to(world.now + seconds)
        for user in users:
            for number, scheduled in user.given:
                assert number not in seen  # never given twice
                assert scheduled <= world.now
                seen.add(number)
                serving[number] = user
            user.given.clear()
        account = world.account
        assert account.offered == account.started + account.dropped
        assert account.started == account.completed + account.failed + account.unfinished + len(account.in_flight)
        assert set(account.in_flight) == set(serving)
        assert len(world.drops) == account.dropped
        assert account.oldest_seconds(world.now) == pytest.approx(
            max((world.now - at for at in account.in_flight.values()), default=0)
        )
        assert all(earlier <= later for earlier, later in pairwise(account.in_flight.values()))


def test_counts_by_name() -> None:
    account = Account()
    account.drop(1.0, 1.0)
    account.finish(account.start(1.0), End.OK)
    account.finish(account.start(1.0), End.FAILED, "HTTP 500")
    account.cut_short(account.start(1.0))
    account.start(2.0)
    assert account.counts() == dict(zip(COUNTS, (5, 4, 1, 1, 1, 1), strict=True))
    assert account.oldest_seconds(5.0) == 3
