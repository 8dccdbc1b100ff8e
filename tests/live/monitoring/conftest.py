"""Ports for a stack that lives as long as a module."""

import random
import socket
from collections.abc import Callable

import pytest


@pytest.fixture(scope="module")
def module_port() -> Callable[[], int]:
    """Like `free_port`, for fixtures of a module: a free loopback port, a different one at each call."""
    given: set[int] = set()

    def take() -> int:
        while True:
            port = random.randrange(20_000, 32_000)
            if port in given:
                continue
            given.add(port)
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            return port

    return take
