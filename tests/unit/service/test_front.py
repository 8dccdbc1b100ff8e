"""What only the ASGI front does: bodies in pieces, limits while reading, clients that leave, polite closing."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from service import front
from service.delivery import deliver

HEADERS = [(b"content-type", b"application/json")]
BODY = json.dumps({"instances": [[1, 2, 3]]}).encode()


def run(world: Any, scope: dict[str, Any], link: Any) -> Any:
    asyncio.run(world.front(scope, link.receive, link.send))
    return link.answer


def test_a_body_in_pieces(build: Callable[[], Any], scope: Callable[..., Any], connection: Any) -> None:
    link = connection([BODY[:5], b"", BODY[5:]])
    assert run(build(), scope("POST", "/predict", HEADERS), link).json == {"predictions": [6.0]}


def test_a_stated_length_beyond_the_limit_is_refused_unread(
    build: Callable[[], Any], scope: Callable[..., Any], connection: Any
) -> None:
    link = connection([b"x"])
    answer = run(build(), scope("POST", "/predict", [*HEADERS, (b"content-length", b"2001")]), link)
    assert answer.status == 413
    assert answer.json["error"].startswith("the body has 2001 bytes; expected at most 2000 bytes")
    assert link.received == 0


def test_a_body_of_unknown_length_is_read_to_the_limit_only(
    build: Callable[[], Any], scope: Callable[..., Any], connection: Any
) -> None:
    link = connection([b"x" * 900] * 1000)
    answer = run(build(), scope("POST", "/predict", [*HEADERS, (b"transfer-encoding", b"chunked")]), link)
    assert answer.status == 413
    assert answer.json["error"].startswith("the body has more bytes than are read; expected at most 2000 bytes")
    assert link.received == 3


def test_a_body_that_does_not_come_is_given_up(
    build: Callable[[], Any], scope: Callable[..., Any], connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "BODY_SECONDS", 0.0)
    link = connection([b"{"])
    receive = link.receive

    async def trickle() -> dict[str, Any]:
        return {**await receive(), "more_body": True}

    link.receive = trickle
    answer = run(build(), scope("POST", "/predict", HEADERS), link)
    assert (answer.status, answer.json) == (408, {"error": "the body was not complete after 0 s"})


def test_a_client_that_leaves_while_sending_is_forgotten(
    build: Callable[[], Any], scope: Callable[..., Any], connection: Any
) -> None:
    world, link = build(), connection([])
    link.leave()
    asyncio.run(world.front(scope("POST", "/predict", HEADERS), link.receive, link.send))
    assert link.sent == []
    assert world.records == []


def test_a_client_that_leaves_while_waiting_frees_its_rows(
    build: Callable[[], Any], scope: Callable[..., Any], connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "PATIENCE_SECONDS", 0.0)
    world, link = build(), connection([BODY])
    world.batcher.holds, world.batcher.on_hold = True, link.leave
    asyncio.run(world.front(scope("POST", "/predict", HEADERS), link.receive, link.send))
    assert link.sent == []
    assert world.batcher.cancelled == world.batcher.submitted
    assert world.handler.in_flight == 0
    (record,) = world.records
    assert (record.outcome, record.reason, record.status) == ("failed", "client_gone", 499)


def test_a_quick_request_is_not_watched(build: Callable[[], Any], scope: Callable[..., Any], connection: Any) -> None:
    link = connection([BODY])
    run(build(), scope("POST", "/predict", HEADERS), link)
    assert link.received == 1


def test_a_watched_request_that_is_answered_leaves_nothing_behind(
    build: Callable[[], Any], scope: Callable[..., Any], connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "PATIENCE_SECONDS", 0.0)
    world = build()
    world.batcher.holds = True

    async def session() -> Any:
        link = connection([BODY])
        request = asyncio.create_task(world.front(scope("POST", "/predict", HEADERS), link.receive, link.send))
        while not world.front._watchers:
            await asyncio.sleep(0)
        (ticket,) = world.batcher.submitted
        world.batcher.answer(ticket)
        deliver([ticket])
        await request
        return link.answer, asyncio.all_tasks() - {asyncio.current_task()}

    answer, tasks = asyncio.run(session())
    assert answer.json == {"predictions": [6.0]}
    assert not world.front._watchers
    assert all(task.cancelled() or task.cancelling() for task in tasks)


def test_many_requests_are_answered_by_one_wake(
    build: Callable[[], Any], scope: Callable[..., Any], connection: Any
) -> None:
    """The loop is woken once per batch, and each caller gets its own rows."""
    world = build()
    world.batcher.holds = True
    wakes = []

    async def session() -> list[Any]:
        loop = asyncio.get_running_loop()
        links = [connection([json.dumps({"instances": [[n, 0, 0]]}).encode()]) for n in range(64)]
        requests = [
            asyncio.create_task(world.front(scope("POST", "/predict", HEADERS), link.receive, link.send))
            for link in links
        ]
        while len(world.batcher.submitted) < 64:
            await asyncio.sleep(0)
        for ticket in world.batcher.submitted:
            world.batcher.answer(ticket)
        original = loop.call_soon_threadsafe

        def counted(*args: Any) -> Any:
            wakes.append(args)
            return original(*args)

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign]
        deliver(world.batcher.submitted)
        await asyncio.gather(*requests)
        return [link.answer.json for link in links]

    assert asyncio.run(session()) == [{"predictions": [float(n)]} for n in range(64)]
    assert len(wakes) == 1


def test_a_server_that_gives_up_records_the_request(
    build: Callable[[], Any], scope: Callable[..., Any], connection: Any
) -> None:
    world = build()
    world.batcher.holds = True

    async def session() -> None:
        link = connection([BODY])
        request = asyncio.create_task(world.front(scope("POST", "/predict", HEADERS), link.receive, link.send))
        while not world.batcher.submitted:
            await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(session())
    assert world.handler.in_flight == 0
    assert [record.outcome for record in world.records] == ["failed"]


@pytest.mark.parametrize(("method", "path"), [("POST", "/predict"), ("GET", "/healthz"), ("GET", "/nowhere")])
def test_connections_are_closed_politely_while_draining(
    build: Callable[[], Any], scope: Callable[..., Any], connection: Any, method: str, path: str
) -> None:
    for draining in (False, True):
        world, link = build(), connection([BODY])
        world.health.draining = draining
        answer = run(world, scope(method, path, HEADERS), link)
        assert answer.headers.get("connection") == ("close" if draining else None)
        assert answer.status == (404 if path == "/nowhere" else 200)


def test_flask_never_waits_for_a_body(build: Callable[[], Any], scope: Callable[..., Any], connection: Any) -> None:
    """A client that states a body and never sends it must not hold one of Flask's threads."""
    link = connection([])
    answer = run(build(), scope("POST", "/healthz", [(b"content-length", b"100")]), link)
    assert answer.status == 405
    assert link.received == 0
