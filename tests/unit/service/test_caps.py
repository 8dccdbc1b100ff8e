"""Hidden caps of the machine below the queue's capacity: raised where the machine lets us, refused where not."""

import pytest

from service.caps import Caps, Machine, plan
from service.settings import Settings, SettingsError


@pytest.mark.parametrize(
    ("soft", "hard", "backlog", "caps"),
    [
        (1024, 1048576, 4096, Caps(descriptors=1024 + 2048, backlog=4096)),
        (65536, 1048576, None, Caps(descriptors=65536, backlog=4096)),  # never lowered
        (1024, 2000, 4096, Caps(descriptors=2000, backlog=4096)),  # as far as it goes
    ],
)
def test_what_is_asked_for(soft: int, hard: int, backlog: int | None, caps: Caps) -> None:
    assert plan(Settings(), Machine(soft, hard, backlog)) == caps


@pytest.mark.parametrize(
    ("machine", "sentence"),
    [
        (
            Machine(256, 1024, 4096),
            "SERVICE_QUEUE_CAPACITY_ROWS is 1024, but the limit on open files (ulimit -Hn) is 1024, room for 896 "
            "waiting connections; expected a higher limit or a smaller queue",
        ),
        (
            Machine(1024, 1048576, 128),
            "SERVICE_QUEUE_CAPACITY_ROWS is 1024, but the kernel queues at most 128 new connections "
            "(net.core.somaxconn); expected a higher limit or a smaller queue",
        ),
    ],
)
def test_a_hidden_cap_is_refused(machine: Machine, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        plan(Settings(), machine)
    assert str(caught.value) == sentence
