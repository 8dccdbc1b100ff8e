"""`docker compose down -v` leaves nothing. The last module: whatever ran before runs no more."""

import time
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(1200)


def test_taken_down_nothing_is_left(compose: Any) -> None:
    started = time.monotonic()
    compose.down()
    compose.figures["down"] = time.monotonic() - started
    for what in (("container", "ls", "--all"), ("volume", "ls"), ("network", "ls")):
        assert compose.left(*what) == [], what
