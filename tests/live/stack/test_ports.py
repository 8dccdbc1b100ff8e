"""Busy ports: who holds them, and what to set."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psutil
import pytest

from stack.ports import Claim, PortsTaken, check, holder


@pytest.fixture
def listen() -> Iterator[Callable[..., int]]:
    with ExitStack() as sockets:

        def open_one(host: str = "127.0.0.1") -> int:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            server = sockets.enter_context(socket.socket(family))
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((host, 0))
            server.listen()
            port: int = server.getsockname()[1]
            return port

        yield open_one


def test_free_ports_pass_and_stay_free(free_port: Callable[[], int]) -> None:
    claims = [Claim(free_port(), "A_PORT", "a"), Claim(free_port(), "B_PORT", "b")]
    check(claims)
    check(claims)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_busy_port_names_its_holder_and_a_free_port_to_move_to(listen: Callable[..., int], host: str) -> None:
    port = listen(host)
    with pytest.raises(PortsTaken) as caught:
        check([Claim(port, "PROMETHEUS_PORT", "Prometheus")])
    sentence = str(caught.value)
    assert sentence.startswith(f"port {port} (Prometheus) is held by ")
    assert "pytest" in sentence, "this process holds it"
    assert "or move ours: PROMETHEUS_PORT=" in sentence
    suggested = int(sentence.rpartition("=")[2])
    check([Claim(suggested, "PROMETHEUS_PORT", "Prometheus")])


def test_all_busy_ports_are_told_at_once_and_no_suggestion_twice(listen: Callable[..., int]) -> None:
    ports = [listen(), listen()]
    with pytest.raises(PortsTaken) as caught:
        check([Claim(port, f"P{port}", "x") for port in ports])
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert len({line.rpartition("=")[2] for line in lines}) == 2


def test_two_parts_on_one_port_is_a_mistake_of_the_settings(free_port: Callable[[], int]) -> None:
    port = free_port()
    with pytest.raises(PortsTaken, match=f"A_PORT and B_PORT are both {port}; expected a port of its own for each"):
        check([Claim(port, "A_PORT", "a"), Claim(port, "B_PORT", "b")])


def test_a_connection_that_lingers_is_no_obstacle(listen: Callable[..., int], free_port: Callable[[], int]) -> None:
    port = free_port()
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen()
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        accepted.close()  # closed first on this side: TIME_WAIT stays here
        client.close()
    check([Claim(port, "A_PORT", "a")])


def test_a_passing_connection_on_that_port_is_told_apart_from_a_listener(listen: Callable[..., int]) -> None:
    server = listen()
    with socket.create_connection(("127.0.0.1", server)) as client:
        port = client.getsockname()[1]
        with pytest.raises(PortsTaken, match=rf"port {port} \(x\) is held by a passing connection of .*pytest"):
            check([Claim(port, "X_PORT", "x")])


def test_a_holder_of_another_user_is_said_to_be(listen: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    port = listen()
    seen = [connection._replace(pid=None) for connection in psutil.net_connections(kind="tcp")]
    monkeypatch.setattr(psutil, "net_connections", lambda kind: seen)
    assert holder(port) == "a process of another user"
    monkeypatch.setattr(psutil, "net_connections", lambda kind: [])
    assert holder(port) == "a process that cannot be seen from here"
