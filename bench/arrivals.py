"""Open-loop load on a server from `bench.open_loop`, in a process of its own."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from bench.open_loop import Answer, Order
from bench.programs import ROOT, Program, ProgramFailed
from bench.rig import NotMeasured, Rig, Served

CAP: Final = 1024  # connections
GRACE_SECONDS: Final = 1.5  # the service's deadline and a little
WARM_UP_SECONDS: Final = 1.0
_LIMIT_SECONDS: Final = 30.0  # beyond the time that it was asked to send


def send(
    rig: Rig,
    served: Served,
    rate: float,
    seconds: float,
    within: Sequence[float],
    warm_up_seconds: float = WARM_UP_SECONDS,
    seed: int = 1,
) -> Answer:
    """Poisson arrivals for that long. Raises NotMeasured if the client or the server does not live through it."""
    order = Order(
        url=served.url,
        body=served.request.body.decode("latin-1"),
        headers=dict(served.request.headers),
        rate=rate,
        warm_up_seconds=warm_up_seconds,
        seconds=seconds,
        grace_seconds=GRACE_SECONDS,
        cap=CAP,
        seed=seed,
    )
    limit = warm_up_seconds + seconds + GRACE_SECONDS + _LIMIT_SECONDS
    argv = [sys.executable, "-m", "bench.open_loop"]
    with Program(argv, os.environ, ROOT, rig.logs / "open-loop.log", rig.generator_cpus, talks=True) as client:
        try:
            line = client.ask(json.dumps({**asdict(order), "within": list(within)}), limit)
        except ProgramFailed as error:
            raise NotMeasured(f"the open-loop client failed: {error}") from error
    answer = Answer(**json.loads(line))
    if (code := served.program.ended()) is not None:
        raise NotMeasured(f"it ended with exit code {code} under load{served.program.tail()}")
    return answer
